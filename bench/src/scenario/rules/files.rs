//! The rule files: groups as teams write them, one about each service and family.
//!
//! A group has rates and sums by label, quantiles over classic histograms, means, extremes of gauges, rules that read
//! the rules before them, and alerts with `for` and templates on top of those.
//!
//! **Invariant:** names are unique, every rule has a result or is an alert whose condition is known: the alerts of
//! the first fifty groups fire for errors, the saturation's come and go, the others stay inactive.

use super::plan::{GROUP_SIZE, Plan};
use crate::{
    harness::{cleanup::WorkDir, error::BenchError},
    load::fleet::config::FleetConfig,
};
use std::{fmt::Write as _, fs, path::Path};

const _: () = assert!(RECORDING.len() + ALERTING.len() == GROUP_SIZE);
/// Groups of a file.
const FILE_GROUPS: usize = 25;
/// Services of the fleet.
const SERVICES: usize = 50;

/// Recording rules: name and expression.
const RECORDING: [(&str, &str); 14] = [
    (
        "requests:rate1m",
        "sum by (service, code) (rate(COUNTER{service=\"SERVICE\"}[1m]))",
    ),
    (
        "routes:rate1m",
        "sum by (service, route) (rate(COUNTER{service=\"SERVICE\"}[1m]))",
    ),
    (
        "requests:rate5m",
        "sum by (service, code) (rate(COUNTER{service=\"SERVICE\"}[5m]))",
    ),
    (
        "errors:ratio1m",
        "sum by (service) (GROUP:requests:rate1m{code=\"500\"}) / sum by (service) (GROUP:requests:rate1m)",
    ),
    (
        "errors:ratio5m",
        "sum by (service) (GROUP:requests:rate5m{code=\"500\"}) / sum by (service) (GROUP:requests:rate5m)",
    ),
    (
        "latency:p99",
        "histogram_quantile(0.99, sum by (service, le) (rate(HISTOGRAM_bucket{service=\"SERVICE\"}[5m])))",
    ),
    (
        "latency:p50",
        "histogram_quantile(0.5, sum by (service, method, le) (rate(HISTOGRAM_bucket{service=\"SERVICE\"}[1m])))",
    ),
    (
        "latency:mean",
        "sum by (service, method) (rate(HISTOGRAM_sum{service=\"SERVICE\"}[5m])) / sum by (service, method) (rate(HISTOGRAM_count{service=\"SERVICE\"}[5m]))",
    ),
    (
        "saturation:avg",
        "avg by (service, pool) (GAUGE{service=\"SERVICE\"})",
    ),
    (
        "saturation:max",
        "max by (service) (GAUGE{service=\"SERVICE\"})",
    ),
    (
        "saturation:min",
        "min by (service) (GAUGE{service=\"SERVICE\"})",
    ),
    (
        "saturation:count",
        "count by (service) (GAUGE{service=\"SERVICE\"})",
    ),
    (
        "saturation:peak10m",
        "max_over_time(GROUP:saturation:max[10m])",
    ),
    (
        "pods:rate1m",
        "rate(COUNTER{service=\"SERVICE\",route=\"/api/v1/r00\"}[1m])",
    ),
];

/// Alerting rules: name, expression and how long it waits, in intervals.
const ALERTING: [(&str, &str, u32); 6] = [
    ("ErrorsHigh", "GROUP:errors:ratio1m > 0.9", 2),
    (
        "ErrorBudget",
        "GROUP:errors:ratio5m > BUDGET and GROUP:errors:ratio1m > BUDGET",
        2,
    ),
    ("LatencyHigh", "GROUP:latency:p99 > 1000", 4),
    ("Saturated", "GROUP:saturation:avg > 600", 2),
    ("PodDown", "up{service=\"SERVICE\"} == 0", 2),
    (
        "NoTraffic",
        "absent(COUNTER{service=\"SERVICE\",code=\"200\"})",
        2,
    ),
];

/// Writes the files; returns the pattern that names them.
pub(super) fn write(plan: &Plan, dir: &WorkDir) -> Result<String, BenchError> {
    let groups: Vec<String> = (0..plan.groups()).map(|at| group(plan, at)).collect();
    for (at, groups) in groups.chunks(FILE_GROUPS).enumerate() {
        let path = dir.path().join(format!("rules-{at:04}.yml"));
        write_file(&path, groups)?;
    }
    Ok(dir.path().join("rules-*.yml").display().to_string())
}

fn write_file(path: &Path, groups: &[String]) -> Result<(), BenchError> {
    let text = format!("groups:\n{}", groups.concat());
    fs::write(path, text).map_err(BenchError::io("write rule files"))
}

/// Returns one group: the groups of a service differ in the families they are about.
fn group(plan: &Plan, at: usize) -> String {
    let (service, variant) = (at % SERVICES, at / SERVICES);
    let families = Families::in_target(&plan.fleet);
    let (name, counter) = (format!("group_{at:05}"), variant % families.counters);
    let (gauge, histogram) = (variant % families.gauges, variant % families.histograms);
    // Errors are three routes of fourteen.
    let budget = if variant == 0 { "0.05" } else { "0.95" };
    let fill = |text: &str| {
        text.replace("SERVICE", &format!("svc-{service:02}"))
            .replace("GROUP", &name)
            .replace(
                "COUNTER",
                &format!("http_server_requests_{counter:02}_total"),
            )
            .replace("GAUGE", &format!("worker_pool_saturation_{gauge:02}_ratio"))
            .replace("HISTOGRAM", &format!("rpc_duration_seconds_{histogram:02}"))
            .replace("BUDGET", budget)
    };
    let interval_ms = plan.flags.interval.as_millis();
    let mut text = format!("  - name: {name}\n    interval: {interval_ms}ms\n    rules:\n");
    for (record, expr) in RECORDING {
        let expr = fill(expr);
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "      - record: {name}:{record}\n        expr: '{expr}'\n        labels: {{team: team-{:02}}}\n",
            service % 12
        );
    }
    for (alert, expr, intervals) in ALERTING {
        let (expr, wait_ms) = (fill(expr), u128::from(intervals) * interval_ms);
        let _ = write!(
            text,
            "      - alert: {alert}\n        expr: '{expr}'\n        for: {wait_ms}ms\n        \
             labels: {{severity: page, group: {name}}}\n        annotations:\n          \
             summary: '{{{{ $labels.service }}}} has {{{{ $value | humanize }}}}'\n          \
             description: '{alert} of {{{{ $labels.service }}}} in {{{{ $labels.team }}}}: {{{{ printf \"%.3f\" $value }}}}'\n"
        );
    }
    text
}

/// How many whole families of each kind a target has.
struct Families {
    counters: usize,
    gauges: usize,
    histograms: usize,
}

impl Families {
    fn in_target(fleet: &FleetConfig) -> Self {
        Self {
            counters: fleet.series * 2 / 5 / 14,
            gauges: fleet.series / 5 / 10,
            histograms: fleet.series / 4 / 14 / 3,
        }
    }
}

#[cfg(test)]
mod tests;
