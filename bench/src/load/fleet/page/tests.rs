//! Tests of `page`.

use super::super::{body::Body, config::FleetConfig, shape::Shape};
use super::*;
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{ColumnId, LabelSet, cell::Cell};
use std::collections::BTreeMap;

const CONFIG: FleetConfig = FleetConfig {
    targets: 3,
    series: 700,
    seed: 3,
    shape: Shape::Native,
    gzip: false,
    line_labels: true,
    clock: None,
};

/// Returns each series' value (a native histogram's is its count), and the number of native histograms.
fn parsed(parser: &mut Parser, format: Format, page: &[u8]) -> (BTreeMap<String, f64>, usize) {
    let round = parser.parse(format, page, 1, &mut KeepLabels).unwrap();
    let (frame, mut histograms) = (round.frame, 0);
    let mut value = |at: usize| match Cell::decode(frame.values()[at]) {
        Cell::Histogram(which) => {
            let histogram = &frame.histograms()[which as usize];
            let all: f64 = histogram.positive_buckets.iter().sum();
            assert_eq!(histogram.count, all + histogram.zero_count);
            assert!(histogram.sum > 0.0 && histogram.histogram_schema == 3);
            histograms += 1;
            histogram.count
        }
        _ => frame.values()[at],
    };
    let series = frame.present().iter().map(|at| {
        let labels = frame.schema().labels(ColumnId(at as u32));
        (labels.to_string(), value(at))
    });
    (series.collect(), histograms)
}

#[test]
fn a_page_says_what_the_lines_say_and_has_whole_histograms() {
    let mut options = ParseOptions::default();
    options.native_histograms = true;
    let parser = || Parser::new(LabelSet::empty(), options);
    let (mut read, mut scratch, mut page) = (parser(), Scratch::default(), Vec::new());
    let mut body = Body::fleet(&CONFIG).remove(2);
    let mut series = Shape::Native.target(2, 3, 700);
    for _ in 0..20 {
        series.step();
        assert_eq!(body.next(0, &mut page, &mut scratch), 700);
        let lines = series.prefixes().iter().zip(series.values());
        let lines: String = lines
            .map(|(prefix, value)| format!("{prefix}{value}\n"))
            .collect();
        let (expected, _) = parsed(&mut parser(), Format::Text, lines.as_bytes());
        let (got, histograms) = parsed(&mut read, Format::Protobuf, &page);
        assert_eq!(got, expected);
        assert_eq!((got.len(), histograms), (700, 77));
    }
}

#[test]
fn labels_of_the_target_are_in_its_page_or_in_its_configuration() {
    let size = |line_labels| {
        let config = FleetConfig {
            line_labels,
            ..CONFIG
        };
        let mut page = Vec::new();
        Body::fleet(&config)[1].next(0, &mut page, &mut Scratch::default());
        let has_pod = page.windows(3).any(|three| three == b"pod");
        assert_eq!(has_pod, line_labels);
        page.len()
    };
    assert!(size(false) < size(true));
    let config = FleetConfig {
        line_labels: false,
        ..CONFIG
    };
    let labels = config.labels_of(1, 0);
    assert!(labels.iter().any(|(name, _)| name == "pod"), "{labels:?}");
}
