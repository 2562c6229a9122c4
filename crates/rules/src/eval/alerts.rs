//! Alerts of one rule, and how an evaluation changes them.
//!
//! **Invariant:** a step depends on the alerts before it, what was found and the time alone; its result replaces the
//! alerts as a whole.

use crate::{alert::Alert, file::Texts};
use narthex_model::LabelSet;
use std::{
    cell::LazyCell,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// How long a resolved alert is kept and sent again.
const RESOLVED_RETENTION_MS: i64 = 15 * 60 * 1000;

/// State of an alert, the weakest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum AlertState {
    Inactive,
    Pending,
    Firing,
}

impl AlertState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
        }
    }
}

/// An alert, from the evaluation that finds its element until it is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ActiveAlert {
    pub(crate) state: AlertState,
    pub(crate) annotations: Arc<Texts>,
    pub(crate) value: f64,
    pub(crate) active_at_ms: i64,
    pub(crate) fired_at_ms: Option<i64>,
    pub(crate) resolved_at_ms: Option<i64>,
    pub(crate) last_sent_ms: Option<i64>,
    pub(crate) keep_firing_since_ms: Option<i64>,
}

/// Alerts by their labels.
pub(crate) type Alerts = BTreeMap<LabelSet, ActiveAlert>;

/// An element of a result, as an alert.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) annotations: Arc<Texts>,
    pub(crate) value: f64,
}

/// Durations of a rule.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Holds {
    pub(crate) for_ms: i64,
    pub(crate) keep_firing_for_ms: i64,
}

/// Applies what an evaluation at `now_ms` found; returns the number of pending and firing alerts.
pub(crate) fn step(
    alerts: &mut Alerts,
    mut found: HashMap<LabelSet, Found>,
    now_ms: i64,
    holds: Holds,
) -> usize {
    let mut count = 0;
    alerts.retain(|labels, alert| {
        match found.remove(labels) {
            Some(found) => alert.is_found(found, now_ms),
            None => match alert.is_absent(now_ms, holds.keep_firing_for_ms) {
                Absent::Forgotten => return false,
                Absent::Resolved => return true,
                Absent::Kept => {}
            },
        }
        count += 1;
        alert.hold(now_ms, holds.for_ms);
        true
    });
    for (labels, found) in found {
        let mut alert = ActiveAlert::new(found, now_ms);
        alert.hold(now_ms, holds.for_ms);
        count += 1;
        alerts.insert(labels, alert);
    }
    count
}

/// What becomes of an alert whose element is gone.
enum Absent {
    Forgotten,
    Resolved,
    /// It goes on firing.
    Kept,
}

impl ActiveAlert {
    fn new(found: Found, now_ms: i64) -> Self {
        Self {
            state: AlertState::Pending,
            annotations: found.annotations,
            value: found.value,
            active_at_ms: now_ms,
            fired_at_ms: None,
            resolved_at_ms: None,
            last_sent_ms: None,
            keep_firing_since_ms: None,
        }
    }

    fn is_found(&mut self, found: Found, now_ms: i64) {
        if self.state == AlertState::Inactive {
            *self = Self::new(found, now_ms);
            return;
        }
        self.value = found.value;
        self.annotations = found.annotations;
        self.keep_firing_since_ms = None;
    }

    fn is_absent(&mut self, now_ms: i64, keep_firing_for_ms: i64) -> Absent {
        if self.state == AlertState::Firing && keep_firing_for_ms > 0 {
            let since_ms = *self.keep_firing_since_ms.get_or_insert(now_ms);
            if now_ms - since_ms < keep_firing_for_ms {
                return Absent::Kept;
            }
        }
        let is_old = |at_ms| now_ms - at_ms > RESOLVED_RETENTION_MS;
        if self.state == AlertState::Pending || self.resolved_at_ms.is_some_and(is_old) {
            return Absent::Forgotten;
        }
        if self.state == AlertState::Firing {
            self.state = AlertState::Inactive;
            self.resolved_at_ms = Some(now_ms);
        }
        Absent::Resolved
    }

    /// Fires once the alert has been active for long enough, and not before.
    fn hold(&mut self, now_ms: i64, for_ms: i64) {
        let is_held = now_ms - self.active_at_ms >= for_ms;
        match self.state {
            AlertState::Pending if is_held => {
                self.state = AlertState::Firing;
                self.fired_at_ms = Some(now_ms);
            }
            // The rule's duration was raised.
            AlertState::Firing if !is_held => {
                self.state = AlertState::Pending;
                self.fired_at_ms = None;
                self.last_sent_ms = None;
                self.keep_firing_since_ms = None;
            }
            _ => {}
        }
    }

    fn is_due(&self, now_ms: i64, resend_delay_ms: i64) -> bool {
        if self.state == AlertState::Pending {
            return false;
        }
        match (self.last_sent_ms, self.resolved_at_ms) {
            (None, _) => true,
            (Some(sent_ms), Some(resolved_ms)) if resolved_ms > sent_ms => true,
            (Some(sent_ms), _) => sent_ms + resend_delay_ms < now_ms,
        }
    }
}

/// How alerts are sent.
pub(crate) struct Sending<'a> {
    pub(crate) now_ms: i64,
    pub(crate) resend_delay_ms: i64,
    pub(crate) interval_ms: i64,
    /// Makes the address of a page that shows the rule's expression; called once if any alert is due.
    pub(crate) generator_url: &'a dyn Fn() -> Arc<str>,
}

/// Returns the alerts that are due and notes that they are sent.
pub(crate) fn due(alerts: &mut Alerts, sending: &Sending<'_>) -> Vec<Alert> {
    let now_ms = sending.now_ms;
    let due = |alert: &&mut ActiveAlert| alert.is_due(now_ms, sending.resend_delay_ms);
    // A notification may get lost, and so may the next.
    let valid_ms = 4 * sending.interval_ms.max(sending.resend_delay_ms);
    let generator_url = LazyCell::new(sending.generator_url);
    let all = alerts.iter_mut();
    all.filter(|(_, alert)| due(alert))
        .map(|(labels, alert)| {
            alert.last_sent_ms = Some(now_ms);
            Alert {
                labels: labels.clone(),
                annotations: Texts::clone(&alert.annotations),
                starts_at_ms: alert.fired_at_ms.unwrap_or(alert.active_at_ms),
                ends_at_ms: alert.resolved_at_ms.unwrap_or(now_ms + valid_ms),
                is_resolved: alert.resolved_at_ms.is_some(),
                generator_url: Arc::clone(&generator_url),
            }
        })
        .collect()
}
