//! Runs a test: loads its series, evaluates the rules, compares.
//!
//! **Invariant:** an evaluation sees the samples up to its own time and no later ones.

use super::{
    AlertTest, ExpectedAlert, ExpectedSample, ExprTest, TestCase, TestFailure, TestFile, diff, show,
};
use crate::{
    eval::{ALERT_NAME, Elements, EvalOptions, OfflineGroups, RuleSet, texts_of},
    file::{RuleFile, Texts},
    template::go_duration,
};
use narthex_model::{
    LabelSet, MemStore, duration,
    storage::{Budget, Context, SeriesSample, Sink as _},
};
use narthex_promql::{
    Engine, EngineOptions, ParseOptions, SampleValue, Value, VectorSample,
    fmt::{float_f, quote},
    parse_metric,
    testing::{Samples, SeriesValue, parse_series},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// Longest time of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(100);

/// How tests are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestOptions {
    /// Whether names of metrics are dropped at the end of a query.
    pub delayed_name_removal: bool,
    /// Whether names may have letters of any script and dots without quotes.
    pub unquoted_utf8_names: bool,
    /// Whether unexpected alerts are shown as differences.
    pub diff: bool,
    /// Whether all samples are listed at the end.
    pub debug: bool,
}

/// Outcome of a test.
#[derive(Clone, Debug, Default)]
pub struct TestOutcome {
    /// What is not as expected; empty if the test passed.
    pub failures: Vec<TestFailure>,
    /// All samples at the end, if asked for.
    pub samples: Option<String>,
}

impl TestFile {
    /// Runs one of the file's tests with the rules of `files`, which are given with their paths.
    #[must_use]
    pub fn run(
        &self,
        case: &TestCase,
        files: &[(String, RuleFile)],
        options: TestOptions,
    ) -> TestOutcome {
        self.run_within(case, files, options, &Means::default())
    }

    /// As `run`, with limited means.
    pub(crate) fn run_within(
        &self,
        case: &TestCase,
        files: &[(String, RuleFile)],
        options: TestOptions,
        means: &Means,
    ) -> TestOutcome {
        let mut outcome = TestOutcome::default();
        match Run::new(self, case, files, options, means) {
            Ok(mut run) => {
                if run.evaluate() {
                    run.compare_exprs();
                    outcome.samples = options.debug.then(|| run.samples());
                }
                outcome.failures = run.failures;
            }
            Err(failure) => outcome.failures.push(failure),
        }
        outcome
    }
}

/// What the queries of a test may take.
pub(crate) struct Means {
    pub(crate) memory: Budget,
    /// Most samples that one holds at once.
    pub(crate) max_samples: u64,
}

impl Default for Means {
    /// Returns as many samples as a server allows, in any memory.
    fn default() -> Self {
        Self {
            memory: Budget::unlimited(),
            max_samples: EngineOptions::default().max_samples,
        }
    }
}

/// A series that is stored as time goes by.
struct Feed {
    labels: LabelSet,
    values: std::vec::IntoIter<SeriesValue>,
    next_ms: i64,
}

/// A test that runs.
struct Run<'a> {
    file: &'a TestFile,
    case: &'a TestCase,
    options: TestOptions,
    memory: Budget,
    engine: Engine,
    store: MemStore,
    feeds: Vec<Feed>,
    made: Samples,
    groups: OfflineGroups,
    /// Files and names of groups, in the order of evaluation.
    order: Vec<(String, String)>,
    /// Tests of alerts, by time.
    alert_tests: BTreeMap<i64, Vec<&'a AlertTest>>,
    failures: Vec<TestFailure>,
}

