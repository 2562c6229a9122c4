//! `narthex test rules`: verdicts and texts as recorded from promtool, its other forms of output, and watching.

use crate::support::{self, PATIENCE};
use narthex_testkit::{
    TempDir, corpora,
    process::{Finished, Spawn},
};
use std::path::Path;

const RECORDED: &str = include_str!("../rules/unit_tests.txt");

/// Test files of Prometheus, with promtool's exit codes.
const CORPUS: [(&str, i32); 15] = [
    ("at-modifier-test.yml", 0),
    ("bad-input-series.yml", 1),
    ("bad-promql.yml", 1),
    ("bad-rules-error-test.yml", 1),
    ("bad-rules-syntax-test.yml", 1),
    ("failing.yml", 1),
    ("long-period.yml", 0),
    ("negative-offset-test.yml", 0),
    ("no-test-group-interval.yml", 0),
    ("rules_run.yml", 1),
    ("rules_run_extrafields.yml", 1),
    ("rules_run_fuzzy.yml", 1),
    ("rules_run_no_fuzzy.yml", 1),
    ("start-time-test.yml", 0),
    ("unittest.yml", 0),
];

/// A case of the recorded ones.
#[derive(Debug, Default)]
struct Recorded<'a> {
    name: &'a str,
    flags: Vec<&'a str>,
    files: Vec<(&'a str, String)>,
    promtool: Option<(i32, String)>,
    /// What differs from it on purpose.
    ours: Option<(i32, String)>,
}

fn recorded() -> Vec<Recorded<'static>> {
    let of_case = |text: &'static str| {
        let mut case = Recorded::default();
        for (at, part) in text.split("\n-- ").enumerate() {
            let (head, body) = part.split_once('\n').unwrap_or((part, ""));
            let (word, rest) = head.split_once(' ').unwrap_or((head, ""));
            let lines = || body.lines().map(|line| format!("{line}\n")).collect();
            match word {
                _ if at == 0 => case.name = head,
                "flags" => case.flags = rest.split(' ').collect(),
                "file" => case.files.push((rest, lines())),
                "promtool" => case.promtool = Some((rest.parse().unwrap(), lines())),
                "ours" => case.ours = Some((rest.parse().unwrap(), lines())),
                other => panic!("{other:?} in {}", case.name),
            }
        }
        case
    };
    RECORDED.split("\n== ").skip(1).map(of_case).collect()
}

fn test_rules(program: Spawn, dir: impl AsRef<Path>, flags: &[&str]) -> Finished {
    let words = program.current_dir(dir).args(["test", "rules"]);
    words.args(flags).run(PATIENCE)
}

