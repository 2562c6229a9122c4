//! Rules over the fleet's services, as teams write them: a group about each service and family.
//!
//! A group has rates and sums by label, quantiles over classic histograms, means, extremes of gauges, rules that read
//! the rules before them, and alerts with `for` and templates on top of those.
//!
//! **Invariant:** names are unique, every rule has a result or is an alert whose condition is known: the alerts of
//! the first fifty groups fire for errors, the saturation's come and go, the others stay inactive.

/// A group, with names in capitals where groups differ.
const GROUP: &str = include_str!("rules-group.yml");
/// Services of the fleet.
const SERVICES: usize = 50;

/// Returns the `at`th group over targets of [`Target::service`](super::Target::service) with `series` series.
#[must_use]
pub fn rule_group(at: usize, series: usize, interval_ms: u64) -> String {
    let (service, variant) = (at % SERVICES, at / SERVICES);
    // How many whole families of each kind a target has.
    let (counters, gauges, histograms) =
        (series * 2 / 5 / 14, series / 5 / 10, series / 4 / 14 / 3);
    let (counter, gauge) = (variant % counters, variant % gauges);
    let histogram = variant % histograms;
    // Errors are three routes of fourteen.
    let budget = if variant == 0 { "0.05" } else { "0.95" };
    [
        ("SERVICE", format!("svc-{service:02}")),
        ("TEAM", format!("team-{:02}", service % 12)),
        ("GROUP", format!("group_{at:05}")),
        (
            "COUNTER",
            format!("http_server_requests_{counter:02}_total"),
        ),
        ("GAUGE", format!("worker_pool_saturation_{gauge:02}_ratio")),
        ("HISTOGRAM", format!("rpc_duration_seconds_{histogram:02}")),
        ("BUDGET", budget.to_owned()),
        ("INTERVAL", format!("{interval_ms}ms")),
        ("WAIT2", format!("{}ms", 2 * interval_ms)),
        ("WAIT4", format!("{}ms", 4 * interval_ms)),
    ]
    .iter()
    .fold(GROUP.to_owned(), |text, (place, value)| {
        text.replace(place, value)
    })
}