impl<'a> Run<'a> {
    fn new(
        file: &'a TestFile,
        case: &'a TestCase,
        files: &[(String, RuleFile)],
        options: TestOptions,
        means: &Means,
    ) -> Result<Self, TestFailure> {
        let feeds = feeds(case)?;
        let mut alert_tests: BTreeMap<i64, Vec<&AlertTest>> = BTreeMap::new();
        for test in &case.alert_tests {
            if test.alertname.is_empty() {
                return Err(nameless(case, test));
            }
            alert_tests.entry(test.at_ms).or_default().push(test);
        }
        let engine = Engine::new(EngineOptions {
            default_subquery_step_ms: file.interval_ms,
            delayed_name_removal: options.delayed_name_removal,
            parse: ParseOptions {
                unquoted_utf8_names: options.unquoted_utf8_names,
                ..ParseOptions::default()
            },
            max_samples: means.max_samples,
            ..EngineOptions::default()
        });
        let evaluation = EvalOptions {
            engine: engine.clone(),
            queries: means.memory.clone(),
            state: means.memory.clone(),
            timeout: QUERY_TIMEOUT,
            now_ms: Arc::new(|| 0),
            alerts: None,
            outage_tolerance: Duration::ZERO,
            grace_period: Duration::ZERO,
            resend_delay: Duration::ZERO,
        };
        let rules = RuleSet {
            files: files.to_vec(),
            interval: Duration::from_millis(case.interval_ms.unsigned_abs()),
            query_offset: Duration::ZERO,
            external_labels: case.external_labels.clone(),
            external_url: case.external_url.clone(),
        };
        let store = MemStore::new();
        let (view, sink) = (Arc::new(store.clone()), Arc::new(store.clone()));
        Ok(Self {
            file,
            case,
            options,
            memory: means.memory.clone(),
            engine,
            feeds,
            made: Samples::default(),
            groups: OfflineGroups::new(evaluation, view, sink, &rules, false),
            order: ordered(files, &file.group_order),
            store,
            alert_tests,
            failures: Vec::new(),
        })
    }

    /// Evaluates the rules from the beginning to the last time that a test asks for, and compares alerts.
    ///
    /// Returns whether every evaluation succeeded.
    fn evaluate(&mut self) -> bool {
        let (start_ms, step_ms) = (self.case.start_ms, self.file.interval_ms);
        let last_ms = start_ms.saturating_add(self.case.last_ms());
        let mut time_ms = start_ms;
        while time_ms <= last_ms {
            self.load(time_ms);
            for (file, name) in &self.order {
                self.groups.evaluate(file, name, time_ms);
            }
            let errors = self.groups.errors();
            if !errors.is_empty() {
                let time = go_duration(time_ms);
                self.failures
                    .extend(errors.into_iter().map(|(name, error)| TestFailure {
                        text: format!("    rule: {name}, time: {time}, err: {error}"),
                        place: None,
                    }));
                return false;
            }
            // Alerts are those of the last evaluation before their time.
            let later = self.alert_tests.split_off(&(time_ms - start_ms + step_ms));
            let due = std::mem::replace(&mut self.alert_tests, later);
            for test in due.into_values().flatten() {
                self.compare_alerts(test);
            }
            time_ms = time_ms.saturating_add(step_ms);
        }
        true
    }

    /// Stores the samples up to `time_ms`.
    fn load(&mut self, time_ms: i64) {
        let mut samples: Vec<SeriesSample> = Vec::new();
        for feed in &mut self.feeds {
            while feed.next_ms <= time_ms {
                let Some(value) = feed.values.next() else {
                    break;
                };
                samples.extend(self.made.sample(&feed.labels, feed.next_ms, &value));
                feed.next_ms = feed.next_ms.saturating_add(self.case.interval_ms);
            }
        }
        self.store
            .append_samples(&samples)
            .expect("memory refuses nothing");
    }

    fn compare_alerts(&mut self, test: &AlertTest) {
        let alerts = self.groups.alerts(Some(&test.alertname)).into_iter();
        let firing = alerts.filter(|alert| alert.is_firing);
        let mut got: Vec<ExpectedAlert> = firing
            .map(|alert| ExpectedAlert {
                labels: texts_of(&alert.labels),
                annotations: alert.annotations,
            })
            .collect();
        let mut expected = test.expected.clone();
        for alert in &mut expected {
            let name = test.alertname.clone();
            alert.labels.insert(ALERT_NAME.to_owned(), name);
        }
        got.sort();
        expected.sort();
        if expected == got {
            return;
        }
        let name = match &*self.case.name {
            "" => String::new(),
            name => format!("    name: {name},\n"),
        };
        let (alertname, time) = (&test.alertname, duration::format(test.at_ms));
        let shown = if self.options.diff {
            format!("diff: {}", show::indented(&diff::alerts(&expected, &got)))
        } else {
            let (expected, got) = (show::alerts(&expected), show::alerts(&got));
            format!("exp:{expected}, \n        got:{got}")
        };
        self.fail(
            test.place,
            format!("{name}    alertname: {alertname}, time: {time}, \n        {shown}"),
        );
    }

