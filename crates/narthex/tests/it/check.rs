//! `narthex check`: results and exit codes, compared with the real promtool's.

use crate::support::{self, PATIENCE, Running};
use narthex_testkit::{
    TempDir,
    process::{Finished, Spawn},
    tool,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn promtool() -> Spawn {
    Spawn::new(tool("promtool", "prometheus"))
}

fn check(spawn: Spawn, words: &[&str], files: &[&Path]) -> Finished {
    spawn.args(words).args(files).run(PATIENCE)
}

/// Returns a job with one file of targets.
fn listing(file: &str) -> String {
    format!("scrape_configs: [{{job_name: a, file_sd_configs: [{{files: [{file}]}}]}}]\n")
}

/// Returns for each case its name, files, flags and the exit code of both programs.
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn cases(dir: &TempDir) -> Vec<(&'static str, Vec<PathBuf>, Vec<&'static str>, i32)> {
    let write = |name: &str, text: &str| dir.write(name, text);
    write(
        "good.json",
        r#"[{"targets": ["h:1"], "labels": {"a": "b"}}]"#,
    );
    write("bad.json", "[{\"targets\": [\"h:1\"],\n \"labels\": [1]}]");
    write("odd.yml", "- targets: [h:1]\n  lables: {a: b}\n");
    write("url.yml", "- targets: ['http://h/metrics']\n");
    let good = write("good.yml", &listing("good.json"));
    let slow = write(
        "slow.yml",
        "scrape_configs: [{job_name: a, scrape_interval: 10m}]\n",
    );
    let typo = write("typo.yml", "scrape_config: []\n");
    let more = write("more.yml", "scrape_config_files: [jobs.yml]\n");
    write("jobs.yml", "scrape_configs: [{job_name: ''}]\n");
    let bad = write("bad.yml", &listing("bad.json"));
    let lint = "--lint=too-long-scrape-interval";
    vec![
        ("fine", vec![good.clone()], vec![], 0),
        ("no such key", vec![typo.clone()], vec![], 1),
        ("no such file", vec![dir.join("nowhere.yml")], vec![], 1),
        ("one of two", vec![typo, good.clone()], vec![], 1),
        ("a malformed list", vec![bad.clone()], vec![], 1),
        ("only its syntax", vec![bad], vec!["--syntax-only"], 0),
        (
            "a list with a typo",
            vec![write("odd_.yml", &listing("odd.yml"))],
            vec![],
            1,
        ),
        (
            "a list of URLs",
            vec![write("url_.yml", &listing("url.yml"))],
            vec![],
            1,
        ),
        (
            "a list that is not there",
            vec![write("no.yml", &listing("no.json"))],
            vec![],
            0,
        ),
        ("jobs elsewhere", vec![more.clone()], vec![], 1),
        (
            "jobs elsewhere, not looked at",
            vec![more],
            vec!["--syntax-only"],
            0,
        ),
        ("not linted", vec![slow.clone()], vec![], 0),
        ("linted", vec![slow.clone()], vec![lint], 0),
        (
            "linted for good",
            vec![slow.clone()],
            vec![lint, "--lint-fatal"],
            3,
        ),
        (
            "all lints",
            vec![slow.clone()],
            vec!["--lint=all", "--lint-fatal"],
            3,
        ),
        (
            "no lint",
            vec![slow.clone()],
            vec!["--lint=all,none", "--lint-fatal"],
            0,
        ),
        (
            "an unknown lint",
            vec![slow],
            vec!["--lint=shape", "--lint-fatal"],
            0,
        ),
        (
            "fine and linted",
            vec![good],
            vec!["--lint=all", "--lint-fatal"],
            0,
        ),
    ]
}

#[test]
fn configurations_are_judged_as_promtool_judges_them() {
    let dir = TempDir::new("check");
    let words = |flags: &[&'static str]| [&["check", "config"], flags].concat();
    for (name, files, flags, code) in cases(&dir) {
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let ours = check(support::narthex(), &words(&flags), &files);
        assert_eq!(
            ours.exit.code,
            Some(code),
            "{name}: {}{}",
            ours.stdout,
            ours.stderr
        );
        // Debian's release is older and lacks this lint and `scrape_config_files`.
        if flags.iter().any(|flag| flag.starts_with("--lint=")) || name.starts_with("jobs") {
            continue;
        }
        let theirs = check(promtool(), &words(&flags), &files);
        assert_eq!(
            theirs.exit.code,
            Some(code),
            "{name}: {}{}",
            theirs.stdout,
            theirs.stderr
        );
        if name == "no such file" {
            // promtool reports it as an error in its arguments.
            continue;
        }
        let failures = |text: &str| text.matches("FAILED").count();
        assert_eq!(failures(&ours.stderr), failures(&theirs.stderr), "{name}");
        let successes = |text: &str| text.matches("SUCCESS").count();
        assert_eq!(successes(&ours.stdout), successes(&theirs.stdout), "{name}");
    }
    let bad = dir.join("bad.yml");
    let told = check(support::narthex(), &["check", "config"], &[&bad]).stderr;
    assert!(
        told.contains("checking SD file") && told.contains("line 2"),
        "{told}"
    );
    let agent = check(support::narthex(), &["check", "config", "--agent"], &[&bad]);
    assert_eq!(agent.exit.code, Some(2));
    assert!(agent.stderr.contains("--agent"), "{}", agent.stderr);
}

#[test]
fn rules_are_judged_as_promtool_judges_them() {
    let dir = TempDir::new("check-rules");
    let good = dir.write(
        "good.yml",
        "groups: [{name: g, rules: [{record: a, expr: up}, {alert: b, expr: up == 0, annotations: {s: '{{ $value }}'}}]}]\n",
    );
    let twice = dir.write(
        "twice.yml",
        "groups: [{name: g, rules: [{record: a, expr: 1, labels: {x: y}}, {record: a, expr: 2, labels: {x: y}}]}]\n",
    );
    let bad = dir.write(
        "bad.yml",
        "groups:\n- name: g\n  rules:\n  - record: a\n    expr: rate(up)\n",
    );
    let typo = dir.write("typo.yml", "groups: [{name: g, rulez: []}]\n");
    let template = dir.write(
        "template.yml",
        "groups: [{name: g, rules: [{alert: a, expr: 1, annotations: {s: '{{ $label.x }}'}}]}]\n",
    );
    let nowhere = dir.join("nowhere.yml");
    let fatal = "--lint-fatal";
    for (files, flags, code) in [
        (vec![&*good], vec![], 0),
        (vec![&*twice], vec![], 0),
        (vec![&*twice], vec![fatal], 3),
        (vec![&*twice], vec!["--lint=all", fatal], 3),
        (vec![&*twice], vec!["--lint=none", fatal], 0),
        (vec![&*bad, &*good], vec![], 1),
        (vec![&*good, &*twice, &*bad], vec![fatal], 1),
        (vec![&*typo], vec![], 1),
        (vec![&*template], vec![], 1),
    ] {
        let words = [&["check", "rules"], &*flags].concat();
        let ours = check(support::narthex(), &words, &files);
        let theirs = check(promtool(), &words, &files);
        let shown = format!("{files:?} {flags:?}\n{}{}", ours.stdout, ours.stderr);
        assert_eq!(ours.exit.code, Some(code), "{shown}");
        assert_eq!(theirs.exit.code, Some(code), "{shown}");
        // An older release leaves a line empty behind a file that failed.
        let lines = |text: &str| text.replace("\n\n", "\n");
        assert_eq!(lines(&ours.stdout), lines(&theirs.stdout), "{shown}");
        if files == [&*template] {
            assert!(ours.stderr.contains("undefined variable"), "{shown}");
            continue;
        }
        // An older release says some things once, or with less in front.
        for line in theirs.stderr.lines() {
            assert!(ours.stderr.contains(line.trim()), "{shown}\n{line}");
        }
    }
    let lenient = ["check", "rules", "--ignore-unknown-fields"];
    let found = check(support::narthex(), &lenient, &[&typo]);
    assert_eq!(found.exit.code, Some(0), "{}", found.stderr);
    let found = check(support::narthex(), &["check", "rules"], &[&nowhere]);
    assert_eq!(found.exit.code, Some(1), "{}", found.stderr);
}

#[test]
fn rules_of_a_configuration_are_checked() {
    let dir = TempDir::new("check-config-rules");
    dir.write(
        "rules/good.yml",
        "groups: [{name: g, rules: [{record: a, expr: up}]}]\n",
    );
    dir.write(
        "rules/bad.yml",
        "groups: [{name: g, rules: [{record: a, expr: up +}]}]\n",
    );
    let both = dir.write(
        "both.yml",
        "rule_files: [rules/*.yml, rules/good.yml, none/*]\n",
    );
    let good = dir.write("good.yml", "rule_files: [rules/good.yml]\n");
    let missing = dir.write("missing.yml", "rule_files: [rules/none.yml]\n");
    let config = ["check", "config"];
    let alone = ["check", "config", "--syntax-only"];
    for (words, file, code) in [
        (&config[..], &good, 0),
        (&config, &both, 1),
        (&config, &missing, 1),
        (&alone, &both, 0),
        (&alone, &missing, 0),
    ] {
        let ours = check(support::narthex(), words, &[file]);
        let theirs = check(promtool(), words, &[file]);
        let shown = format!("{words:?} {file:?}\n{}{}", ours.stdout, ours.stderr);
        assert_eq!(ours.exit.code, Some(code), "{shown}");
        assert_eq!(theirs.exit.code, Some(code), "{shown}");
    }
    let found = check(support::narthex(), &config, &[&both]);
    assert!(found.stderr.contains("bad.yml: 1:"), "{}", found.stderr);
    for line in ["  SUCCESS: 2 rule files found", "  SUCCESS: 1 rules found"] {
        assert!(found.stdout.contains(line), "{}", found.stdout);
    }
    let good_once = found.stdout.matches("good.yml").count();
    assert_eq!(good_once, 1, "{}", found.stdout);
    let found = check(support::narthex(), &config, &[&missing]);
    assert!(
        found.stderr.contains("does not point to"),
        "{}",
        found.stderr
    );
}

#[test]
fn web_configurations_are_checked() {
    let dir = TempDir::new("check-web");
    let good = dir.write("good.yml", "http_server_config: {http2: false}\n");
    let bad = dir.write("bad.yml", "tls_server_config: {cert_file: nowhere.pem}\n");
    for (files, code) in [(vec![&*good], 0), (vec![&*good, &*bad], 1)] {
        let words = ["check", "web-config"];
        let (ours, theirs) = (
            check(support::narthex(), &words, &files),
            check(promtool(), &words, &files),
        );
        assert_eq!(ours.exit.code, Some(code), "{}", ours.stderr);
        assert_eq!(theirs.exit.code, Some(code), "{}", theirs.stderr);
        let fine = format!("{} SUCCESS\n", good.display());
        assert!(ours.stderr.starts_with(&fine), "{}", ours.stderr);
        assert!(theirs.stderr.starts_with(&fine), "{}", theirs.stderr);
    }
}

#[test]
fn servers_are_asked_whether_they_are_well() {
    let dir = TempDir::new("check-server");
    let config = dir.write("p.yml", "scrape_configs: []\n");
    let users = dir.write(
        "web.yml",
        "basic_auth_users: {dave: $2y$04$abcdefghijklmnopqrstuuT.VdioudKiCP.wBnKnIyRNAu9yUSXv2}\n",
    );
    let server = Running::start(&dir.join("data"), &config);
    let flag = |url: &str| format!("--url={url}");
    for (word, ours_says) in [("healthy", "Healthy"), ("ready", "Ready")] {
        let ask =
            |spawn: Spawn, url: &str| spawn.args(["check", word]).arg(flag(url)).run(PATIENCE);
        for url in [server.url.clone(), format!("{}/", server.url)] {
            let ours = ask(support::narthex(), &url);
            assert_eq!(ours.exit.code, Some(0), "{}", ours.stderr);
            assert!(
                ours.stderr.starts_with("  SUCCESS:  Narthex Server is "),
                "{}",
                ours.stderr
            );
            assert!(ours.stderr.contains(ours_says), "{}", ours.stderr);
        }
        // Debian's release does not have this check.
        let nobody = ask(support::narthex(), "http://127.0.0.1:1");
        assert_eq!(nobody.exit.code, Some(1), "{}", nobody.stderr);
        let elsewhere = ask(support::narthex(), &format!("{}/elsewhere", server.url));
        assert_eq!(elsewhere.exit.code, Some(1));
        assert!(
            elsewhere.stderr.contains("status=404"),
            "{}",
            elsewhere.stderr
        );
    }
    server.stop();
    // A server that requires a password, asked with and without the file that has it.
    let spawn = support::server_in(&dir.join("guarded"))
        .arg(support::config_flag(&config))
        .arg(format!("--web.config.file={}", users.display()));
    let mut process = spawn.start();
    let port = process.wait_port("Listening on", PATIENCE);
    let url = format!("--url=http://127.0.0.1:{port}");
    let http = dir.write(
        "http.yml",
        "basic_auth: {username: dave, password: dave123}\n",
    );
    let ask = |more: Option<String>| {
        let spawn = support::narthex().args(["check", "healthy"]).arg(&url);
        more.into_iter().fold(spawn, Spawn::arg).run(PATIENCE)
    };
    let refused = ask(None);
    assert_eq!(refused.exit.code, Some(1));
    assert!(refused.stderr.contains("status=401"), "{}", refused.stderr);
    let known = ask(Some(format!("--http.config.file={}", http.display())));
    assert_eq!(known.exit.code, Some(0), "{}", known.stderr);
    process.terminate(PATIENCE);
}

#[test]
fn discovery_is_shown_as_promtool_shows_it() {
    let dir = TempDir::new("check-sd");
    dir.write(
        "list.json",
        r#"[{"targets": ["h:1", "drop:1", "h:1"], "labels": {"__meta_zone": "z"}}]"#,
    );
    let config = dir.write(
        "p.yml",
        r"
scrape_configs:
- job_name: a
  file_sd_configs: [{files: [list.json]}]
  relabel_configs:
  - {source_labels: [__address__], regex: 'drop.*', action: drop}
  - {source_labels: [__meta_zone], target_label: zone}
",
    );
    let ask = |spawn: Spawn, job: &str| {
        let words = ["check", "service-discovery", "--timeout=2s"];
        spawn.args(words).arg(&config).arg(job).run(PATIENCE)
    };
    let found = |finished: &Finished| -> Vec<Value> {
        assert_eq!(finished.exit.code, Some(0), "{}", finished.stderr);
        let mut found: Vec<Value> = serde_json::from_str(&finished.stdout).unwrap();
        for one in &mut found {
            // Newer releases add discovered labels with scrape settings.
            for side in ["discoveredLabels", "labels"] {
                let labels = one[side].as_object_mut().unwrap();
                labels.retain(|name, _| !name.contains("histograms"));
            }
        }
        found.sort_by_key(Value::to_string);
        found
    };
    let (ours, theirs) = (ask(support::narthex(), "a"), ask(promtool(), "a"));
    let ours_found = found(&ours);
    assert_eq!(ours_found, found(&theirs));
    assert_eq!(ours_found.len(), 2);
    assert!(ours_found.iter().any(|one| one["labels"] == json!({})));
    let (ours, theirs) = (ask(support::narthex(), "b"), ask(promtool(), "b"));
    assert_eq!((ours.exit.code, theirs.exit.code), (Some(1), Some(1)));
    assert_eq!(ours.stderr, theirs.stderr);
}
