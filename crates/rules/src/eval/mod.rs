//! Evaluation of rule groups.
//!
//! ```text
//! manager -> group -> rule: query -> labels -> output (schema and frame) -> sink
//!                              \-> alerts -> AlertSink
//! ```
//!
//! A rule is an origin: its result is a schema, an evaluation a frame. Labels are worked out when an element is first
//! seen; later evaluations look its column up.
//!
//! **Invariant:** a rule sees what the rules before it in its group wrote at the same time, in whatever order those that
//! do not see each other are evaluated. Others see the results that were stored together, or none of them.
//! **Invariant:** what is shown never waits for an evaluation.

mod alerting;
mod alerts;
mod batches;
mod group;
mod manager;
mod metrics;
mod offline;
mod output;
mod permits;
mod query;
mod reads;
mod recording;
mod restore;
mod rule;
mod schedule;
mod timetable;

pub use manager::{Manager, RuleSet};
pub use metrics::register_metrics;
pub use offline::{OfflineAlert, OfflineGroups};
pub use query::EvalOptions;
pub use schedule::first_evaluation;

pub(crate) use alerting::ALERT_NAME;
pub(crate) use alerts::{ActiveAlert, AlertState, Alerts};
pub(crate) use group::Group;
pub(crate) use query::{Elements, texts_of};
pub(crate) use rule::{Health, LiveRule};
