//! Reference bodies of other projects' own parsers.

use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser, check};
use narthex_model::LabelSet;
use narthex_testkit::corpora;

/// Sample lines of a body.
fn samples(body: &[u8]) -> usize {
    body.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && line[0] != b'#')
        .count()
}

#[test]
fn reference_bodies_parse_and_run_along_the_template() {
    let bodies = [
        ("alltypes.237mfs.prom.txt", Format::Text),
        ("alltypes.237mfs.nometa.prom.txt", Format::Text),
        ("alltypes.5mfs.om.txt", Format::OpenMetrics),
        ("1histogram.om.txt", Format::OpenMetrics),
    ];
    let Some(dir) = corpora::dir("textparse") else {
        return corpora::report("textparse", 0, bodies.len());
    };
    for (name, format) in bodies {
        let mut body = std::fs::read(dir.join(name)).unwrap();
        if format == Format::OpenMetrics && !body.trim_ascii_end().ends_with(b"# EOF") {
            // Some are fragments that the benchmarks there complete.
            body.extend_from_slice(b"# EOF\n");
        }
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        let first = parser
            .parse(format, &body, 0, &mut KeepLabels)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let samples = samples(&body);
        assert_eq!(first.stats.lines, samples, "{name}");
        assert_eq!(first.stats.added + first.stats.repeated, samples, "{name}");
        let second = parser.parse(format, &body, 1, &mut KeepLabels).unwrap();
        assert_eq!(second.stats.expected, samples, "{name}");
    }
    corpora::report("textparse", bodies.len(), bodies.len());
}

#[test]
fn verdicts_of_openmetrics_agree() {
    let suite = "openmetrics";
    let Some(dir) = corpora::dir(suite) else {
        return corpora::report(suite, 0, 211);
    };
    let cases = corpora::files(&dir, "test.json");
    let mut complaints = Vec::new();
    for case in &cases {
        let text = std::fs::read_to_string(case).unwrap();
        let valid = text.contains("\"shouldParse\": true");
        let body = std::fs::read(case.with_file_name("metrics")).unwrap();
        let problems = check(Format::OpenMetrics, &body);
        if problems.is_empty() != valid {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let name = case.parent().and_then(|dir| dir.file_name()).unwrap();
            complaints.push(format!("{}: {problems:?}", name.display()));
        }
    }
    corpora::report(suite, cases.len(), cases.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
