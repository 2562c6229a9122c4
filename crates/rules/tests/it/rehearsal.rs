//! Groups evaluated at times of the test's choice, over series in memory or in the storage engine.

use crate::engine::{Engine, Series};
use narthex_model::{
    Frame, LabelSet, MatchOp, Matcher, MemStore, Schema,
    conformance::{Sampled, dump},
    storage::{
        Binding, BoundRound, Budget, Outcome, SeriesSample, Sink, StorageError, Store, SyncToken,
        TimeRange,
    },
};
use narthex_promql::{
    EngineOptions,
    fmt::quote,
    testing::{SeriesValue, parse_series},
};
use narthex_rules::{
    Alert, AlertSink, EvalOptions, OfflineGroups, ParseOptions, RuleSet, Texts, parse,
};
use serde_json::{Value, json};
use std::{
    any::Any,
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

const FILE: &str = "rules.yml";

pub(crate) struct Rehearsal {
    pub(crate) store: MemStore,
    /// Has the series instead of `store`.
    engine: Option<Engine>,
    /// Columns of the widest frame that was stored.
    pub(crate) widest: Arc<AtomicUsize>,
    /// How many frames were stored at once, for each time that any were.
    pub(crate) stored_at_once: Arc<Mutex<Vec<usize>>>,
    now_ms: Arc<AtomicI64>,
    interval_ms: i64,
    grace_ms: i64,
    sent: Arc<Sent>,
    all_sent: BTreeMap<String, Vec<String>>,
    errors: BTreeMap<String, Vec<String>>,
    alerts: Vec<Vec<String>>,
    pub(crate) groups: Option<OfflineGroups>,
    /// How many rules of a group are evaluated beside others.
    pub(crate) at_once: usize,
}

/// A sink that notes how wide frames are, and how many it is handed at once.
struct Watched {
    sink: Arc<dyn Sink>,
    widest: Arc<AtomicUsize>,
    stored_at_once: Arc<Mutex<Vec<usize>>>,
}

struct WatchedBinding {
    binding: Box<dyn Binding>,
    widest: Arc<AtomicUsize>,
}

impl Sink for Watched {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(WatchedBinding {
            binding: self.sink.bind(schema)?,
            widest: Arc::clone(&self.widest),
        }))
    }

    fn append_together(&self, rounds: &mut [BoundRound<'_>]) -> Result<Outcome, StorageError> {
        self.stored_at_once.lock().unwrap().push(rounds.len());
        let own = rounds.iter_mut().map(|round| {
            let binding: &mut dyn Any = round.binding;
            let binding: &mut WatchedBinding = binding.downcast_mut().unwrap();
            binding
                .widest
                .fetch_max(round.frame.schema().len(), Ordering::Relaxed);
            BoundRound::new(&mut *binding.binding, round.frame)
        });
        let mut own: Vec<BoundRound<'_>> = own.collect();
        let total = self.sink.append_together(&mut own)?;
        let outcomes: Vec<Outcome> = own.iter().map(|round| round.outcome).collect();
        for (round, outcome) in rounds.iter_mut().zip(outcomes) {
            round.outcome = outcome;
        }
        Ok(total)
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        self.sink.append_samples(samples)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        self.sink.sync(token)
    }
}

impl Binding for WatchedBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.binding.rebind(schema)
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        self.widest
            .fetch_max(frame.schema().len(), Ordering::Relaxed);
        self.binding.append(frame)
    }
}

#[derive(Default)]
struct Sent(Mutex<Vec<Alert>>);

impl AlertSink for Sent {
    fn send(&self, alerts: Vec<Alert>) {
        assert!(!alerts.is_empty());
        self.0.lock().unwrap().extend(alerts);
    }
}

impl Rehearsal {
    pub(crate) fn new(series: &str, step_ms: i64, grace_ms: i64) -> Self {
        let rehearsal = Self {
            store: MemStore::new(),
            engine: None,
            widest: Arc::default(),
            stored_at_once: Arc::default(),
            now_ms: Arc::default(),
            interval_ms: step_ms,
            grace_ms,
            sent: Arc::default(),
            all_sent: BTreeMap::new(),
            errors: BTreeMap::new(),
            alerts: Vec::new(),
            groups: None,
            at_once: 0,
        };
        for (labels, values) in series_of(series) {
            for (at, value) in values.into_iter().enumerate() {
                let time_ms = at as i64 * step_ms;
                let sample = match value {
                    SeriesValue::Missing => continue,
                    SeriesValue::Float(value) => {
                        SeriesSample::float(labels.clone(), time_ms, value)
                    }
                    SeriesValue::Histogram { histogram, .. } => {
                        SeriesSample::histogram(labels.clone(), time_ms, histogram)
                    }
                };
                rehearsal.store.append_samples(&[sample]).unwrap();
            }
        }
        rehearsal
    }

