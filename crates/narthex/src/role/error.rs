//! Why a server or an agent could not start, or did not end cleanly.

use crate::{config::ConfigError, logging};
use narthex_host::HostError;
use narthex_net::NetError;
use narthex_tsdb::TsdbError;
use std::{error::Error, fmt};

/// Reasons why the server could not start or did not end cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ServerError {
    Config(ConfigError),
    /// An unusable value of a flag.
    Flag {
        flag: &'static str,
        reason: String,
    },
    Runtime(std::io::Error),
    Net(NetError),
    Storage(TsdbError),
    /// Opening the data directory panicked.
    Replay(String),
    Host(HostError),
    Metrics(narthex_client::Error),
    /// Requests that were cut off because they outlasted the stop's deadline.
    Cut {
        requests: u64,
    },
}

impl ServerError {
    /// Returns what makes an error of the reason why a flag's value is unusable.
    pub(super) fn flag<E: fmt::Display>(flag: &'static str) -> impl FnOnce(E) -> Self {
        move |reason| Self::Flag {
            flag,
            reason: reason.to_string(),
        }
    }
}

/// Begins to log.
///
/// # Errors
/// Fails on an unknown level or format.
pub(super) fn start_logging(level: &str, format: &str) -> Result<(), ServerError> {
    let started = logging::start(level, format);
    started.map_err(|(flag, reason)| ServerError::Flag { flag, reason })
}

/// Returns how a command ended that stopped everything and cut off so many requests.
pub(super) fn ended(cut: u64) -> Result<(), ServerError> {
    tracing::info!("Ended cleanly.");
    match cut {
        0 => Ok(()),
        requests => Err(ServerError::Cut { requests }),
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Flag { flag, reason } => write!(f, "--{flag}: {reason}"),
            Self::Runtime(error) => write!(f, "starting the runtime: {error}"),
            Self::Net(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
            Self::Replay(reason) => write!(f, "opening storage: {reason}"),
            Self::Host(error) => error.fmt(f),
            Self::Metrics(error) => error.fmt(f),
            Self::Cut { requests } => {
                write!(f, "{requests} requests outlasted the stop and were cut off")
            }
        }
    }
}

impl Error for ServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Runtime(error) => Some(error),
            Self::Net(error) => Some(error),
            Self::Storage(error) => Some(error),
            Self::Host(error) => Some(error),
            Self::Metrics(error) => Some(error),
            Self::Flag { .. } | Self::Replay(_) | Self::Cut { .. } => None,
        }
    }
}
