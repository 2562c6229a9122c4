//! What people and programs are shown.

use super::*;
use crate::cli::Moment;
use answer::Labels;
use serde_json::json;
use std::time::Duration;

const WIDE: Screen = Screen {
    is_terminal: true,
    has_colours: false,
    columns: 60,
    rows: 24,
};

fn set(pairs: &[(&str, &str)]) -> Labels {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(pair).collect()
}

fn matrix() -> Json {
    let values = |scale: i64| -> Vec<Json> {
        (0..60)
            .map(|at| json!([1_700_000_000 + at * 10, (at * scale).to_string()]))
            .collect()
    };
    json!({"resultType": "matrix", "result": [
        {"metric": {"__name__": "m", "job": "j", "i": "b"}, "values": values(2)},
        {"metric": {"__name__": "m", "job": "j", "i": "a"}, "values": values(1)},
    ]})
}

fn vector() -> Json {
    json!({"resultType": "vector", "result": [
        {"metric": {"__name__": "up", "job": "x", "instance": "one,two"}, "value": [1.5, "1"]},
        {"metric": {"__name__": "up", "job": "x", "instance": "\"q\""}, "value": [1.5, "-Inf"]},
        {"metric": {"__name__": "up", "job": "x"}, "histogram": [2, {"count": "3", "sum": "4.5",
            "buckets": [[0, "1", "2", "2"], [3, "-0.1", "0.1", "1"]]}]},
    ]})
}

#[test]
fn promtools_format_is_as_promtool_prints_it() {
    assert_eq!(
        value(&vector(), Format::Promql, WIDE).unwrap(),
        "up{instance=\"one,two\", job=\"x\"} => 1 @[1.5]\n\
         up{instance=\"\\\"q\\\"\", job=\"x\"} => -Inf @[1.5]\n\
         up{job=\"x\"} => Count: 3, Sum: 4.5, Buckets: [(1,2]:2 [-0.1,0.1]:1] @[2]\n"
    );
    let scalar = json!({"resultType": "scalar", "result": [1.25, "7"]});
    assert_eq!(
        value(&scalar, Format::Promql, WIDE).unwrap(),
        "scalar: 7 @[1.25]\n"
    );
    let shown = value(&matrix(), Format::Promql, WIDE).unwrap();
    assert!(shown.starts_with("m{i=\"a\", job=\"j\"} =>\n0 @[1700000000]\n1 @[1700000010]\n"));
    assert_eq!(
        promql::label_sets(&[set(&[("a", "b"), ("c.d", "e")])]),
        "{a=\"b\", \"c.d\"=\"e\"}\n"
    );
}

#[test]
fn csv_is_quoted_and_has_a_column_for_each_label() {
    assert_eq!(
        value(&vector(), Format::Csv, WIDE).unwrap(),
        "__name__,instance,job,timestamp,value\n\
         up,\"one,two\",x,1.5,1\n\
         up,\"\"\"q\"\"\",x,1.5,-Inf\n\
         up,,x,2,\"Count: 3, Sum: 4.5, Buckets: [(1,2]:2 [-0.1,0.1]:1]\"\n"
    );
    let sets = [set(&[("a", "1")]), set(&[("b", "2")])];
    assert_eq!(csv::label_sets(&sets), "a,b\n1,\n,2\n");
}

#[test]
fn a_table_says_shared_labels_once_and_fits_its_screen() {
    assert_eq!(
        value(&vector(), Format::Table, WIDE).unwrap(),
        "up{job=\"x\"}  3 series\n\
         instance            value\n\
         \"q\"                  -Inf\n\
         one,two                 1\n\
         \u{20}         count 3 sum 4.5\n"
    );
    let shown = value(&matrix(), Format::Table, WIDE).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "m{job=\"j\"}  2 series");
    assert_eq!(lines[1], "i  min   avg  max  last  points        at");
    assert_eq!(lines[3], "b    0    59  118   118      60  22:23:10");
    let long = json!({"resultType": "vector", "result": [
        {"metric": {"a": "x".repeat(100)}, "value": [1, "12345"]},
        {"metric": {"a": "y", "b": "z".repeat(50)}, "value": [1, "1"]},
    ]});
    let shown = value(&long, Format::Table, WIDE).unwrap();
    assert!(
        shown.lines().all(|line| line.chars().count() <= 60),
        "{shown}"
    );
    assert!(shown.contains("…") && shown.contains("12345"));
    let none = json!({"resultType": "vector", "result": []});
    assert_eq!(value(&none, Format::Table, WIDE).unwrap(), "no series\n");
}

