//! Reference bodies of Prometheus' own parser.

use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::LabelSet;
use narthex_testkit::corpora;

#[test]
fn reference_bodies_parse_and_run_along_the_hint() {
    let Some(dir) = corpora::dir("textparse") else {
        return corpora::report("textparse (text 0.0.4)", 0, 2);
    };
    let bodies = [
        ("alltypes.237mfs.prom.txt", 1_876),
        ("alltypes.237mfs.nometa.prom.txt", 1_876),
    ];
    for (name, _) in bodies {
        let body = std::fs::read(dir.join(name)).unwrap();
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        let first = parser
            .parse(Format::Text, &body, 0, &mut KeepLabels)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let samples = body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty() && line[0] != b'#')
            .count();
        assert_eq!(first.stats.lines, samples, "{name}");
        assert_eq!(first.stats.added, samples, "{name}");
        let second = parser
            .parse(Format::Text, &body, 1, &mut KeepLabels)
            .unwrap();
        assert_eq!(second.stats.expected, samples, "{name}");
    }
    corpora::report("textparse (text 0.0.4)", bodies.len(), bodies.len());
}
