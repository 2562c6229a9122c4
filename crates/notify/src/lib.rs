//! Sends alerts to Alertmanagers.
//!
//! **Is**: a [`Notifier`], which takes alerts from rules, adds external labels, relabels, and posts them in batches to
//! every Alertmanager that discovery finds (`/api/v2/alerts`); Prometheus' metrics of notifications; the route
//! `/api/v1/alertmanagers`.
//!
//! **Is not**: evaluation of rules, parsing of the configuration file, storage: what waits is in memory, and rules send
//! an alert again as long as it fires.
//!
//! **Limits**: a queue for each Alertmanager ([`NotifierOptions::queue_capacity`]), and a budget for what all of them
//! hold. Beyond either, alerts are dropped and counted.
//!
//! ```no_run
//! use narthex_notify::{AlertingConfig, AlertmanagerConfig, Notifier, NotifierOptions};
//! use narthex_discovery::{SdConfig, TargetGroup};
//! use narthex_model::LabelSet;
//!
//! # async fn example() -> Result<(), narthex_notify::NotifyError> {
//! let notifier = Notifier::new(NotifierOptions::default());
//! let here = TargetGroup::of_addresses("0", ["localhost:9093".to_owned()], Default::default());
//! let set = AlertmanagerConfig { discovery: vec![SdConfig::Static(vec![here])], ..AlertmanagerConfig::default() };
//! notifier.apply(AlertingConfig { sets: vec![set], ..AlertingConfig::default() }, &LabelSet::empty())?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alertmanager;
mod config;
mod encode;
mod error;
mod metrics;
mod notifier;
mod post;
mod routes;
mod send_loop;
mod set;

pub use config::{AlertingConfig, AlertmanagerConfig, NotifierOptions};
pub use error::NotifyError;
pub use metrics::register_metrics;
pub use notifier::Notifier;
pub use routes::routes;
