//! Fuzz targets: plain functions over bytes from outside.

use crate::text::{KeepLabels, ParseOptions, TextParser, TextWriter};
use narthex_model::LabelSet;

/// Parses the bytes, then again along the hint, and checks that both rounds agree and that what is written reads
/// back the same.
///
/// # Panics
/// Panics when they do not: that is what fuzzing looks for.
pub fn text(data: &[u8]) {
    let mut parser = TextParser::new(LabelSet::new([("job", "fuzz")]), ParseOptions::default());
    let Ok(first) = parser.parse(data, 1_000, &mut KeepLabels) else {
        return;
    };
    let (stats, first) = (first.stats, first.frame.clone());
    let second = parser
        .parse(data, 1_000, &mut KeepLabels)
        .expect("what parsed once parses again");
    assert_eq!(second.stats.added, 0, "no series is new the second time");
    assert_eq!(
        (second.stats.lines, second.stats.repeated),
        (stats.lines, stats.repeated)
    );
    let bits =
        |values: &[f64]| -> Vec<u64> { values.iter().map(|value| value.to_bits()).collect() };
    assert_eq!(bits(first.values()), bits(second.frame.values()));
    assert_eq!(first.present(), second.frame.present());
    assert_eq!(first.times_ms(), second.frame.times_ms());
    let mut text = Vec::new();
    TextWriter::new(first.schema()).write(&first, &mut text);
    let mut reader = TextParser::new(LabelSet::empty(), ParseOptions::default());
    let back = reader
        .parse(&text, 1_000, &mut KeepLabels)
        .expect("what is written can be read");
    assert_eq!(
        back.stats.lines,
        first.present().count(),
        "{}",
        String::from_utf8_lossy(&text)
    );
}
