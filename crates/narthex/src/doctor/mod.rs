//! Advice on a host, from its series of one moment: rules that are data, each in a file of its own.
//!
//! A rule's condition is a PromQL expression, so that it can be tried in a server's console, and made an alert. It is
//! evaluated over the one page; what a counter says is an average since the host's start.
//!
//! **Invariant:** a page without the series of a rule says nothing about it: no finding, no error.

mod remote;
mod rule;
mod run;

use narthex_host::{Adviser, Facts, Finding, Severity};
use narthex_model::{Frame, MemStore, storage::Context, storage::Sink as _};
use narthex_promql::{Engine, EngineOptions, SampleValue, Value};
use rule::Rule;
pub(crate) use run::run;
use std::sync::Arc;

/// Lists rules by name, each with the text of its file.
macro_rules! files {
    ($($name:literal)+) => { &[$(($name, include_str!(concat!("rules/", $name, ".rule")))),+] };
}

/// The rules' files, by name.
#[rustfmt::skip]
const FILES: &[(&str, &str)] = files!(
    "backlog_drops" "cgroup_throttled" "clock_offset" "clock_unsynchronised" "collector_late"
    "conntrack_full" "disk_full" "file_handles" "inodes_full" "io_pressure" "listen_overflows"
    "memory_errors" "memory_pressure" "memory_short" "mount_stuck" "oom_kills" "raid_degraded"
    "receive_budget" "retransmissions" "threads_over_quota" "time_wait_buckets" "time_wait_ports"
    "udp_receive_errors"
);

/// Evaluates the rules over pages of one moment; returns what they find, the most severe first.
///
/// # Errors
/// Fails if a page cannot be stored or a rule cannot be evaluated; the text names it.
fn examine(frames: &[&Frame], now_ms: i64) -> Result<Vec<Finding>, String> {
    let store = MemStore::new();
    for frame in frames {
        let mut binding = store
            .bind(frame.schema())
            .map_err(|error| error.to_string())?;
        binding.append(frame).map_err(|error| error.to_string())?;
    }
    let engine = Engine::new(EngineOptions::default());
    let mut findings = Vec::new();
    for (name, text) in FILES {
        let rule = Rule::parse(text).map_err(|reason| format!("{name}: {reason}"))?;
        let result = engine.instant(&store, &rule.when, now_ms, &Context::unlimited());
        let result = result.map_err(|error| format!("{name}: {error}"))?;
        let Value::Vector(samples) = result.value else {
            return Err(format!("{name}: not a vector"));
        };
        for sample in samples {
            if let SampleValue::Float(value) = sample.value {
                let label = |name: &str| sample.labels.get(name).unwrap_or_default().to_owned();
                findings.push(Finding {
                    severity: rule.severity,
                    rule: name,
                    text: rule::filled(&rule.says, value, label),
                    help: rule::filled(&rule.help, value, label),
                });
            }
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// Returns an adviser for an exporter's landing page. A failure to examine is logged.
pub(crate) fn adviser(facts: Facts) -> Adviser {
    Arc::new(move |frame, now_ms| {
        let findings = run::examine_with(frame, &facts(), now_ms);
        findings.unwrap_or_else(|reason| {
            tracing::error!(reason, "The host could not be examined.");
            Vec::new()
        })
    })
}

/// Returns the severest of the findings.
fn worst(findings: &[Finding]) -> Option<Severity> {
    findings.iter().map(|finding| finding.severity).max()
}

#[cfg(test)]
mod tests;
