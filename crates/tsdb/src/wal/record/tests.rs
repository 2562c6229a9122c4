//! Every record reads back as written; no input panics.

use super::*;
use crate::wal::batch::BATCH_HEADER_BYTES;

fn body(write: impl FnOnce(&mut RecordWriter<'_>)) -> Vec<u8> {
    let mut out = Batches::default();
    write(&mut RecordWriter {
        symbols: &mut SymbolWriter::default(),
        out: &mut out,
    });
    body_of(&out)
}

fn body_of(batches: &Batches) -> Vec<u8> {
    let body = batches.bytes.get(BATCH_HEADER_BYTES..);
    body.unwrap_or_default().to_vec()
}

fn shown(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(bytes);
    let mut records = RecordReader::default();
    let mut shown = Vec::new();
    while let Some(record) = records.next(&mut reader).unwrap() {
        shown.push(match record {
            Record::Row { strip, head, pages } => {
                format!("row {strip} {head:?} {:?}", pages.collect::<Vec<_>>())
            }
            other => format!("{other:?}"),
        });
    }
    shown
}

fn sample_body() -> Vec<u8> {
    let sets = [
        LabelSet::new([("__name__", "up")]),
        LabelSet::new([("__name__", "req"), ("code", "200")]),
        LabelSet::new([("__name__", "req"), ("code", "500")]),
    ];
    let common = LabelSet::new([("job", "j"), ("instance", "héllo:1")]);
    let exemplar = Exemplar {
        labels: LabelSet::new([("trace_id", "abc")]),
        value: 1.5,
        time_ms: Some(9),
    };
    let family = Family {
        name: "req".into(),
        metric_type: MetricType::Summary,
        unit: "seconds".into(),
        help: "Help\nme".into(),
    };
    let samples: Vec<SampleRecord<'_>> =
        [1.0, -0.0, 0.1, cell::STALE, f64::INFINITY, -7.0, f64::NAN]
            .iter()
            .zip(0i64..)
            .map(|(value, at)| SampleRecord {
                column: 7 - at as u32,
                time_ms: 1_767_225_600_000 - at * 17,
                cell: *value,
                histogram: (at == 4).then_some(Cow::Borrowed(b"bytes")),
                start_time_ms: if at % 2 == 0 { 1_767_225_000_000 } else { 0 },
            })
            .collect();
    body(|out| {
        out.family(&family);
        out.strip(
            StripHead {
                strip: 300,
                rows: 77,
                out_of_order: 5,
            },
            &common,
        );
        out.grow(300, 0, sets[..2].iter());
        out.grow(300, 2, sets.iter());
        out.row(
            300,
            RowHead::Key {
                goes_on: false,
                row: 1000,
                time_ms: -1,
            },
            [&b"page one"[..], b"", b"p3"].into_iter(),
        );
        out.row(
            300,
            RowHead::Next {
                sequence: 255,
                step_change_ms: -3,
            },
            [&b"one"[..]].into_iter(),
        );
        out.row(
            300,
            RowHead::Next {
                sequence: 0,
                step_change_ms: 0,
            },
            [&b"one"[..], b"two"].into_iter(),
        );
        out.out_of_order(300, 99, &samples);
        out.starts(300, 78, &[(3, 1000), (9, -5)]);
        out.exemplar(300, 2, 9, &exemplar);
    })
}

#[test]
fn records_round_trip() {
    let shown = shown(&sample_body());
    assert_eq!(shown.len(), 10);
    assert!(
        shown[0].contains("Summary") && shown[0].contains("Help\\nme"),
        "{}",
        shown[0]
    );
    assert!(
        shown[1].contains("rows: 77") && shown[1].contains("héllo:1"),
        "{}",
        shown[1]
    );
    assert_eq!(
        shown[2],
        r#"Grow { strip: 300, from: 0, sets: [Some(up), Some(req{code="200"})] }"#
    );
    assert_eq!(
        shown[3],
        r#"Grow { strip: 300, from: 2, sets: [Some(up), Some(req{code="200"}), Some(req{code="500"})] }"#
    );
    let pages = format!("{:?}", [&b"page one"[..], b"", b"p3"]);
    assert_eq!(
        shown[4],
        format!("row 300 Key {{ row: 1000, time_ms: -1, goes_on: false }} {pages}")
    );
    assert!(
        shown[5].starts_with("row 300 Next { sequence: 255, step_change_ms: -3 }"),
        "{}",
        shown[5]
    );
    assert!(
        shown[6].starts_with("row 300 Next { sequence: 0, step_change_ms: 0 }"),
        "{}",
        shown[6]
    );
    assert!(shown[7].contains("first: 99"), "{}", shown[7]);
    assert!(
        shown[7].contains("column: 7, time_ms: 1767225600000, cell: 1.0"),
        "{}",
        shown[7]
    );
    assert!(
        shown[7].contains("cell: -0.0") && shown[7].contains("start_time_ms: 1767225000000"),
        "{}",
        shown[7]
    );
    assert_eq!(
        shown[8],
        "Starts { strip: 300, row: 78, starts: [(3, 1000), (9, -5)] }"
    );
    assert!(
        shown[9].contains("trace_id") && shown[9].contains("Some(9)"),
        "{}",
        shown[9]
    );
}

#[test]
fn a_set_is_defined_once_a_file() {
    let set = LabelSet::new([("__name__", "defined_once")]);
    let bytes = body(|out| {
        out.strip(
            StripHead {
                strip: 1,
                rows: 0,
                out_of_order: 0,
            },
            &set,
        );
        out.strip(
            StripHead {
                strip: 2,
                rows: 0,
                out_of_order: 0,
            },
            &set,
        );
    });
    assert_eq!(
        bytes.windows(12).filter(|w| w == b"defined_once").count(),
        1
    );
    assert_eq!(shown(&bytes).len(), 2);
}

#[test]
fn a_lost_batch_never_gives_a_set_other_labels() {
    let sets: Vec<LabelSet> = (0..6)
        .map(|i| LabelSet::new([("__name__", "m"), ("i", i.to_string().as_str())]))
        .collect();
    let mut symbols = SymbolWriter::default();
    let mut batches: Vec<Vec<u8>> = Vec::new();
    for pair in sets.chunks(2) {
        let mut out = Batches::default();
        let mut writer = RecordWriter {
            symbols: &mut symbols,
            out: &mut out,
        };
        writer.grow(1, 0, pair.iter());
        writer.grow(2, 0, sets[..2].iter());
        batches.push(body_of(&out));
    }
    for lost in 0..3 {
        let mut records = RecordReader::default();
        for (at, batch) in batches.iter().enumerate().filter(|(at, _)| *at != lost) {
            let mut reader = Reader::new(batch);
            while let Some(record) = records.next(&mut reader).unwrap() {
                let Record::Grow {
                    strip, sets: found, ..
                } = record
                else {
                    panic!("{record:?}")
                };
                let expected = if strip == 1 {
                    &sets[at * 2..at * 2 + 2]
                } else {
                    &sets[..2]
                };
                for (found, expected) in found.iter().zip(expected) {
                    assert!(
                        found.as_ref().is_none_or(|found| found == expected),
                        "{found:?} for {expected}"
                    );
                    // The first batch has the label that all sets share.
                    assert_eq!(found.is_some(), lost != 0, "{lost} lost, {expected}");
                }
            }
        }
    }
}

#[test]
fn mutated_records_never_panic() {
    let whole = sample_body();
    narthex_testkit::mutate::Mutator::new(11).run(&[&whole], 20_000, |bytes| {
        let mut reader = Reader::new(bytes);
        let mut records = RecordReader::default();
        while let Ok(Some(record)) = records.next(&mut reader) {
            if let Record::Row { pages, .. } = record {
                assert!(pages.map(<[u8]>::len).sum::<usize>() <= bytes.len());
            }
        }
    });
}
