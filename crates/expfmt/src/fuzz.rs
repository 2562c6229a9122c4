//! Fuzz targets: plain functions over untrusted bytes, which panic when an invariant is broken.

use crate::{
    escape::Escaping,
    format::{Format, Negotiated},
    parser::Parser,
    resolve::KeepLabels,
    round::ParseOptions,
    writer::Writer,
};
use narthex_model::{ColumnId, Frame, Label, LabelSet, cell::Cell};
use std::collections::BTreeMap;

/// Parses bytes as text 0.0.4, see [`body`].
pub fn fuzz_text(data: &[u8]) {
    body(Format::Text, data);
}

/// Parses bytes as OpenMetrics, see [`body`].
pub fn fuzz_openmetrics(data: &[u8]) {
    body(Format::OpenMetrics, data);
}

/// Parses bytes as protobuf messages, see [`body`].
pub fn fuzz_protobuf(data: &[u8]) {
    body(Format::Protobuf, data);
}

/// Stands between the bodies of [`fuzz_rounds`].
const BETWEEN: &[u8] = b"\xfe\xff";

/// Parses bodies one after the other, as those of one origin, and compares each with the result of a parser that knows nothing.
/// The first byte chooses the format.
pub fn fuzz_rounds(data: &[u8]) {
    let Some((format, mut rest)) = data.split_first() else {
        return;
    };
    let format = [Format::Text, Format::OpenMetrics, Format::Protobuf][usize::from(*format) % 3];
    let parser = || Parser::new(LabelSet::empty(), ParseOptions::default());
    let mut learned = parser();
    loop {
        let end = rest.windows(BETWEEN.len()).position(|two| two == BETWEEN);
        let body = end.map_or(rest, |end| &rest[..end]);
        let one = learned.parse(format, body, 1_000, &mut KeepLabels);
        let other = parser().parse(format, body, 1_000, &mut KeepLabels);
        match (one, other) {
            (Ok(one), Ok(other)) => assert_eq!(by_labels(&one.frame), by_labels(&other.frame)),
            (Err(_), Err(_)) => {}
            (one, other) => panic!("{:?}, {:?}", one.err(), other.err()),
        }
        let Some(end) = end else { return };
        rest = &rest[end + BETWEEN.len()..];
    }
}

/// Returns the samples of a round by their labels, with their times.
fn by_labels(frame: &Frame) -> BTreeMap<LabelSet, (String, i64)> {
    let sample = |at: usize| {
        let column = ColumnId(at as u32);
        let value = match Cell::decode(frame.values()[at]) {
            Cell::Histogram(at) => format!("{:?}", frame.histograms()[at as usize]),
            cell => format!("{cell:?}"),
        };
        (
            frame.schema().labels(column),
            (value, frame.time_of(column)),
        )
    };
    frame.present().iter().map(sample).collect()
}

/// Finds the common labels of a body's lines, and compares them with the parser's result for every line.
pub fn fuzz_common(data: &[u8]) {
    for format in [Format::Text, Format::OpenMetrics] {
        let found = crate::common_labels(format, data);
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        let Ok(round) = parser.parse(format, data, 1_000, &mut KeepLabels) else {
            continue;
        };
        // Bounds and quantiles are normalized when they are stored.
        let plain = |label: &&Label| !["__name__", "le", "quantile"].contains(&label.name());
        let schema = round.frame.schema();
        let mut sets = schema.columns().map(|(id, _)| schema.labels(id));
        let first = sets.next().unwrap_or_default();
        let mut shared: Vec<Label> = first.iter().filter(plain).cloned().collect();
        for set in sets {
            shared.retain(|label| set.iter().any(|other| other == label));
        }
        let found: Vec<Label> = found.labels.iter().filter(plain).cloned().collect();
        // `_created` lines, the start times of series, make no series.
        if data.windows(8).any(|eight| eight == b"_created") {
            assert!(found.iter().all(|label| shared.contains(label)));
        } else {
            assert_eq!(found, shared);
        }
    }
}

