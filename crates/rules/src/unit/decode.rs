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
use narthex_yaml::{Node, Value};

/// Interval between evaluations where a file names none.
const DEFAULT_INTERVAL_MS: i64 = 60_000;

/// Reads a test file.
///
/// # Errors
/// Fails with every value that does not fit.
pub(super) fn test_file(root: &Node) -> Result<TestFile, Vec<RuleError>> {
    let mut decoder = Decoder::new(false);
    let mut file = TestFile::default();
    decoder.fields(root, "main.unitTestFile", |decoder, key, node| {
        match key {
            "rule_files" => file.rule_files = strings(decoder, node),
            "evaluation_interval" => file.interval_ms = period(decoder, node),
            "group_eval_order" => file.group_order = group_order(decoder, node),
            "tests" => file.tests = decoder.list(node, "[]main.testGroup", test),
            "fuzzy_compare" => file.fuzzy_compare = decoder.boolean(node),
            _ => return false,
        }
        true
    });
    if file.interval_ms == 0 {
        file.interval_ms = DEFAULT_INTERVAL_MS;
    }
    for test in file.tests.iter_mut().filter(|test| test.interval_ms == 0) {
        test.interval_ms = file.interval_ms;
    }
    decoder.finish(file)
}

fn test(decoder: &mut Decoder, node: &Node) -> Option<TestCase> {
    let mut case = TestCase::default();
    let fits = decoder.fields(node, "main.testGroup", |decoder, key, node| {
        match key {
            "interval" => case.interval_ms = period(decoder, node),
            "input_series" => case.input = decoder.list(node, "[]main.series", series),
            "alert_rule_test" => {
                case.alert_tests = decoder.list(node, "[]main.alertTestCase", alert_test);
            }
            "promql_expr_test" => {
                case.expr_tests = decoder.list(node, "[]main.promqlTestCase", expr_test);
            }
            "external_labels" => case.external_labels = label_set(&texts(decoder, node)),
            "external_url" => case.external_url = decoder.text(node).text,
            "name" => case.name = decoder.text(node).text,
            "start_timestamp" => case.start_ms = time(decoder, node),
            _ => return false,
        }
        true
    });
    // `- ` alone is a test without expectations.
    (fits || node.is_null()).then_some(case)
}

fn series(decoder: &mut Decoder, node: &Node) -> Option<InputSeries> {
    let mut series = InputSeries {
        place: place(node),
        ..InputSeries::default()
    };
    let fits = decoder.fields(node, "main.series", |decoder, key, node| {
        match key {
            "series" => series.series = decoder.text(node).text,
            "values" => series.values = decoder.text(node).text,
            _ => return false,
        }
        true
    });
    fits.then_some(series)
}

fn alert_test(decoder: &mut Decoder, node: &Node) -> Option<AlertTest> {
    let mut test = AlertTest {
        place: place(node),
        ..AlertTest::default()
    };
    let fits = decoder.fields(node, "main.alertTestCase", |decoder, key, node| {
        match key {
            "eval_time" => test.at_ms = period(decoder, node),
            "alertname" => test.alertname = decoder.text(node).text,
            "exp_alerts" => test.expected = decoder.list(node, "[]main.alert", expected_alert),
            _ => return false,
        }
        true
    });
    fits.then_some(test)
}

fn expected_alert(decoder: &mut Decoder, node: &Node) -> Option<ExpectedAlert> {
    let mut alert = ExpectedAlert::default();
    let fits = decoder.fields(node, "main.alert", |decoder, key, node| {
        match key {
            "exp_labels" => alert.labels = texts(decoder, node),
            "exp_annotations" => alert.annotations = texts(decoder, node),
            _ => return false,
        }
        true
    });
    (fits || node.is_null()).then_some(alert)
}

fn expr_test(decoder: &mut Decoder, node: &Node) -> Option<ExprTest> {
    let mut test = ExprTest {
        place: place(node),
        ..ExprTest::default()
    };
    let fits = decoder.fields(node, "main.promqlTestCase", |decoder, key, node| {
        match key {
            "expr" => test.expr = decoder.text(node).text,
            "eval_time" => test.at_ms = period(decoder, node),
            "exp_samples" => test.expected = decoder.list(node, "[]main.sample", sample),
            _ => return false,
        }
        true
    });
    fits.then_some(test)
}

fn sample(decoder: &mut Decoder, node: &Node) -> Option<ExpectedSample> {
    let mut sample = ExpectedSample::default();
    let fits = decoder.fields(node, "main.sample", |decoder, key, node| {
        match key {
            "labels" => sample.labels = decoder.text(node).text,
            "value" => sample.value = decoder.float(node),
            "histogram" => sample.histogram = decoder.text(node).text,
            _ => return false,
        }
        true
    });
    fits.then_some(sample)
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
    let Value::Scalar(scalar) = &node.value else {
        if !node.is_null() {
            decoder.misfit(node, "string");
        }
        return 0;
    };
    date::parse_time(&scalar.text).unwrap_or_else(|| {
        let text = quote(&scalar.text);
        decoder.invalid(
            place(node),
            format!("cannot parse {text} to a valid timestamp"),
        );
        0
    })
}
