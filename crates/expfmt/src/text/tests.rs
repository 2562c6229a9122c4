//! Behaviour of the text format's parser.

use super::unescape;
use crate::{Format, KeepLabels, ParseOptions, Parser, Resolver, Round, RoundStats};
use narthex_model::{ColumnId, Frame, LabelSet, MetricType, cell};

fn parser() -> Parser {
    Parser::new(LabelSet::new([("job", "j")]), ParseOptions::default())
}

fn stats(parser: &mut Parser, body: &str) -> RoundStats {
    parser
        .parse(Format::Text, body.as_bytes(), 0, &mut KeepLabels)
        .unwrap()
        .stats
}

/// Returns all samples as `series value [time]`, in slot order.
fn shown(frame: &Frame) -> Vec<String> {
    let line = |at: usize| {
        let id = ColumnId(at as u32);
        let time = frame
            .times_ms()
            .get(at)
            .map(|time_ms| format!(" @{time_ms}"))
            .unwrap_or_default();
        format!(
            "{} {}{time}",
            frame.schema().column(id).set,
            frame.values()[at]
        )
    };
    frame.present().iter().map(line).collect()
}

fn parsed(parser: &mut Parser, body: &str) -> Vec<String> {
    let round = parser.parse(Format::Text, body.as_bytes(), 5, &mut KeepLabels);
    shown(&round.unwrap().frame)
}

const BODY: &str = "# HELP a Some \\\\ text\\nhere.\n# TYPE a counter\na{x=\"1\"} 1\na{x=\"2\"} 2.5\n\
# HELP b B.\n# TYPE b gauge\nb -3\nc{q=\"with } brace\",r=\"a\\\"b\\\\c\\nd\"} NaN\n# EOF\n";

/// Returns a page of lines with these numbers.
fn page(lines: impl IntoIterator<Item = u64>) -> String {
    let line = |at: u64| format!("a{{x=\"{at}\"}} {at}\n");
    lines.into_iter().map(line).collect()
}

/// Half of the lines are absent in every third round: nothing is learned, and all that come back are expected.
#[test]
fn lines_that_come_back_are_expected() {
    let mut parser = parser();
    let all = page(0..40);
    stats(&mut parser, &all);
    for _ in 0..5 {
        assert_eq!(stats(&mut parser, &all).expected, 40);
        let some = stats(&mut parser, &page((0..40).filter(|at| at % 4 > 1)));
        assert_eq!((some.lines, some.expected, some.found), (20, 10, 10));
    }
    assert_eq!(stats(&mut parser, &all).expected, 40);
}

#[test]
fn lines_that_stay_away_are_forgotten() {
    let mut parser = parser();
    stats(&mut parser, &page(0..40));
    let left = page((0..40).filter(|at| at % 2 == 1));
    let mut rounds = 0;
    while stats(&mut parser, &left).expected < 20 {
        rounds += 1;
        assert!(rounds < 30, "they are still expected");
    }
    assert!(rounds > 10, "they were forgotten after {rounds} rounds");
}