#[test]
fn a_plot_rises_and_fits_its_screen() {
    let shown = value(&matrix(), Format::Plot, WIDE).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "m{job=\"j\"}  2 series");
    assert!(lines.len() <= 24, "{shown}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 60),
        "{shown}"
    );
    assert!(
        lines[1].starts_with("  118 ┤") && lines[1].ends_with('⠊'),
        "{shown}"
    );
    // The steeper line ends at the top, the other one half as high.
    let drawn: Vec<&&str> = lines[1..]
        .iter()
        .filter(|line| line.contains('┤') || line.contains('│'))
        .collect();
    let first = |line: &&&str| {
        line.chars()
            .position(|c| ('\u{2801}'..='\u{28ff}').contains(&c))
    };
    assert!(first(&drawn[0]) > first(drawn.last().unwrap()));
    assert!(shown.contains("22:13:20Z") && shown.contains("22:23:10Z"));
    assert!(shown.contains("{i=\"b\"}  last 118"), "{shown}");
}

#[test]
fn numbers_are_short() {
    for (number, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (0.013_81, "0.0138"),
        (0.001_234, "0.00123"),
        (1234.0, "1.234k"),
        (-98_765_432.0, "-98.77M"),
        (123_456.0, "123.5k"),
        (2.5e-5, "2.50e-5"),
        (f64::INFINITY, "+Inf"),
    ] {
        assert_eq!(text::short(number), text);
    }
}

#[test]
fn ranges_have_promtools_times_and_long_ones_parts() {
    let range = |start, end, now_ms| {
        let (server, query) = (String::new(), String::new());
        let flags = RangeFlags {
            start,
            end,
            step: None,
            server,
            query,
        };
        Range::new(&flags, now_ms)
    };
    let both = range(None, Some(Moment::At(600_000)), 0).unwrap();
    assert_eq!(
        (both.start_ms, both.end_ms, both.step_ms),
        (300_000, 600_000, 1000)
    );
    let ago = range(Some(Moment::Ago(3_600_000)), None, 7_200_000).unwrap();
    assert_eq!((ago.start_ms, ago.step_ms), (3_600_000, 14_000));
    assert!(range(Some(Moment::At(1)), Some(Moment::At(1)), 0).is_err());
    let mut whole = matrix();
    answer::append(
        &mut whole,
        json!({"result": [
            {"metric": {"i": "a", "__name__": "m", "job": "j"}, "values": [[1_800_000_000, "5"]]},
            {"metric": {"new": "x"}, "values": [[1_800_000_000, "6"]]},
        ]}),
    );
    let Answer::Matrix(all) = Answer::read(&whole).unwrap() else {
        panic!("{whole}");
    };
    let lengths: Vec<usize> = all.iter().map(|series| series.points.len()).collect();
    assert_eq!(lengths, [60, 61, 1]);
}

#[test]
fn used_buckets_are_counted_as_promtool_counts_them() {
    let series = |le: &str, values: [&str; 2]| {
        json!({"metric": {"__name__": "h_bucket", "le": le, "a": "b"},
               "values": [[1, values[0]], [2, values[1]]]})
    };
    let native = json!([[1, {"count": "2", "sum": "1", "buckets": [[0, "1", "2", "2"]]}],
                        [2, {"count": "3", "sum": "1", "buckets": [[0, "1", "2", "2"], [0, "2", "4", "1"]]}]]);
    let data = json!({"resultType": "matrix", "result": [
        series("1", ["0", "1"]), series("2", ["0", "1"]), series("+Inf", ["3", "5"]), series("0.5", ["0", "0"]),
        {"metric": {"__name__": "n"}, "histograms": native},
        {"metric": {"__name__": "gauge"}, "values": [[1, "1"], [2, "1"]]},
    ]});
    let mut asked = Vec::new();
    let report = analyze::histograms(&["h".to_owned()], Duration::from_secs(90), |query| {
        asked.push(query);
        Ok(data.clone())
    });
    let report = report.unwrap();
    assert_eq!(asked, ["h[90000ms]"]);
    assert!(report.contains("\n- n (native): 1/1.500/2\n"), "{report}");
    assert!(
        report.contains("\n- h_bucket{a=\"b\"} (classic): 1/1.500/2/4\n"),
        "{report}"
    );
    assert!(
        report.ends_with(
            "Classic histogram series (1 in total):\n- min populated: 1/1.000/1\n\
         - avg populated: 1/1.000/1\n- max populated: 2/2.000/2\n- total: 4/4.000/4\n"
        ),
        "{report}"
    );
}

#[test]
fn names_in_paths_are_escaped() {
    assert_eq!(source::escape_name("job"), "job");
    assert_eq!(source::escape_name("a.b_c"), "U__a_2e_b__c");
    assert_eq!(source::escape_name("1a"), "U__1a");
}