    fn compare_exprs(&mut self) {
        for test in &self.case.expr_tests {
            if let Err(reason) = self.compare_expr(test) {
                let (expr, time) = (quote(&test.expr), duration::format(test.at_ms));
                let text = format!("    expr: {expr}, time: {time},{reason}");
                self.fail(test.place, text);
            }
        }
    }

    fn compare_expr(&self, test: &ExprTest) -> Result<(), String> {
        let failed = |error: String| format!(" err: {error}");
        let time_ms = self.case.start_ms.saturating_add(test.at_ms);
        let got = self.query(&test.expr, time_ms).map_err(failed)?;
        let got = got.iter().map(|sample| {
            let (value, histogram) = match &sample.value {
                SampleValue::Float(value) => (*value, String::new()),
                SampleValue::Histogram(histogram) => (0.0, histogram.test_notation()),
            };
            Element {
                labels: texts_of(&sample.labels),
                value,
                histogram,
            }
        });
        let mut got: Vec<Element> = got.collect();
        let expected = test.expected.iter().map(Element::expected);
        let mut expected = expected
            .collect::<Result<Vec<Element>, String>>()
            .map_err(failed)?;
        expected.sort_by(|a, b| a.labels.cmp(&b.labels));
        got.sort_by(|a, b| a.labels.cmp(&b.labels));
        let same = |(a, b): (&Element, &Element)| a.equals(b, self.file.fuzzy_compare);
        if expected.len() == got.len() && expected.iter().zip(&got).all(same) {
            return Ok(());
        }
        let (expected, got) = (shown(&expected), shown(&got));
        Err(format!("\n        exp: {expected}\n        got: {got}"))
    }

    fn context(&self) -> Context {
        Context {
            budget: self.memory.clone(),
            ..Context::unlimited()
        }
    }

    fn query(&self, text: &str, time_ms: i64) -> Result<Vec<VectorSample>, String> {
        let ctx = self.context();
        let result = self.engine.instant(&self.store, text, time_ms, &ctx);
        Ok(Elements::new(result)?.samples)
    }

    /// Lists all samples of all series.
    fn samples(&self) -> String {
        // Queries have whole seconds; the last test may have a fraction.
        let span_ms = (self.case.last_ms() / 1000 + 1) * 1000;
        let time = go_duration(span_ms);
        // A window leaves its beginning out, which is the first sample's time.
        let text = format!("{{__name__=~\".+\"}}[{}ms]", span_ms + 1);
        let time_ms = self.case.start_ms.saturating_add(span_ms);
        let ctx = self.context();
        let mut out = format!("DEBUG: Dump of all data (input_series and rules) at {time}:\n");
        match self.engine.instant(&self.store, &text, time_ms, &ctx) {
            Ok(result) => {
                if let Value::Matrix(matrix) = result.value {
                    for series in matrix {
                        out += &format!("{} =>\n", show::labels(&texts_of(&series.labels)));
                        for (time_ms, value) in series.floats {
                            out += &format!("{} @[{time_ms}]\n", float_f(value));
                        }
                        for (time_ms, histogram) in series.histograms {
                            out += &format!("{histogram} @[{time_ms}]\n");
                        }
                    }
                }
            }
            Err(error) => out += &format!("DEBUG: Failed query, expr: {text}, err: {error}\n"),
        }
        out
    }

    fn fail(&mut self, place: crate::Place, text: String) {
        self.failures.push(TestFailure {
            text,
            place: Some(place),
        });
    }
}