    /// Like `new`, over the storage engine.
    pub(crate) fn stored(series: &str, step_ms: i64, grace_ms: i64) -> Self {
        Self {
            engine: Some(Engine::new(series_of(series), step_ms)),
            ..Self::new("", step_ms, grace_ms)
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        match &self.engine {
            Some(engine) => Arc::new(engine.db.clone()),
            None => Arc::new(self.store.clone()),
        }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        match &self.engine {
            Some(engine) => Arc::new(engine.db.clone()),
            None => Arc::new(self.store.clone()),
        }
    }

    fn options(&self) -> EvalOptions {
        let now_ms = Arc::clone(&self.now_ms);
        EvalOptions {
            engine: narthex_promql::Engine::new(EngineOptions::default()),
            queries: Budget::unlimited(),
            state: Budget::unlimited(),
            timeout: Duration::from_mins(1),
            now_ms: Arc::new(move || now_ms.load(Ordering::Relaxed)),
            alerts: Some(Arc::<Sent>::clone(&self.sent)),
            outage_tolerance: Duration::from_hours(1),
            grace_period: Duration::from_millis(self.grace_ms.unsigned_abs()),
            resend_delay: Duration::from_mins(1),
        }
    }

    /// Makes the groups of `rules` those that run.
    pub(crate) fn begin(&mut self, begin: &str, rules: &str, time_ms: i64) {
        let file = parse(rules, ParseOptions::default()).unwrap();
        let rules = RuleSet {
            files: vec![(FILE.to_owned(), file)],
            interval: Duration::from_millis(self.interval_ms.unsigned_abs()),
            query_offset: Duration::ZERO,
            external_labels: LabelSet::new([("region", "here")]),
            external_url: "http://me:9090".to_owned(),
        };
        if begin == "reload" {
            self.groups.as_mut().unwrap().apply(&rules, time_ms);
            return;
        }
        let restores = begin == "restart";
        self.groups = None;
        if let Some(engine) = self.engine.as_mut().filter(|_| restores) {
            engine.restart(time_ms);
        }
        let sink = Arc::new(Watched {
            sink: self.sink(),
            widest: Arc::clone(&self.widest),
            stored_at_once: Arc::clone(&self.stored_at_once),
        });
        let groups = OfflineGroups::new(self.options(), self.store(), sink, &rules, restores);
        groups.evaluate_at_once(self.at_once, Duration::ZERO);
        self.groups = Some(groups);
    }

    /// Evaluates all groups at some times.
    pub(crate) fn run(&mut self, begin: &str, rules: &str, times_ms: &[i64]) {
        self.begin(begin, rules, times_ms[0]);
        for time_ms in times_ms {
            self.evaluate(*time_ms);
        }
        let alerts = self.groups.as_ref().unwrap().alerts(None).into_iter();
        let mut alerts: Vec<String> = alerts
            .map(|alert| {
                let state = if alert.is_firing { "firing" } else { "pending" };
                let (labels, annotations) = (alert.labels, shown(&alert.annotations));
                // As Go prints it.
                let value = match alert.value {
                    large if large.abs() >= 1e21 => format!("{large:e}").replace('e', "e+"),
                    value => value.to_string(),
                };
                let active_at_ms = alert.active_at_ms;
                format!("{labels} {annotations} {state} {active_at_ms} {value}")
            })
            .collect();
        alerts.sort();
        self.alerts.push(alerts);
    }

    pub(crate) fn evaluate(&mut self, time_ms: i64) {
        self.now_ms.store(time_ms, Ordering::Relaxed);
        if let Some(engine) = &mut self.engine {
            engine.advance(time_ms);
        }
        let groups = self.groups.as_ref().unwrap();
        let names: Vec<String> = groups.names().map(|(_, name)| name.to_owned()).collect();
        for name in names {
            groups.evaluate(FILE, &name, time_ms);
        }
        let failed = groups.errors().into_iter();
        let failed = failed.filter(|(_, error)| !error.starts_with("duplicate sample"));
        let failed: Vec<String> = failed
            .map(|(name, error)| format!("{name}: {error}"))
            .collect();
        if !failed.is_empty() {
            self.errors.insert(time_ms.to_string(), failed);
        }
        let sent = self.take_sent().into_iter().map(|alert| {
            let (labels, annotations) = (alert.labels, shown(&alert.annotations));
            let times = format!("{} {}", alert.starts_at_ms, alert.ends_at_ms);
            format!("{labels} {annotations} {times} {}", alert.is_resolved)
        });
        let mut sent: Vec<String> = sent.collect();
        sent.sort();
        if !sent.is_empty() {
            self.all_sent.insert(time_ms.to_string(), sent);
        }
    }

    pub(crate) fn take_sent(&self) -> Vec<Alert> {
        std::mem::take(&mut *self.sent.0.lock().unwrap())
    }

    /// Returns everything in the oracle's form.
    pub(crate) fn result(&self, names: &str) -> Value {
        json!({
            "series": self.series(names),
            "sent": self.all_sent,
            "errors": self.errors,
            "alerts": self.alerts,
        })
    }

    /// Returns all samples of the series whose names match.
    pub(crate) fn series(&self, names: &str) -> BTreeMap<String, Vec<String>> {
        let matcher = Matcher::new(MatchOp::Regex, "__name__", names).unwrap();
        let all = dump(
            &*self.store(),
            &[matcher],
            TimeRange::new(i64::MIN / 2, i64::MAX / 2),
        );
        all.into_iter()
            .map(|(labels, samples)| {
                let samples = samples
                    .into_iter()
                    .map(|(time_ms, sample, _)| match sample {
                        Sampled::Float(bits) => format!("{time_ms} {bits:x}"),
                        Sampled::Stale => format!("{time_ms} stale"),
                        Sampled::Histogram(histogram) => {
                            assert!(!histogram.integer_counts);
                            let (count, sum) = (histogram.count, histogram.sum);
                            format!("{time_ms} histogram {count} {sum}")
                        }
                    });
                (go_labels(&labels), samples.collect())
            })
            .collect()
    }
}

fn series_of(lines: &str) -> Vec<Series> {
    let lines = lines.lines();
    lines
        .map(|line| parse_series(line.trim()).unwrap())
        .collect()
}

/// Formats a label set as Go does, the name among the labels.
fn go_labels(labels: &LabelSet) -> String {
    let pairs = labels.iter().map(|label| (label.name(), label.value()));
    joined(pairs)
}

fn shown(texts: &Texts) -> String {
    joined(texts.iter().map(|(name, text)| (&**name, &**text)))
}

fn joined<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={}", quote(value)))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}
