//! This host's metrics as a source of frames.

use narthex_cli::UsageError;
use narthex_host::{HostConfig, HostError, HostSource};
use narthex_model::Frame;
use narthex_scrape::{LocalHandle, LocalSource, Manager, Target};
use std::{path::PathBuf, time::Duration};

/// Returns what collectors read unless flags say otherwise, with what the environment says.
pub(crate) fn defaults() -> HostConfig {
    let mut config = HostConfig {
        timezone: std::env::var("TZ").ok(),
        ..HostConfig::default()
    };
    if let Ok(url) = std::env::var("SUPERVISORD_URL") {
        config.supervisord_url = url;
    }
    if let Some(path) = system_bus() {
        config.system_bus = path;
    }
    config
}

/// Returns the message bus that the environment names, if it is a unix socket with a path.
fn system_bus() -> Option<PathBuf> {
    let addresses = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok()?;
    let path = |address: &str| {
        Some(
            address
                .strip_prefix("unix:path=")?
                .split(',')
                .next()?
                .into(),
        )
    };
    addresses.split(';').find_map(path)
}

/// The host's metrics.
pub(crate) struct HostMetrics {
    config: HostConfig,
    source: HostSource,
}

impl HostMetrics {
    /// # Errors
    /// Fails when the settings cannot be used.
    pub(crate) fn new(config: HostConfig) -> Result<Self, HostError> {
        let source = HostSource::new(config.clone())?;
        Ok(Self { config, source })
    }
}

impl LocalSource for HostMetrics {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        Ok(self.source.collect(now_ms))
    }

    fn restart(&mut self) -> Result<(), String> {
        let source = HostSource::new(self.config.clone());
        self.source = source.map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// Starts reading the host.
///
/// # Errors
/// Fails when the settings cannot be used.
pub(crate) fn watch(
    manager: &Manager,
    target: Target,
    interval: Duration,
    mut settings: HostConfig,
) -> Result<LocalHandle, HostError> {
    settings.common = target.labels.clone();
    let source = HostMetrics::new(settings)?;
    Ok(manager.start_local(target, interval, Box::new(source)))
}

/// Names the flag that the collectors refuse.
pub(crate) fn usage(error: HostError) -> UsageError {
    let (flag, reason) = match error {
        HostError::Flag { flag, problem } => (flag, problem),
        HostError::Exclusive { flag, other } => (
            flag.to_owned(),
            format!("mutually exclusive with --{other}"),
        ),
        other => ("collector".to_owned(), other.to_string()),
    };
    UsageError::Value {
        flag: format!("--{flag}"),
        reason,
    }
}
