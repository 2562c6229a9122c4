//! Host metrics with the names and labels of node_exporter.
//!
//! What it is: the collectors of node_exporter 1.12 behind one [`HostSource`], which is configured like it (see
//! [`FLAGS`]) and returns one [`Frame`] per round. Families, types, labels and values are node_exporter's.
//!
//! [`routes`] answers scrapes of such a source over HTTP, as node_exporter does.
//!
//! How it stays cheap: devices, mounts and CPUs are identified, filtered and labelled when they appear. A round without
//! such changes is a handful of `pread`s into one buffer, one netlink dump of binary counters, and numbers written in
//! place. Anything that may hang runs on its own threads.
//!
//! ```no_run
//! use narthex_host::{CollectorKind, HostConfig, HostSource};
//!
//! let mut config = HostConfig::default();
//! config.netdev.device.exclude = Some("^veth".into());
//! config.collectors = config.collectors.without(CollectorKind::Uname);
//! let mut host = HostSource::new(config)?;
//! let frame = host.collect(1_700_000_000_000);
//! println!("{} samples", frame.present().count());
//! # Ok::<(), narthex_host::HostError>(())
//! ```
//!
//! [`Frame`]: narthex_model::Frame

mod background;
mod collector;
mod config;
mod cost;
mod cost_series;
mod dbus;
mod error;
mod ethtool_ioctl;
mod exporter;
mod filter;
mod flags;
#[doc(hidden)]
pub mod fuzz;
mod kind;
mod link_names;
mod linkprops;
mod links;
mod local;
mod mountinfo;
mod netlink;
mod open_file;
mod ordered_cache;
mod own_labels;
mod perf_event;
mod pool;
mod privileges;
mod proc_table;
mod procstat;
mod rows;
mod scan;
mod sink;
mod source;
mod statfs;
mod sysdir;
mod sysfs_collector;
mod table;
mod timezone;
mod udev;

pub use config::{
    ArpConfig, BuildInfo, CpuConfig, FilesystemConfig, FilterConfig, HostConfig, NetclassConfig,
    NetdevConfig, NetdevSource, NtpConfig, PerfConfig, ProfilersConfig, SystemdConfig,
};
pub use cost::{CollectorCost, Cost};
pub use error::{HostError, ParseError};
pub use exporter::{
    Adviser, ExporterConfig, FACTS_PARAMETER, Facts, Finding, OwnMetrics, Severity,
    register_metrics, routes,
};
pub use flags::{DEPRECATED, FLAGS};
pub use kind::{CollectorKind, CollectorSet};
pub use source::HostSource;
#[doc(hidden)]
pub use statfs::{FsStat, Statfs};
