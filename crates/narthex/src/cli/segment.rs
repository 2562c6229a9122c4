//! Flags of `narthex segment`.

use crate::role::segment::{Action, SegmentCommand};
use narthex_cli::{UsageError, Values, flags};
use std::{path::PathBuf, time::Duration};

flags! {
    /// What `segment ls` takes.
    pub(crate) struct ListFlags {
        /// Directory of the segments.
        dir: PathBuf = "dir", default("/dev/shm/narthex");
    }
}

flags! {
    /// What `segment dump` takes.
    pub(crate) struct DumpFlags {
        /// Directory of the segments.
        dir: PathBuf = "dir", default("/dev/shm/narthex");
        /// Keep each worker's series apart, instead of adding them up.
        by_worker: bool = "by-worker";
    }
}

flags! {
    /// What `segment watch` takes.
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
    pub(crate) struct SwitchFlags {
        /// Directory of the segments.
        dir: PathBuf = "dir", default("/dev/shm/narthex");
        /// Name of the application.
        app: String = "app", positional();
        /// Name of the metric.
        metric: String = "metric", positional();
        /// Whether to switch it on or off.
        state: String = "state", positional(), offers(&["on", "off"]);
    }
}

/// Reads the values of `segment ls`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn list(values: Values) -> Result<SegmentCommand, UsageError> {
    let ListFlags { dir } = ListFlags::from_values(values)?;
    let action = Action::List;
    Ok(SegmentCommand { dir, action })
}

/// Reads the values of `segment dump`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn dump(values: Values) -> Result<SegmentCommand, UsageError> {
    let DumpFlags { dir, by_worker } = DumpFlags::from_values(values)?;
    let action = Action::Dump { by_worker };
    Ok(SegmentCommand { dir, action })
}

/// Reads the values of `segment watch`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn watch(values: Values) -> Result<SegmentCommand, UsageError> {
    let flags = WatchFlags::from_values(values)?;
    let action = Action::Watch {
        by_worker: flags.by_worker,
        interval: flags.interval,
        rows: flags.rows,
        tables: flags.tables,
    };
    Ok(SegmentCommand {
        dir: flags.dir,
        action,
    })
}

/// Reads the values of `segment switch`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn switch(values: Values) -> Result<SegmentCommand, UsageError> {
    let flags = SwitchFlags::from_values(values)?;
    let is_on = match flags.state.as_str() {
        "on" => true,
        "off" => false,
        other => {
            return Err(UsageError::Value {
                flag: "state".to_owned(),
                reason: format!("{other:?} is neither on nor off"),
            });
        }
    };
    let (app, metric) = (flags.app, flags.metric);
    let action = Action::Switch { app, metric, is_on };
    Ok(SegmentCommand {
        dir: flags.dir,
        action,
    })
}
