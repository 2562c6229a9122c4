//! Finds scrape targets and keeps the list of them current: static lists, files, HTTP, DNS,
//! Kubernetes.
//!
//! **Is**: the settings of each mechanism ([`SdConfig`]), a [`Manager`] that runs one discoverer for each distinct
//! setting and publishes their results ([`Targets`]), and Prometheus' metrics of discovery ([`register_metrics`]).
//!
//! **Is not**: relabelling, scraping, or parsing of the configuration file.
//!
//! **Limits**: documents of files and HTTP responses have at most 64 MiB, responses of a Kubernetes API 256 MiB; every
//! request has a deadline.
//!
//! ```no_run
//! use narthex_discovery::{Manager, Options, SdConfig, FileSdConfig};
//! use narthex_net::Stopper;
//! use std::collections::BTreeMap;
//!
//! # async fn example() {
//! let (_stopper, stop) = Stopper::new();
//! let (manager, mut targets) = Manager::new("scrape", Options::default(), stop);
//! let files = FileSdConfig { files: vec!["targets/*.json".into()], ..FileSdConfig::default() };
//! manager.apply(BTreeMap::from([("nodes".to_owned(), vec![SdConfig::File(files)])]));
//! while let Some(sets) = targets.next().await {
//!     for group in &sets["nodes"] {
//!         println!("{}: {} targets", group.source, group.targets.len());
//!     }
//! }
//! # }
//! ```

mod config;
mod discoverer;
mod dns;
mod error;
mod file;
#[doc(hidden)]
pub mod fuzz;
mod group;
mod http_sd;
mod kubernetes;
mod manager;
mod metrics;
mod refresh;

pub use config::{
    AttachMetadata, DnsSdConfig, FileSdConfig, HttpSdConfig, KubernetesSdConfig, Namespaces, Role,
    SdConfig, Selector,
};
pub use discoverer::Options;
pub use dns::record_type::RecordType;
pub use error::DiscoveryError;
pub use file::read_file;
pub use group::{ADDRESS_LABEL, LabelMap, TargetGroup};
pub use manager::{Manager, TargetSets, Targets};
pub use metrics::register_metrics;
