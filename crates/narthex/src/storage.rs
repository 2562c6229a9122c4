//! Retention and other storage limits, merged from flags and configuration.
//!
//! **Invariant:** retention in the file replaces that of the flags as a whole; the default applies only if neither sets
//! it.

use crate::{cli::ServerOptions, config::Config};
use narthex_model::duration;
use narthex_tsdb::Tuning;
use std::time::Duration;

/// Storage settings from flags, which apply to every configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StorageFlags {
    retention: Option<Duration>,
    retention_bytes: Option<u64>,
    future_limit: Duration,
}

impl StorageFlags {
    pub(crate) fn from_options(options: &ServerOptions) -> Self {
        Self {
            retention: options.retention,
            retention_bytes: options.retention_bytes.map(|size| size.0),
            future_limit: options.future_limit,
        }
    }

    /// Returns how far ahead of the clock samples may be; `None` for no limit.
    pub(crate) fn future_limit_ms(&self) -> Option<i64> {
        Some(self.future_limit)
            .filter(|limit| !limit.is_zero())
            .map(ms)
    }

    /// Returns the limits in effect with a configuration.
    pub(crate) fn tuning(&self, config: Option<&Config>) -> Tuning {
        let mut tuning = Tuning::default();
        let of_file = config.and_then(|config| config.retention);
        let (time, bytes) = match of_file {
            Some(retention) => (retention.time, retention.bytes),
            None => (self.retention, self.retention_bytes),
        };
        if time.is_some() || bytes.is_some() {
            tuning.retention_ms = time.filter(|time| !time.is_zero()).map(ms);
            tuning.retention_bytes = bytes;
        }
        tuning.future_limit_ms = self.future_limit_ms();
        let window = config.and_then(|config| config.out_of_order_window);
        tuning.out_of_order_window_ms = window.map(ms);
        if let Some(held) = config.and_then(|config| config.max_exemplars) {
            tuning.max_exemplars = held;
        }
        tuning
    }
}

/// Formats the retention.
pub(crate) fn shown(tuning: &Tuning) -> String {
    let time = tuning.retention_ms.map(duration::format);
    let bytes = tuning.retention_bytes.map(|bytes| format!("{bytes}B"));
    let bounds: Vec<String> = time.into_iter().chain(bytes).collect();
    bounds.join(" or ")
}

pub(crate) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Retention;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn the_file_stands_before_flags_and_flags_before_the_default() {
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        let said = |flags: (Option<Duration>, Option<u64>), file: Option<Retention>| {
            let flags = StorageFlags {
                retention: flags.0,
                retention_bytes: flags.1,
                future_limit: Duration::from_secs(600),
            };
            let config = Config {
                retention: file,
                ..Config::default()
            };
            let tuning = flags.tuning(Some(&config));
            assert_eq!(tuning.max_exemplars, 100_000);
            assert_eq!(tuning.future_limit_ms, Some(600_000));
            (
                tuning.retention_ms.map(|ms| ms / DAY_MS),
                tuning.retention_bytes,
            )
        };
        let file = |time, bytes| Some(Retention { time, bytes });
        assert_eq!(said((None, None), None), (Some(15), None));
        assert_eq!(said((days(30), None), None), (Some(30), None));
        assert_eq!(said((days(0), None), None), (None, None), "for ever");
        assert_eq!(said((None, Some(9)), None), (None, Some(9)));
        let both = (days(30), Some(9));
        assert_eq!(said(both, file(days(2), None)), (Some(2), None));
        assert_eq!(said(both, file(None, Some(7))), (None, Some(7)));
        let unbound = StorageFlags::default().tuning(None);
        assert_eq!(unbound.future_limit_ms, None, "0 is no bound");
        let tuning = Tuning {
            retention_bytes: Some(7),
            ..Tuning::default()
        };
        assert_eq!(shown(&tuning), "15d or 7B");
    }
}