/// An element of a result, expected or found.
struct Element {
    labels: Texts,
    value: f64,
    /// Empty for a float.
    histogram: String,
}

impl Element {
    fn expected(sample: &ExpectedSample) -> Result<Self, String> {
        let in_labels = |error: String| format!("labels {}: {error}", quote(&sample.labels));
        let labels = parse_metric(&sample.labels).map_err(|error| in_labels(error.to_string()))?;
        let histogram = match &*sample.histogram {
            "" => String::new(),
            text => histogram_of(text).map_err(in_labels)?,
        };
        Ok(Self {
            labels: texts_of(&labels),
            value: sample.value,
            histogram,
        })
    }

    fn equals(&self, other: &Self, fuzzy: bool) -> bool {
        let (a, b) = (self.value, other.value);
        // NaN equals nothing, as in promtool.
        let same = a == b || fuzzy && (a.next_up() == b || a.next_down() == b);
        same && self.labels == other.labels && self.histogram == other.histogram
    }
}

/// Returns the one histogram of a text in the notation it is compared in.
fn histogram_of(text: &str) -> Result<String, String> {
    let (_, values) = parse_series(&format!("{{}} {}", text.trim()))?;
    match &*values {
        [SeriesValue::Histogram { histogram, .. }] => Ok(histogram.test_notation()),
        [SeriesValue::Float(value)] => Err(format!("expected histogram, got {value:.6}")),
        [SeriesValue::Missing] => Err("expected histogram, got _".to_owned()),
        values => Err(format!("expected 1 value, got {}", values.len())),
    }
}

/// Formats elements in one line.
fn shown(elements: &[Element]) -> String {
    if elements.is_empty() {
        return "nil".to_owned();
    }
    let texts: Vec<String> = elements
        .iter()
        .map(|element| {
            let labels = show::labels(&element.labels);
            match &*element.histogram {
                "" => format!("{labels} {}", show::value(element.value)),
                histogram => format!("{labels} {histogram}"),
            }
        })
        .collect();
    texts.join(", ")
}

/// Parses the series of a test; of several with the same labels the last one counts.
fn feeds(case: &TestCase) -> Result<Vec<Feed>, TestFailure> {
    let mut feeds: Vec<Feed> = Vec::new();
    let mut known: HashMap<LabelSet, usize> = HashMap::new();
    for input in &case.input {
        let line = format!("{} {}", input.series.trim(), input.values.trim());
        let (labels, values) = parse_series(&line).map_err(|error| TestFailure {
            text: format!("    series: {}, err: {error}", quote(&line)),
            place: Some(input.place),
        })?;
        let feed = Feed {
            labels: labels.clone(),
            values: values.into_iter(),
            next_ms: case.start_ms,
        };
        match known.get(&labels) {
            Some(at) => feeds[*at] = feed,
            None => {
                known.insert(labels, feeds.len());
                feeds.push(feed);
            }
        }
    }
    Ok(feeds)
}

/// Lists all groups in the order of their evaluation.
fn ordered(files: &[(String, RuleFile)], order: &[String]) -> Vec<(String, String)> {
    let of_file = |(path, file): &(String, RuleFile)| -> Vec<(String, String)> {
        let names = file.groups.iter().map(|group| group.name.clone());
        names.map(|name| (path.clone(), name)).collect()
    };
    let mut all: Vec<(String, String)> = files.iter().flat_map(of_file).collect();
    // Groups that the order leaves out come with its first; the sort is stable.
    let rank = |name: &String| order.iter().position(|listed| listed == name);
    all.sort_by_key(|(_, name)| rank(name).unwrap_or(0));
    all
}

fn nameless(case: &TestCase, test: &AlertTest) -> TestFailure {
    let time = duration::format(test.at_ms);
    let of = match &*case.name {
        "" => String::new(),
        name => format!(" (in TestGroup {name})"),
    };
    TestFailure {
        text: format!(
            "an item under alert_rule_test misses required attribute alertname at eval_time {time}{of}"
        ),
        place: Some(test.place),
    }
}
