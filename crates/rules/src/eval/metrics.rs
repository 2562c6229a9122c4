//! Metrics of rule evaluation, with Prometheus' names.

use narthex_client::{
    Counter, CounterHandle, CounterVec, Error, GaugeHandle, GaugeVec, Histogram, Registry, Summary,
};

const SECONDS: &[f64] = &[0.01, 0.1, 1.0, 10.0];
const GROUP: &[&str; 1] = &["rule_group"];

pub(crate) static RULE_DURATION: Summary = Summary::new(
    "prometheus_rule_evaluation_duration_seconds",
    "The duration for a rule to execute.",
    &[0.5, 0.9, 0.99],
);
pub(crate) static RULE_DURATION_HISTOGRAM: Histogram = Histogram::new(
    "prometheus_rule_evaluation_duration_histogram_seconds",
    "The duration for a rule to execute.",
    SECONDS,
);
pub(crate) static GROUP_DURATION: Summary = Summary::new(
    "prometheus_rule_group_duration_seconds",
    "The duration of rule group evaluations.",
    &[0.01, 0.05, 0.5, 0.9, 0.99],
);
pub(crate) static GROUP_DURATION_HISTOGRAM: Histogram = Histogram::new(
    "prometheus_rule_group_duration_histogram_seconds",
    "The duration of rule group evaluations.",
    SECONDS,
);
pub(crate) static ITERATIONS_MISSED: CounterVec<1> = CounterVec::new(
    "prometheus_rule_group_iterations_missed_total",
    "The total number of rule group evaluations missed due to slow rule group evaluation.",
    GROUP,
);
pub(crate) static ITERATIONS: CounterVec<1> = CounterVec::new(
    "prometheus_rule_group_iterations_total",
    "The total number of scheduled rule group evaluations, whether executed or missed.",
    GROUP,
);
pub(crate) static EVALUATIONS: CounterVec<1> = CounterVec::new(
    "prometheus_rule_evaluations_total",
    "The total number of rule evaluations.",
    GROUP,
);
pub(crate) static FAILURES: CounterVec<1> = CounterVec::new(
    "prometheus_rule_evaluation_failures_total",
    "The total number of rule evaluation failures.",
    GROUP,
);
pub(crate) static INTERVAL: GaugeVec<1> = GaugeVec::new(
    "prometheus_rule_group_interval_seconds",
    "The interval of a rule group.",
    GROUP,
);
pub(crate) static LAST_EVALUATION: GaugeVec<1> = GaugeVec::new(
    "prometheus_rule_group_last_evaluation_timestamp_seconds",
    "The timestamp of the last rule group evaluation in seconds.",
    GROUP,
);
pub(crate) static LAST_DURATION: GaugeVec<1> = GaugeVec::new(
    "prometheus_rule_group_last_duration_seconds",
    "The duration of the last rule group evaluation.",
    GROUP,
);
pub(crate) static LAST_RULE_DURATION_SUM: GaugeVec<1> = GaugeVec::new(
    "prometheus_rule_group_last_rule_duration_sum_seconds",
    "The sum of time in seconds it took to evaluate each rule in the group regardless of concurrency. This should be higher than the group duration if rules are evaluated concurrently.",
    GROUP,
);
pub(crate) static LAST_RESTORE_DURATION: GaugeVec<1> = GaugeVec::new(
    "prometheus_rule_group_last_restore_duration_seconds",
    "The duration of the last alert rules alerts restoration using the `ALERTS_FOR_STATE` series.",
    GROUP,
);
pub(crate) static RULES: GaugeVec<1> =
    GaugeVec::new("prometheus_rule_group_rules", "The number of rules.", GROUP);
pub(crate) static LAST_SAMPLES: GaugeVec<1> = GaugeVec::new(
    "prometheus_rule_group_last_evaluation_samples",
    "The number of samples returned during the last rule group evaluation.",
    GROUP,
);
pub(crate) static EXPANSIONS: Counter = Counter::new(
    "prometheus_template_text_expansions_total",
    "The total number of template text expansions.",
);
pub(crate) static EXPANSION_FAILURES: Counter = Counter::new(
    "prometheus_template_text_expansion_failures_total",
    "The total number of template text expansion failures.",
);

const COUNTERS: [&CounterVec<1>; 4] = [&ITERATIONS_MISSED, &ITERATIONS, &EVALUATIONS, &FAILURES];
const GAUGES: [&GaugeVec<1>; 7] = [
    &INTERVAL,
    &LAST_EVALUATION,
    &LAST_DURATION,
    &LAST_RULE_DURATION_SUM,
    &LAST_RESTORE_DURATION,
    &RULES,
    &LAST_SAMPLES,
];

/// Registers the metrics of rule evaluation.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), Error> {
    registry.register_all(&[
        &RULE_DURATION,
        &RULE_DURATION_HISTOGRAM,
        &GROUP_DURATION,
        &GROUP_DURATION_HISTOGRAM,
        &EXPANSIONS,
        &EXPANSION_FAILURES,
    ])?;
    for counter in COUNTERS {
        registry.register(counter)?;
    }
    for gauge in GAUGES {
        registry.register(gauge)?;
    }
    Ok(())
}

/// Shows the series of a group, from its start on.
pub(crate) fn begin_group(key: &str, rules: usize, interval_ms: i64) {
    for counter in COUNTERS {
        counter.with(&[key]).inc_by(0);
    }
    for gauge in GAUGES {
        gauge.with(&[key]).add(0.0);
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    {
        RULES.with(&[key]).set(rules as f64);
        INTERVAL.with(&[key]).set(interval_ms as f64 / 1000.0);
    }
}

/// The series of a group that evaluations change.
pub(crate) struct GroupMetrics {
    pub(crate) iterations: CounterHandle<1>,
    pub(crate) evaluations: CounterHandle<1>,
    pub(crate) failures: CounterHandle<1>,
    pub(crate) last_evaluation: GaugeHandle<1>,
    pub(crate) last_duration: GaugeHandle<1>,
    pub(crate) last_rule_duration_sum: GaugeHandle<1>,
    pub(crate) last_samples: GaugeHandle<1>,
}

impl GroupMetrics {
    pub(crate) fn new(key: &str) -> Self {
        Self {
            iterations: ITERATIONS.with(&[key]),
            evaluations: EVALUATIONS.with(&[key]),
            failures: FAILURES.with(&[key]),
            last_evaluation: LAST_EVALUATION.with(&[key]),
            last_duration: LAST_DURATION.with(&[key]),
            last_rule_duration_sum: LAST_RULE_DURATION_SUM.with(&[key]),
            last_samples: LAST_SAMPLES.with(&[key]),
        }
    }
}

/// Removes the series of a group.
pub(crate) fn end_group(key: &str) {
    for counter in COUNTERS {
        counter.remove(&[key]);
    }
    for gauge in GAUGES {
        gauge.remove(&[key]);
    }
}
