//! Alerts from before a restart, looked up in what was stored of them.
//!
//! Prometheus restores since when an alert is active, from `ALERTS_FOR_STATE`. Beyond that, an alert that was firing and
//! whose element is gone goes on firing as long as its rule says, counted from the last evaluation before the restart.
//!
//! **Invariant:** only what the last evaluation before the restart stored is restored: a series that ended is no alert.

use super::{
    alerting::{ALERT_NAME, ALERT_STATE, ALERTS, ALERTS_FOR_STATE},
    alerts::{ActiveAlert, AlertState, Alerts, Holds},
    query::{Elements, Tools, ms},
    rule::LiveRule,
};
use narthex_model::{
    LabelSet, METRIC_NAME,
    storage::{Context, Store},
};
use narthex_promql::{Engine, EngineOptions, SampleValue, fmt::quote};
use std::{collections::HashMap, sync::Arc};

/// Restores the alerts of a rule as of `now_ms`.
///
/// # Errors
/// Fails when the stored series cannot be read.
pub(crate) fn restore(rule: &LiveRule, tools: &Tools, now_ms: i64) -> Result<(), String> {
    let holds = rule.holds();
    let grace_period_ms = ms(tools.settings.options.grace_period);
    let stored = Stored::read(rule, tools, now_ms)?;
    if stored.active.is_empty() {
        return Ok(());
    }
    let mut alerts = Alerts::clone(&rule.alerts());
    for (labels, alert) in &mut alerts {
        let before = stored.active.get(labels);
        if let Some(at_ms) =
            before.and_then(|b| active_at(*b, holds.for_ms, now_ms, grace_period_ms))
        {
            alert.active_at_ms = at_ms;
        }
    }
    if holds.keep_firing_for_ms > 0 {
        for (labels, alert) in stored.kept(rule, holds, now_ms) {
            alerts.entry(labels).or_insert(alert);
        }
    }
    rule.set_alerts(Arc::new(alerts));
    Ok(())
}

/// The last stored state of an alert.
#[derive(Clone, Copy)]
struct Before {
    /// Time of the last evaluation.
    last_ms: i64,
    /// Since when the alert was active.
    active_at_ms: i64,
}

/// Returns since when an alert counts as active, `None` when it begins to wait again.
fn active_at(before: Before, for_ms: i64, now_ms: i64, grace_period_ms: i64) -> Option<i64> {
    let down_at_ms = before.last_ms.div_euclid(1000) * 1000;
    let left_ms = for_ms - (down_at_ms - before.active_at_ms);
    if left_ms <= 0 {
        // It was firing, and does so again after the next evaluation.
        Some(before.active_at_ms)
    } else if for_ms < grace_period_ms {
        // Waiting again takes less than the grace period.
        None
    } else if left_ms < grace_period_ms {
        Some(now_ms + grace_period_ms - for_ms)
    } else {
        // The outage does not count as waiting.
        Some(before.active_at_ms + (now_ms - down_at_ms))
    }
}

/// What was stored of a rule's alerts, by their labels.
struct Stored {
    active: HashMap<LabelSet, Before>,
    firing: Vec<LabelSet>,
}

impl Stored {
    fn read(rule: &LiveRule, tools: &Tools, now_ms: i64) -> Result<Self, String> {
        let settings = &*tools.settings;
        // The newest sample within the tolerance, unless it is a staleness marker.
        let engine = Engine::new(EngineOptions {
            lookback_delta_ms: ms(settings.options.outage_tolerance).saturating_add(1),
            ..*settings.options.engine.options()
        });
        let (ctx, _) = settings.context();
        let ask = |query: String| elements(&engine, &*tools.store, &query, now_ms, &ctx);
        let selector = selector(rule, ALERTS_FOR_STATE, "");
        let times = ask(format!("timestamp({selector})"))?;
        let times: HashMap<LabelSet, f64> = times.into_iter().collect();
        let mut active = HashMap::new();
        for (labels, value) in ask(selector)? {
            if let Some(time) = times.get(&labels) {
                #[expect(clippy::cast_possible_truncation, reason = "saturates")]
                let before = Before {
                    last_ms: (time * 1000.0).round() as i64,
                    active_at_ms: (value as i64).saturating_mul(1000),
                };
                active.insert(labels, before);
            }
        }
        let firing = if rule.holds().keep_firing_for_ms > 0 {
            let firing = ask(self::selector(rule, ALERTS, "firing"))?.into_iter();
            firing
                .map(|(labels, _)| labels.without(&[ALERT_STATE]))
                .collect()
        } else {
            Vec::new()
        };
        Ok(Self { active, firing })
    }

    /// Returns the alerts that were firing and may still be, by their rule's `keep_firing_for`.
    fn kept(
        &self,
        rule: &LiveRule,
        holds: Holds,
        now_ms: i64,
    ) -> impl Iterator<Item = (LabelSet, ActiveAlert)> {
        let annotations = rule.fixed_annotations();
        let firing = self.firing.iter();
        firing.filter_map(move |labels| {
            let before = self.active.get(labels)?;
            if now_ms - before.last_ms >= holds.keep_firing_for_ms {
                return None;
            }
            let alert = ActiveAlert {
                state: AlertState::Firing,
                annotations: Arc::clone(&annotations),
                value: 0.0,
                active_at_ms: before.active_at_ms,
                fired_at_ms: Some((before.active_at_ms + holds.for_ms).min(before.last_ms)),
                resolved_at_ms: None,
                last_sent_ms: None,
                keep_firing_since_ms: Some(before.last_ms),
            };
            Some((labels.clone(), alert))
        })
    }
}

/// Returns the selector of a rule's series; labels with templates are left open.
fn selector(rule: &LiveRule, metric: &str, state: &str) -> String {
    let labels = rule.labels.iter().map(|(name, value)| (&**name, &**value));
    let of_rule = labels.filter(|(name, value)| *name != ALERT_NAME && !value.contains("{{"));
    let own = [
        (METRIC_NAME, metric),
        (ALERT_NAME, &*rule.name),
        (ALERT_STATE, state),
    ];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    let matchers: Vec<String> = own
        .chain(of_rule)
        .map(|(name, value)| format!("{}={}", quote(name), quote(value)))
        .collect();
    format!("{{{}}}", matchers.join(","))
}

fn elements(
    engine: &Engine,
    store: &dyn Store,
    query: &str,
    time_ms: i64,
    ctx: &Context,
) -> Result<Vec<(LabelSet, f64)>, String> {
    let elements = Elements::new(engine.instant(store, query, time_ms, ctx))?;
    let floats = elements
        .samples
        .into_iter()
        .filter_map(|sample| match sample.value {
            SampleValue::Float(value) => Some((sample.labels.without(&[METRIC_NAME]), value)),
            SampleValue::Histogram(_) => None,
        });
    Ok(floats.collect())
}