/// An order that stays is learned at once; after pages that are in another order each time, some rounds later.
#[test]
fn another_order_is_learned_unless_there_is_one_each_time() {
    let mut parser = parser();
    stats(&mut parser, &page(0..40));
    let turned = page((0..40).rev());
    assert_eq!(stats(&mut parser, &turned).found, 40);
    assert_eq!(stats(&mut parser, &turned).expected, 40);
    for round in 0..200_u64 {
        let mut lines: Vec<u64> = (0..40).collect();
        lines.sort_by_key(|at| {
            let mixed = (at << 32 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        });
        stats(&mut parser, &page(lines));
    }
    let mut rounds = 0;
    while stats(&mut parser, &turned).expected < 40 {
        rounds += 1;
        assert!(rounds < 70, "the order is not learned");
    }
    assert!(rounds > 5, "each order was learned");
}

/// Regression: such a line was taken for a part of the comments before the next one, and its sample lost.
#[test]
fn a_line_that_gets_a_blank_before_its_value_stays_a_line() {
    let mut parser = parser();
    let bodies = [
        "a{x=\"1\"}0\n",
        "a{x=\"1\"} 1\nb 5\n",
        "a{x=\"1\"} 1\nb 5\n",
    ];
    let expected = [
        &["a{x=\"1\"} 0"][..],
        &["a{x=\"1\"} 1", "b 5"],
        &["a{x=\"1\"} 1", "b 5"],
    ];
    for (body, expected) in bodies.into_iter().zip(expected) {
        assert_eq!(parsed(&mut parser, body), expected);
    }
    for _ in 0..2 {
        parsed(&mut parser, bodies[2]);
    }
    assert_eq!(stats(&mut parser, bodies[2]).expected, 2, "it is learned");
}

#[test]
fn the_first_body_is_taken_apart() {
    let mut parser = parser();
    let lines = parsed(&mut parser, BODY);
    assert_eq!(
        lines,
        [
            "a{x=\"1\"} 1",
            "a{x=\"2\"} 2.5",
            "b -3",
            "c{q=\"with } brace\", r=\"a\\\"b\\\\c\\nd\"} NaN"
        ]
    );
    let family = parser.schema().family(ColumnId(0));
    assert_eq!(
        (family.metric_type, &*family.help),
        (MetricType::Counter, "Some \\ text\nhere.")
    );
    assert_eq!(
        parser.schema().family(ColumnId(3)).metric_type,
        MetricType::Unknown
    );
    assert_eq!(parser.schema().common().to_string(), "{job=\"j\"}");
}

/// Pages of writers that declare all families first had types of those alone that a series followed at once.
#[test]
fn a_type_holds_wherever_its_series_are() {
    let declared = "# TYPE a counter\n# TYPE h histogram\n# HELP a Some.\n# TYPE b gauge\nb 1\n";
    let series = "h_bucket{le=\"+Inf\"} 1\nh_sum 1\na 2\n";
    let types = |parser: &Parser| {
        let columns = parser.schema().columns();
        let types = columns.map(|(id, column)| {
            let family = parser.schema().family(id);
            let name = column.set.metric_name();
            format!("{name} {:?} {}", family.metric_type, family.help)
        });
        types.collect::<Vec<_>>()
    };
    let mut fresh = parser();
    stats(&mut fresh, &format!("{declared}{series}"));
    let expected = [
        "b Gauge ",
        "h_bucket Histogram ",
        "h_sum Histogram ",
        "a Counter Some.",
    ];
    assert_eq!(types(&fresh), expected);
    // The same when the lines that declare them were expected.
    let mut later = parser();
    stats(&mut later, declared);
    let second = stats(&mut later, &format!("{declared}{series}"));
    assert_eq!((second.expected, second.added), (1, 3));
    assert_eq!(types(&later), expected);
}

#[test]
fn later_bodies_only_move_numbers() {
    let mut parser = parser();
    stats(&mut parser, BODY);
    let schema = parser.schema().clone();
    let changed = BODY.replace(" 2.5", " 1e3").replace(" -3", " +Inf");
    let second = stats(&mut parser, &changed);
    assert_eq!(
        second,
        RoundStats {
            lines: 4,
            expected: 4,
            ..RoundStats::default()
        }
    );
    assert!(parser.schema().same(&schema));
    assert_eq!(
        parsed(&mut parser, &changed)[1..3],
        ["a{x=\"2\"} 1000", "b inf"]
    );
}

#[test]
fn another_order_is_not_another_schema() {
    let mut parser = parser();
    let lines: Vec<String> = (0..100).map(|i| format!("m{{i=\"{i}\"}} {i}\n")).collect();
    stats(&mut parser, &lines.concat());
    let schema = parser.schema().clone();
    let turned: String = lines[50..]
        .iter()
        .chain(&lines[..50])
        .map(String::as_str)
        .collect();
    let turned_stats = stats(&mut parser, &turned);
    assert_eq!(
        (
            turned_stats.added,
            turned_stats.found,
            turned_stats.expected
        ),
        (0, 2, 98)
    );
    let reversed: String = lines.iter().rev().map(String::as_str).collect();
    assert_eq!(stats(&mut parser, &reversed).found, 100);
    assert_eq!(
        stats(&mut parser, &reversed).expected,
        100,
        "the reverse became the expected order"
    );
    assert!(parser.schema().same(&schema));
    let frame = parser
        .parse(Format::Text, reversed.as_bytes(), 0, &mut KeepLabels)
        .unwrap()
        .frame;
    assert!((0..100).all(|i| frame.values()[i] == i as f64));
}

#[test]
fn series_come_and_go_without_disturbing_the_others() {
    let mut parser = parser();
    let body = |skip: usize, more: &str| -> String {
        (0..20)
            .filter(|i| *i != skip)
            .map(|i| format!("m{{i=\"{i}\"}} {i}\n"))
            .chain([more.to_owned()])
            .collect()
    };
    stats(&mut parser, &body(99, ""));
    let gone = stats(&mut parser, &body(7, ""));
    assert_eq!(
        (gone.lines, gone.expected, gone.found, gone.added),
        (19, 18, 1, 0)
    );
    assert!(
        !parser
            .parse(Format::Text, body(7, "").as_bytes(), 0, &mut KeepLabels)
            .unwrap()
            .frame
            .present()
            .contains(7)
    );
    let back = stats(&mut parser, &body(99, "new 1\n"));
    assert_eq!((back.lines, back.added), (21, 1));
    assert_eq!(parser.schema().len(), 21);
    assert_eq!(stats(&mut parser, &body(99, "new 1\n")).expected, 21);
}

#[test]
fn help_and_type_may_change_without_a_schema_change() {
    let mut parser = parser();
    stats(&mut parser, "# HELP a Old.\n# TYPE a counter\na 1\n");
    let columns = parser.schema().len();
    let changed = stats(&mut parser, "# HELP a New.\n# TYPE a gauge\na 2\n");
    assert_eq!((changed.found, changed.added), (1, 0));
    assert_eq!(parser.schema().len(), columns);
    let family = parser.schema().family(ColumnId(0));
    assert_eq!(
        (&*family.help, family.metric_type),
        ("New.", MetricType::Gauge)
    );
    assert_eq!(
        stats(&mut parser, "# HELP a New.\n# TYPE a gauge\na 3\n").expected,
        1
    );
}

#[test]
fn dead_series_leave_with_a_new_lineage() {
    let mut parser = parser();
    let body = |from: usize| -> String {
        (from..from + 100)
            .map(|i| format!("m{{i=\"{i}\"}} 1\n"))
            .collect()
    };
    stats(&mut parser, &body(0));
    stats(&mut parser, &body(100));
    let lineage = parser.schema().lineage();
    for _ in 0..40 {
        stats(&mut parser, &body(200));
    }
    assert_ne!(parser.schema().lineage(), lineage);
    assert_eq!(parser.schema().len(), 100);
    assert_eq!(stats(&mut parser, &body(200)).expected, 100);
}

#[test]
fn timestamps_are_kept_or_ignored() {
    let body = "a 1 1700000000000\nb 2\n";
    let mut keeping = parser();
    for _ in 0..2 {
        assert_eq!(parsed(&mut keeping, body), ["a 1 @1700000000000", "b 2 @5"]);
    }
    let options = ParseOptions {
        honor_timestamps: false,
        ..ParseOptions::default()
    };
    let mut ignoring = Parser::new(LabelSet::empty(), options);
    assert_eq!(parsed(&mut ignoring, body), ["a 1", "b 2"]);
}

#[test]
fn target_labels_win_and_the_bodys_are_exported() {
    let mut parser = parser();
    assert_eq!(
        parsed(&mut parser, "a{job=\"x\",exported_job=\"y\"} 1\n"),
        ["a{exported_exported_job=\"x\", exported_job=\"y\"} 1"]
    );
}

#[test]
fn dropped_series_stay_dropped_along_the_template() {
    struct DropA;
    impl Resolver for DropA {
        fn resolve(&mut self, parsed: &LabelSet, _: &LabelSet) -> Result<Option<LabelSet>, String> {
            Ok((parsed.metric_name() != "a").then(|| parsed.clone()))
        }
    }
    let mut parser = parser();
    for _ in 0..3 {
        let round = parser
            .parse(
                Format::Text,
                b"a 1\nb 2\na{x=\"y\"} 3\nc 4\n",
                0,
                &mut DropA,
            )
            .unwrap();
        assert_eq!((round.stats.lines, round.stats.dropped), (4, 2));
        assert_eq!(shown(&round.frame), ["b 2", "c 4"]);
    }
}

#[test]
fn a_repeated_series_counts_once() {
    let mut parser = parser();
    for _ in 0..3 {
        let round = parser
            .parse(Format::Text, b"a 1\nb 2\na 3\nb 2\n", 0, &mut KeepLabels)
            .unwrap();
        assert_eq!(shown(&round.frame), ["a 1", "b 2"]);
        assert_eq!((round.stats.repeated, round.stats.dropped), (2, 0));
    }
}

#[test]
fn utf8_names_and_odd_spacing_are_read() {
    let mut parser = parser();
    let body = "{\"a.b\",\"c d\"=\"ü\"}  1\n m{ x = \"1\" , } \t2 \n\n  \nn {y=\"2\"} 3\nlast 4";
    for _ in 0..3 {
        assert_eq!(
            parsed(&mut parser, body),
            [
                "{\"a.b\", \"c d\"=\"ü\"} 1",
                "m{x=\"1\"} 2",
                "n{y=\"2\"} 3",
                "last 4"
            ]
        );
    }
}

#[test]
fn errors_have_positions_and_change_nothing() {
    let cases = [
        ("a 1\nb\n", "line 2, column 2: expected a value, got \"\""),
        (
            "a{x=1} 1\n",
            "line 1, column 5: expected a quoted label value, got \"1} 1\"",
        ),
        (
            "a{x=\"1\" 1\n",
            "line 1, column 9: expected ',' or '}' after a label, got \"1\"",
        ),
        (
            "a{x=\"1\",x=\"2\"} 1\n",
            "line 1, column 9: label \"x\" occurs twice",
        ),
        // Found by fuzzing: written as a message, such a label cannot be read back.
        (
            "{\"a\",\"\"=\"x\"} 1\n",
            "line 1, column 6: expected a label name, got \"\\\"\\\"=\\\"x\\\"} 1\"",
        ),
        (
            "a 1 2 3\n",
            "line 1, column 7: expected the end of the line, got \"3\"",
        ),
        ("a one\n", "line 1, column 3: not a number: \"one\""),
        ("a 1 2.5\n", "line 1, column 5: not a timestamp: \"2.5\""),
        (
            "9a 1\n",
            "line 1, column 1: expected a metric name, got \"9a 1\"",
        ),
        ("{x=\"1\"} 1\n", "line 1, column 1: metric name not set"),
        (
            "a{x=\"\u{fffd}",
            "line 1, column 9: unexpected end of input",
        ),
        (
            "# TYPE a thing\na 1\n",
            "line 1, column 10: invalid metric type \"thing\"",
        ),
        ("a 1e999\n", "line 1, column 3: not a number: \"1e999\""),
        (
            "<html>\n",
            "line 1, column 1: expected a metric name, got \"<html>\"",
        ),
    ];
    let mut parser = parser();
    stats(&mut parser, BODY);
    let schema = parser.schema().clone();
    for (body, message) in cases {
        let error = parser
            .parse(Format::Text, body.as_bytes(), 0, &mut KeepLabels)
            .unwrap_err();
        assert_eq!(error.to_string(), message, "{body:?}");
        assert!(parser.schema().same(&schema));
    }
    let error = parser
        .parse(
            Format::Text,
            b"new 1\na{x=\"\xff\"} 1\n",
            0,
            &mut KeepLabels,
        )
        .unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 6: invalid UTF-8");
    assert_eq!(
        stats(&mut parser, BODY).expected,
        4,
        "the template survives"
    );
}

#[test]
fn a_sample_limit_refuses_the_body() {
    let options = ParseOptions {
        sample_limit: 2,
        ..ParseOptions::default()
    };
    let mut parser = Parser::new(LabelSet::empty(), options);
    let error = parser
        .parse(Format::Text, b"a 1\nb 1\nc 1\n", 0, &mut KeepLabels)
        .unwrap_err();
    assert_eq!(error.kind, crate::ParseErrorKind::SampleLimit);
    assert!(
        parser
            .parse(Format::Text, b"a 1\nb 1\n", 0, &mut KeepLabels)
            .is_ok()
    );
}

#[test]
fn a_staleness_marker_in_a_body_is_only_a_nan() {
    let mut parser = parser();
    let round = parser
        .parse(Format::Text, b"a NaN\n", 0, &mut KeepLabels)
        .unwrap();
    assert_eq!(round.frame.values()[0].to_bits(), cell::NAN_BITS);
    assert!(round.frame.stale().is_empty());
}

#[test]
fn series_that_stop_coming_end() {
    let reserved = [(
        LabelSet::new([("__name__", "up")]),
        narthex_model::Family {
            name: "up".into(),
            ..Default::default()
        },
    )];
    let mut parser = Parser::with_reserved(LabelSet::empty(), ParseOptions::default(), &reserved);
    let ends =
        |frame: &Frame| -> Vec<u32> { frame.stale().iter().map(|column| column.0).collect() };
    let round = |parser: &mut Parser, body: &str| {
        let round = parser.parse(Format::Text, body.as_bytes(), 0, &mut KeepLabels);
        ends(&round.unwrap().frame)
    };
    assert_eq!(round(&mut parser, "a 1\nb 1\nc 1 5\nup 7\n"), []);
    assert_eq!(parser.schema().len(), 4);
    assert_eq!(round(&mut parser, "a 1\nup 7\n"), [2]);
    assert!(
        parser
            .parse(Format::Text, b"oops", 0, &mut KeepLabels)
            .is_err()
    );
    let mut none = Round::default();
    parser.no_body(&mut none, 1);
    assert_eq!(ends(&none.frame), [0, 1]);
    parser.no_body(&mut none, 2);
    assert_eq!(ends(&none.frame), []);
    assert_eq!(round(&mut parser, "b 1\n"), []);
    let options = ParseOptions {
        track_timestamps_staleness: true,
        ..ParseOptions::default()
    };
    let mut tracking = Parser::new(LabelSet::empty(), options);
    assert_eq!(round(&mut tracking, "c 1 5\n"), []);
    assert_eq!(round(&mut tracking, "\n"), [0]);
}

/// For a malformed page `scrape_samples_scraped` counts the samples before the error.
#[test]
fn a_line_with_a_fault_is_not_counted() {
    for (body, lines) in [
        ("a 1\nb 0x1p-3\n", 1),
        ("{ no metrics\n", 0),
        ("a 1\na{x=\"1\",x=\"2\"} 1\n", 1),
    ] {
        let mut parser = parser();
        let result = parser.parse(Format::Text, body.as_bytes(), 0, &mut KeepLabels);
        assert!(result.is_err(), "{body}");
        assert_eq!(parser.stats().samples(), lines, "{body}");
    }
}

/// Comparing each label of a series with all others took a minute for a page full of labels.
#[test]
fn a_series_may_have_very_many_labels() {
    let labels =
        |count: usize| -> String { (0..count).map(|at| format!("l{at}=\"v\",")).collect() };
    let mut parser = parser();
    let body = format!("m{{{}}} 1\n", labels(3_000));
    let round = parser.parse(Format::Text, body.as_bytes(), 0, &mut KeepLabels);
    assert_eq!(
        round.unwrap().frame.schema().column(ColumnId(0)).set.len(),
        3_001
    );
    let twice = format!("m{{{}l7=\"w\"}} 1\n", labels(3_000));
    let error = parser.parse(Format::Text, twice.as_bytes(), 0, &mut KeepLabels);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("label \"l7\" occurs twice")
    );
}

#[test]
fn escapes_of_values_are_undone() {
    for (written, expected) in [
        ("", ""),
        ("a\\\\b\\\"c\\nd", "a\\b\"c\nd"),
        ("\\q\\", "\\q\\"),
        ("é\\n", "é\n"),
    ] {
        assert_eq!(unescape(written), expected);
    }
}