/// Checks bytes against the specifications of the line formats.
pub fn fuzz_check(data: &[u8]) {
    for format in [Format::Text, Format::OpenMetrics] {
        let problems = crate::check(format, data);
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        let parsed = parser.parse(format, data, 0, &mut KeepLabels).is_ok();
        assert!(parsed || !problems.is_empty());
        assert_eq!(crate::lint(format, data).is_ok(), parsed);
    }
}

/// Reads a `Content-Type` and an `Accept` header, and guesses a format.
pub fn fuzz_headers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = Format::of_content_type(&text);
    let _ = Format::sniff(data);
    let answer = Negotiated::from_accept(&text);
    let format = Format::of_content_type(&answer.content_type());
    assert_eq!(format, Ok(answer.format));
    for escaping in [Escaping::Underscores, Escaping::Dots, Escaping::Values] {
        let name = escaping.name(&text);
        let legacy = narthex_model::labels::is_legacy_metric_name(&name);
        assert!(text.is_empty() || legacy, "{name}");
    }
}

/// Parses bytes with every combination of options, then again along the template, and checks that both rounds agree and
/// that rendered output reads back the same.
fn body(format: Format, data: &[u8]) {
    let bits = |at: u8| data.len() >> at & 1 == 1;
    let options = ParseOptions {
        honor_timestamps: !bits(0),
        native_histograms: bits(1),
        classic_histograms: bits(2),
        custom_buckets: bits(3),
        start_times: bits(4),
        bucket_limit: if bits(5) { 8 } else { 0 },
        ..ParseOptions::default()
    };
    rounds_agree(format, data, ParseOptions::default());
    rounds_agree(format, data, options);
}

fn rounds_agree(format: Format, data: &[u8], options: ParseOptions) {
    let mut parser = Parser::new(LabelSet::new([("job", "fuzz")]), options);
    let Ok(first) = parser.parse(format, data, 1_000, &mut KeepLabels) else {
        return;
    };
    let (stats, first) = (first.stats, first.frame);
    let second = parser
        .parse(format, data, 1_000, &mut KeepLabels)
        .expect("what parsed once parses again");
    assert_eq!(second.stats.added, 0, "no series is new the second time");
    assert_eq!(
        (
            second.stats.samples(),
            second.stats.kept(),
            second.stats.repeated
        ),
        (stats.samples(), stats.kept(), stats.repeated)
    );
    assert_eq!(shown(&first), shown(&second.frame));
    for style in ["text/plain", "application/openmetrics-text;version=1.0.0"] {
        let style = Negotiated::from_accept(&format!("{style};escaping=allow-utf-8"));
        let mut page = Vec::new();
        Writer::new(first.schema(), style).write(&first, &mut page);
        Writer::end(style, &mut page);
        let floats = first.present().count() - first.histograms().len();
        let mut reader = Parser::new(LabelSet::empty(), ParseOptions::default());
        let back = reader
            .parse(style.format, &page, 1_000, &mut KeepLabels)
            .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&page)));
        assert_eq!(
            back.stats.lines,
            floats,
            "{}",
            String::from_utf8_lossy(&page)
        );
    }
    let style = Negotiated::from_accept(
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    );
    let mut page = Vec::new();
    Writer::new(first.schema(), style).write(&first, &mut page);
    // Parts of histograms need not agree, so they are read without conversion.
    let mut reader = Parser::new(LabelSet::empty(), ParseOptions::default());
    reader
        .parse(style.format, &page, 1_000, &mut KeepLabels)
        .expect("written messages can be read");
}

/// Returns the comparable contents of a round.
fn shown(frame: &Frame) -> (Vec<(usize, u64)>, String) {
    let values = frame
        .present()
        .iter()
        .map(|at| (at, frame.values()[at].to_bits()))
        .collect();
    let rest = (
        frame.times_ms(),
        frame.histograms(),
        frame.exemplars(),
        frame.start_times_ms(),
    );
    (values, format!("{rest:?}"))
}
