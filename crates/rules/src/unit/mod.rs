//! Unit tests of rules, in promtool's files.
//!
//! ```text
//! test file -> series into memory, step by step -> groups evaluated -> alerts compared at their times
//!                                                                   -> expressions compared at the end
//! ```
//!
//! **Invariant:** a test passes here if and only if it passes in promtool, but for what `docs/conformance.md` lists.

mod decode;
mod diff;
mod run;
mod show;

use crate::{
    error::{Place, RuleError},
    file::Texts,
};
use narthex_model::LabelSet;

pub(crate) use run::Means;
pub use run::{TestOptions, TestOutcome};

/// A file of tests.
#[derive(Clone, Debug, Default)]
pub struct TestFile {
    /// Patterns of the rule files, relative to the test file.
    pub rule_files: Vec<String>,
    /// Its tests, in the order of the file.
    pub tests: Vec<TestCase>,
    /// Interval between evaluations, which the intervals of groups do not change.
    interval_ms: i64,
    /// Names of groups in the order of their evaluation; others come with the first.
    group_order: Vec<String>,
    /// Whether floats that are neighbours are equal.
    fuzzy_compare: bool,
}

/// Series, and what rules and queries are expected to make of them.
#[derive(Clone, Debug, Default)]
pub struct TestCase {
    /// The name; empty for none.
    pub name: String,
    /// Time between the values of a series.
    interval_ms: i64,
    start_ms: i64,
    input: Vec<InputSeries>,
    alert_tests: Vec<AlertTest>,
    expr_tests: Vec<ExprTest>,
    external_labels: LabelSet,
    external_url: String,
}

/// A series in the notation of promql's tests.
#[derive(Clone, Debug, Default)]
struct InputSeries {
    place: Place,
    series: String,
    values: String,
}

/// The alerts that fire under a name at a time.
#[derive(Clone, Debug, Default)]
struct AlertTest {
    place: Place,
    at_ms: i64,
    alertname: String,
    expected: Vec<ExpectedAlert>,
}

/// An alert, without `alertname` as it is written.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct ExpectedAlert {
    labels: Texts,
    annotations: Texts,
}

/// The result of an expression at a time.
#[derive(Clone, Debug, Default)]
struct ExprTest {
    place: Place,
    at_ms: i64,
    expr: String,
    expected: Vec<ExpectedSample>,
}

/// An element of a result.
#[derive(Clone, Debug, Default)]
struct ExpectedSample {
    labels: String,
    value: f64,
    /// Empty for a float.
    histogram: String,
}

/// Something in a test that is not as expected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TestFailure {
    /// Description in promtool's words, in several lines.
    pub text: String,
    /// The expectation's place in the test file; `None` if it is about a rule.
    pub place: Option<Place>,
}

impl TestFile {
    /// Parses the text of a test file.
    ///
    /// # Errors
    /// Fails with all errors of the first stage that has any: syntax, schema.
    pub fn parse(text: &str) -> Result<Self, Vec<RuleError>> {
        let document =
            narthex_yaml::read_all_keys(text).map_err(|error| vec![RuleError::Yaml(error)])?;
        decode::test_file(&document.root)
    }

    /// Reports whether a test has at most `most` evaluations and at most as many values of each series.
    pub(crate) fn is_within(&self, case: &TestCase, most: i64) -> bool {
        let mut values = case.input.iter().map(|input| &*input.values);
        let is_short = |values: &str| {
            // `1+2x30` repeats.
            let mut times = values.split('x').skip(1).map(|rest| {
                let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit());
                digits.into_iter().next().unwrap_or_default()
            });
            times.all(|digits| digits.is_empty() || digits.parse().is_ok_and(|n: i64| n <= most))
        };
        case.last_ms() / self.interval_ms.max(1) <= most && values.all(is_short)
    }
}

impl TestCase {
    /// Returns the latest time that a test asks for, counted from the beginning.
    fn last_ms(&self) -> i64 {
        let alerts = self.alert_tests.iter().map(|test| test.at_ms);
        let exprs = self.expr_tests.iter().map(|test| test.at_ms);
        alerts.chain(exprs).max().unwrap_or_default()
    }
}
