//! Alerts on their way out: what a rule hands over, and to whom.
//!
//! **Invariant:** an alert has the labels its rule gave it. External labels and relabelling are added behind it, on
//! copies.

use crate::file::Texts;
use narthex_model::LabelSet;
use std::sync::Arc;

/// A firing or resolved alert.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Alert {
    /// Its identity, `alertname` included; without external labels.
    pub labels: LabelSet,
    /// Texts for people, expanded. A value may be empty.
    pub annotations: Texts,
    /// When it began to fire, in milliseconds since the epoch.
    pub starts_at_ms: i64,
    /// When it was resolved; for a firing alert, until when it holds unless it is sent again.
    pub ends_at_ms: i64,
    /// Whether it was resolved.
    pub is_resolved: bool,
    /// Address of a page that shows the rule's expression.
    pub generator_url: Arc<str>,
}

/// Takes the alerts of evaluations.
pub trait AlertSink: Send + Sync {
    /// Takes the alerts of one rule that are due; never called without any.
    ///
    /// Called between two rules of a group, so it must neither block nor panic: what cannot be queued is dropped and
    /// counted.
    fn send(&self, alerts: Vec<Alert>);
}
