//! Fits a tree into the schema of test files.
//!
//! **Invariant:** unknown keys are always reported, as promtool does: a misspelt expectation would pass.

use super::{AlertTest, ExpectedAlert, ExpectedSample, ExprTest, InputSeries, TestCase, TestFile};
use crate::{
    decode::{Decoder, Text, place},
    error::RuleError,
    file::Texts,
};
use narthex_model::{LabelSet, date};
use narthex_promql::fmt::quote;
use narthex_yaml::Node;

/// Interval between evaluations where a file names none.
const DEFAULT_INTERVAL_MS: i64 = 60_000;

/// Reads a test file.
///
/// # Errors
/// Fails with every value that does not fit.
pub(super) fn test_file(root: &Node) -> Result<TestFile, Vec<RuleError>> {
    let mut decoder = Decoder::new(false);
    let file = decoder.object(
        root,
        "main.unitTestFile",
        |file: &mut TestFile, it, key, node| match key {
            "rule_files" => file.rule_files = strings(it, node),
            "evaluation_interval" => file.interval_ms = period(it, node),
            "group_eval_order" => file.group_order = group_order(it, node),
            "tests" => file.tests = it.list(node, "[]main.testGroup", test),
            "fuzzy_compare" => file.fuzzy_compare = it.boolean(node),
            _ => it.unknown(),
        },
    );
    let mut file = file.unwrap_or_default();
    if file.interval_ms == 0 {
        file.interval_ms = DEFAULT_INTERVAL_MS;
    }
    for test in file.tests.iter_mut().filter(|test| test.interval_ms == 0) {
        test.interval_ms = file.interval_ms;
    }
    decoder.finish(file)
}

fn test(decoder: &mut Decoder, node: &Node) -> Option<TestCase> {
    let case = decoder.object(
        node,
        "main.testGroup",
        |case: &mut TestCase, it, key, node| match key {
            "interval" => case.interval_ms = period(it, node),
            "input_series" => case.input = it.list(node, "[]main.series", series),
            "alert_rule_test" => {
                case.alert_tests = it.list(node, "[]main.alertTestCase", alert_test);
            }
            "promql_expr_test" => {
                case.expr_tests = it.list(node, "[]main.promqlTestCase", expr_test);
            }
            "external_labels" => case.external_labels = label_set(&texts(it, node)),
            "external_url" => case.external_url = it.text(node).text,
            "name" => case.name = it.text(node).text,
            "start_timestamp" => case.start_ms = time(it, node),
            _ => it.unknown(),
        },
    );
    // `- ` alone is a test without expectations.
    case.or_else(|| node.is_null().then(TestCase::default))
}

fn series(decoder: &mut Decoder, node: &Node) -> Option<InputSeries> {
    let read = decoder.object(
        node,
        "main.series",
        |series: &mut InputSeries, it, key, node| match key {
            "series" => series.series = it.text(node).text,
            "values" => series.values = it.text(node).text,
            _ => it.unknown(),
        },
    );
    read.map(|series| InputSeries {
        place: place(node),
        ..series
    })
}

fn alert_test(decoder: &mut Decoder, node: &Node) -> Option<AlertTest> {
    let read = decoder.object(
        node,
        "main.alertTestCase",
        |test: &mut AlertTest, it, key, node| match key {
            "eval_time" => test.at_ms = period(it, node),
            "alertname" => test.alertname = it.text(node).text,
            "exp_alerts" => test.expected = it.list(node, "[]main.alert", expected_alert),
            _ => it.unknown(),
        },
    );
    read.map(|test| AlertTest {
        place: place(node),
        ..test
    })
}

fn expected_alert(decoder: &mut Decoder, node: &Node) -> Option<ExpectedAlert> {
    let alert = decoder.object(
        node,
        "main.alert",
        |alert: &mut ExpectedAlert, it, key, node| match key {
            "exp_labels" => alert.labels = texts(it, node),
            "exp_annotations" => alert.annotations = texts(it, node),
            _ => it.unknown(),
        },
    );
    alert.or_else(|| node.is_null().then(ExpectedAlert::default))
}

fn expr_test(decoder: &mut Decoder, node: &Node) -> Option<ExprTest> {
    let read = decoder.object(
        node,
        "main.promqlTestCase",
        |test: &mut ExprTest, it, key, node| match key {
            "expr" => test.expr = it.text(node).text,
            "eval_time" => test.at_ms = period(it, node),
            "exp_samples" => test.expected = it.list(node, "[]main.sample", sample),
            _ => it.unknown(),
        },
    );
    read.map(|test| ExprTest {
        place: place(node),
        ..test
    })
}

fn sample(decoder: &mut Decoder, node: &Node) -> Option<ExpectedSample> {
    decoder.object(
        node,
        "main.sample",
        |sample: &mut ExpectedSample, it, key, node| match key {
            "labels" => sample.labels = it.text(node).text,
            "value" => sample.value = it.float(node),
            "histogram" => sample.histogram = it.text(node).text,
            _ => it.unknown(),
        },
    )
}

fn group_order(decoder: &mut Decoder, node: &Node) -> Vec<String> {
    let names: Vec<Text> = decoder.list(node, "[]string", |decoder, node| Some(decoder.text(node)));
    let mut order = Vec::with_capacity(names.len());
    for Text { place, text, .. } in names {
        if order.contains(&text) {
            let message = format!("group name repeated in evaluation order: {text}");
            decoder.invalid(place, message);
        }
        order.push(text);
    }
    order
}

fn strings(decoder: &mut Decoder, node: &Node) -> Vec<String> {
    decoder.list(node, "[]string", |decoder, node| {
        Some(decoder.text(node).text)
    })
}

fn texts(decoder: &mut Decoder, node: &Node) -> Texts {
    let pairs = decoder.texts(node).into_iter();
    pairs.map(|(name, text)| (name.text, text.text)).collect()
}

fn label_set(texts: &Texts) -> LabelSet {
    LabelSet::new(texts.iter().map(|(name, text)| (&**name, &**text)))
}

fn period(decoder: &mut Decoder, node: &Node) -> i64 {
    decoder.period(node).unwrap_or_default()
}

fn time(decoder: &mut Decoder, node: &Node) -> i64 {
    let parse = |text: &str| {
        let time = date::parse_time(text);
        time.ok_or_else(|| format!("cannot parse {} to a valid timestamp", quote(text)))
    };
    decoder.parsed(node, parse).unwrap_or_default()
}
