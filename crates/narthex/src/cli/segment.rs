//! Flags of `narthex segment`.

use narthex_cli::{Value, ValueKind, flags};
use std::{ffi::OsStr, path::PathBuf, time::Duration};

/// Which of the commands, with what it takes.
#[derive(Debug)]
pub(crate) enum SegmentCommand {
    List(ListFlags),
    Dump(DumpFlags),
    Watch(WatchFlags),
    Switch(SwitchFlags),
}

flags! {
    /// What `segment ls` takes.
    #[derive(Debug)]
    pub(crate) struct ListFlags {
        /// Directory of the segments.
        dir: PathBuf = "dir", default("/dev/shm/narthex");
    }
}

flags! {
    /// What `segment dump` takes.
    #[derive(Debug)]
    pub(crate) struct DumpFlags {
        /// Directory of the segments.
        dir: PathBuf = "dir", default("/dev/shm/narthex");
        /// Keep each worker's series apart, instead of adding them up.
        by_worker: bool = "by-worker";
    }
}

flags! {
    /// What `segment watch` takes.
    #[derive(Debug)]
    pub(crate) struct WatchFlags {
        /// Directory of the segments.
        dir: PathBuf = "dir", default("/dev/shm/narthex");
        /// Keep each worker's series apart, instead of adding them up.
        by_worker: bool = "by-worker";
        /// Interval between two tables.
        interval: Duration = "interval", default("1s");
        /// Maximum number of series shown.
        rows: usize = "rows", default("40");
        /// Number of tables after which to end; 0 means never.
        tables: usize = "tables", default("0");
    }
}

flags! {
    /// What `segment switch` takes.
    #[derive(Debug)]
    pub(crate) struct SwitchFlags {
        /// Directory of the segments.
        dir: PathBuf = "dir", default("/dev/shm/narthex");
        /// Name of the application.
        app: String = "app", positional();
        /// Name of the metric.
        metric: String = "metric", positional();
        /// Whether to switch it on or off.
        state: SwitchState = "state", positional();
    }
}

/// Whether a metric is on.
#[derive(Debug)]
pub(crate) struct SwitchState(pub(crate) bool);

impl Value for SwitchState {
    const KIND: ValueKind = ValueKind::Text;
    const OFFERS: &'static [&'static str] = &["on", "off"];

    fn parse(text: &OsStr) -> Result<Self, String> {
        match String::parse(text)?.as_str() {
            "on" => Ok(Self(true)),
            "off" => Ok(Self(false)),
            other => Err(format!("{other:?} is neither on nor off")),
        }
    }
}