/// Returns what the tests say, without the lines that only ours have, and without what is said of a whole file: there
/// ours add the file's name and the line.
fn said(errors: &str) -> String {
    let lines = errors.lines().map(str::trim_end).filter(|line| {
        let of_file = line.starts_with("    series: ") || line.starts_with("        at: ");
        line.starts_with("    ") && !of_file
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn tests_of_rules_end_as_in_promtool() {
    let cases = recorded();
    assert!(cases.len() > 80, "{}", cases.len());
    for case in cases {
        let dir = TempDir::new("unit-tests");
        for (name, text) in &case.files {
            dir.write(name, text);
        }
        let mut flags = case.flags.clone();
        flags.push("test.yml");
        let (code, text) = case.promtool.as_ref().unwrap();
        if let Some(newest) = std::env::var_os("NARTHEX_PROMTOOL") {
            let theirs = test_rules(Spawn::new(newest), &dir, &flags);
            assert_eq!(theirs.exit.code, Some(*code), "{}", case.name);
            assert_eq!(said(&theirs.stderr), said(text), "{}", case.name);
        }
        let (code, text) = case.ours.as_ref().unwrap_or(&(*code, text.clone())).clone();
        let ours = test_rules(support::narthex(), &dir, &flags);
        let shown = format!("{}\n{}{}", case.name, ours.stdout, ours.stderr);
        assert_eq!(ours.exit.code, Some(code), "{shown}");
        assert_eq!(said(&ours.stderr), said(&text), "{shown}");
        assert_eq!(ours.stdout.contains("  SUCCESS\n"), code == 0, "{shown}");
        assert_eq!(ours.stderr.contains("  FAILED:\n"), code == 1, "{shown}");
    }
}

#[test]
fn test_files_of_prometheus_end_as_in_promtool() {
    let Some(dir) = corpora::dir("promtool") else {
        return corpora::report("promtool tests", 0, CORPUS.len());
    };
    for (file, code) in CORPUS {
        let found = test_rules(support::narthex(), &dir, &[file]);
        let shown = format!("{file}\n{}{}", found.stdout, found.stderr);
        assert_eq!(found.exit.code, Some(code), "{shown}");
    }
    let all: Vec<&str> = CORPUS.iter().map(|(file, _)| *file).collect();
    let found = test_rules(support::narthex(), &dir, &all);
    let passed = found.stdout.matches("  SUCCESS\n").count();
    assert_eq!((found.exit.code, passed), (Some(1), 6), "{}", found.stderr);
    let lenient = ["--ignore-unknown-fields", "rules_run_extrafields.yml"];
    let found = test_rules(support::narthex(), &dir, &lenient);
    assert_eq!(found.exit.code, Some(0), "{}", found.stderr);
    let named = ["--run=correct", "rules_run.yml"];
    let found = test_rules(support::narthex(), &dir, &named);
    assert_eq!(found.exit.code, Some(0), "{}", found.stderr);
    corpora::report("promtool tests", CORPUS.len(), CORPUS.len());
}

const TEST: &str = "
rule_files: ['*.rules']
tests:
- name: first
  interval: 1m
  input_series: [{series: up, values: '1x3'}]
  promql_expr_test:
  - {expr: 'rec:up', eval_time: 2m, exp_samples: [{labels: 'rec:up', value: 2}]}
- input_series: [{series: '}', values: '1x3'}]
";

const RULES: &str = "groups: [{name: g, rules: [{record: 'rec:up', expr: up * FACTOR}]}]\n";

#[test]
fn failures_have_places_and_a_document() {
    let dir = TempDir::new("unit-tests-places");
    dir.write("a.rules", RULES.replace("FACTOR", "3"));
    dir.write("test.yml", TEST);
    dir.write("bad.yml", "tests:\n- input: []\n  start_timestamp: soon\n");
    let flags = [
        "--junit", "out.xml", "--debug", "test.yml", "bad.yml", "no.yml",
    ];
    let found = test_rules(support::narthex(), &dir, &flags);
    assert_eq!(found.exit.code, Some(1));
    for part in [
        "exp: {__name__=\"rec:up\"} 2E+00\n        got: {__name__=\"rec:up\"} 3E+00\n        at: test.yml:8:5\n",
        "    series: \"} 1x3\", err: ",
        "        at: test.yml:9:18\n",
        "bad.yml: yaml: unmarshal errors:\n  line 2: field input not found in type main.testGroup\n",
        "bad.yml: 3:20: cannot parse \"soon\" to a valid timestamp\n",
        "no.yml: No such file",
        "DEBUG: Starting test first\n",
        "DEBUG: Test unnamed#1 finished, took ",
        "at 2m1s:\n{__name__=\"rec:up\"} =>\n3 @[0]\n3 @[60000]\n3 @[120000]\n{__name__=\"up\"} =>\n1 @[0]\n",
    ] {
        assert!(found.stderr.contains(part), "{part}\n{}", found.stderr);
    }
    let document = std::fs::read_to_string(dir.join("out.xml")).unwrap();
    for part in [
        "<testsuite name=\"test.yml\" tests=\"2\" failures=\"2\" errors=\"0\"",
        "<testcase name=\"first\"><failure>    expr: &#34;rec:up&#34;, time: 2m,&#xA;",
        "<testsuite name=\"bad.yml\" tests=\"1\" failures=\"0\" errors=\"1\"",
        "<testsuite name=\"no.yml\"",
    ] {
        assert!(document.contains(part), "{part}\n{document}");
    }
    let refused = test_rules(support::narthex(), &dir, &["--run=(", "test.yml"]);
    assert_eq!(refused.exit.code, Some(2));
    assert!(refused.stderr.contains("--run"), "{}", refused.stderr);
}

/// Three files: one with failures and a good test, an invalid one, and one whose rules are invalid.
const DOCUMENTED: [(&str, &str); 5] = [
    (
        "a.rules",
        "groups: [{name: g, rules: [{record: 'rec:up', expr: up * 3}, {alert: Down, expr: up == 0, annotations: {t: 'a <b> & \"c\"'}}]}]\n",
    ),
    (
        "test.yml",
        "rule_files: [a.rules]
tests:
- name: first
  interval: 1m
  input_series: [{series: up, values: '1x3'}]
  promql_expr_test:
  - {expr: 'rec:up', eval_time: 2m, exp_samples: [{labels: 'rec:up', value: 2}]}
  - {expr: 'sum(', eval_time: 2m}
- interval: 1m
  input_series: [{series: up, values: '0x3'}]
  alert_rule_test: [{eval_time: 1m, alertname: Down, exp_alerts: []}]
- {name: good, input_series: []}
",
    ),
    ("bad.yml", "rule_files: [a.rules]\ntests:\n- input: []\n"),
    (
        "invalid.rules",
        "groups: [{name: g, rules: [{record: a, expr: 1 +}]}]\n",
    ),
    (
        "invalid.yml",
        "rule_files: [invalid.rules]\ntests: [{name: a, input_series: []}, {name: b, input_series: []}]\n",
    ),
];

/// What promtool of Prometheus 3.16 writes about them, with a line for each element.
const DOCUMENT: &str = "\
<testsuites>
<testsuite name=\"test.yml\" tests=\"3\" failures=\"3\" errors=\"0\" skipped=\"0\" timestamp=\"\">
<testcase name=\"first\">
<failure>    expr: &#34;rec:up&#34;, time: 2m,&#xA;        exp: {__name__=&#34;rec:up&#34;} 2E+00&#xA;        got: {__name__=&#34;rec:up&#34;} 3E+00</failure>
<failure>    expr: &#34;sum(&#34;, time: 2m, err: 1:5: parse error: unclosed left parenthesis</failure>
</testcase>
<testcase name=\"unnamed#1\">
<failure>    alertname: Down, time: 1m, &#xA;        exp:[], &#xA;        got:[&#xA;            0:&#xA;              Labels:{alertname=&#34;Down&#34;}&#xA;              Annotations:{t=&#34;a &lt;b&gt; &amp; \\&#34;c\\&#34;&#34;}&#xA;            ]</failure>
</testcase>
<testcase name=\"good\">
</testcase>
</testsuite>
<testsuite name=\"bad.yml\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" timestamp=\"\">
<testcase name=\"unknown\">
<error>yaml: unmarshal errors:&#xA;  line 3: field input not found in type main.testGroup</error>
</testcase>
</testsuite>
<testsuite name=\"invalid.yml\" tests=\"2\" failures=\"2\" errors=\"0\" skipped=\"0\" timestamp=\"\">
<testcase name=\"a\">
<failure>invalid.rules: 1:46: group &#34;g&#34;, rule 1, &#34;a&#34;: could not parse expression: 1:4: parse error: unexpected end of input</failure>
</testcase>
<testcase name=\"b\">
<failure>invalid.rules: 1:46: group &#34;g&#34;, rule 1, &#34;a&#34;: could not parse expression: 1:4: parse error: unexpected end of input</failure>
</testcase>
</testsuite>
</testsuites>";

/// Returns a document with a line for each element, without times, places and names of files that only ours has.
fn document(program: Spawn, dir: &TempDir) -> String {
    let flags = [
        "--junit=out.xml",
        "rules",
        "test.yml",
        "bad.yml",
        "invalid.yml",
    ];
    let words = program.current_dir(dir).arg("test").args(flags);
    assert_eq!(words.run(PATIENCE).exit.code, Some(1));
    let text = std::fs::read_to_string(dir.join("out.xml")).unwrap();
    let mut lines = text
        .replace("><", ">\n<")
        .replace("<error>bad.yml: ", "<error>");
    for (begin, end) in [
        (" timestamp=\"", "\">"),
        ("&#xA;        at: test.yml:", "</failure>"),
    ] {
        let mut parts = lines.split(begin);
        let mut kept = parts.next().unwrap().to_owned();
        for part in parts {
            let (_, rest) = part.split_once(end).unwrap();
            let begin = if begin.ends_with('"') { begin } else { "" };
            kept.push_str(&format!("{begin}{end}{rest}"));
        }
        lines = kept;
    }
    lines
}

#[test]
fn documents_are_those_of_promtool() {
    let dir = TempDir::new("unit-tests-document");
    for (name, text) in DOCUMENTED {
        dir.write(name, text);
    }
    if let Some(newest) = std::env::var_os("NARTHEX_PROMTOOL") {
        assert_eq!(document(Spawn::new(newest), &dir), DOCUMENT);
    }
    assert_eq!(document(support::narthex(), &dir), DOCUMENT);
}

#[test]
fn watched_tests_run_again_when_a_file_changes() {
    let dir = TempDir::new("unit-tests-watch");
    let test = TEST.rsplit_once("\n- input").unwrap().0;
    dir.write("test.yml", test);
    dir.write("a.rules", RULES.replace("FACTOR", "3"));
    let spawn = support::narthex().current_dir(&dir);
    let mut watching = spawn.args(["test", "rules", "--watch", "test.yml"]).start();
    let wait = |number: usize, begin: &str| {
        let line = support::until(begin, || {
            watching.stdout().lines().nth(number).map(str::to_owned)
        });
        assert!(line.starts_with(begin), "{line}\n{}", watching.stderr());
    };
    // Whole at once: a file that is being written would be one change more.
    let replace = |name: &str, text: &str| {
        let written = dir.write("written", text);
        std::fs::rename(written, dir.join(name)).unwrap();
    };
    wait(0, "FAILED: 1 test (1 file, 1 test, ");
    replace("a.rules", &RULES.replace("FACTOR", "2.0"));
    wait(1, "SUCCESS (1 file, 1 test, ");
    // Another file that the pattern names.
    replace(
        "b.rules",
        "groups: [{name: h, rules: [{record: a, expr: 1 +}]}]\n",
    );
    wait(2, "FAILED: 1 test (1 file, 1 test, ");
    std::fs::remove_file(dir.join("b.rules")).unwrap();
    wait(3, "SUCCESS (1 file, 1 test, ");
    replace("test.yml", "tests: [\n");
    wait(4, "FAILED: 1 file invalid (1 file, 0 tests, ");
    replace("test.yml", test);
    wait(5, "SUCCESS (1 file, 1 test, ");
    watching.terminate(PATIENCE);
    let shown = watching.stderr();
    assert_eq!(shown.matches("  FAILED:\n").count(), 3, "{shown}");
}
