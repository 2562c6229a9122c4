//! The crate's error type.
//!
//! Invariant: `Display` is one line, names the file, URL or server concerned, and contains no secret.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use narthex_net::NetError;

/// An unusable configuration, or a failure to find targets.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// Invalid settings, in Prometheus' words.
    Config {
        /// The cause.
        message: String,
    },
    /// A file that could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A malformed document.
    Parse {
        /// Its source.
        what: String,
        /// The cause and its position.
        message: String,
    },
    /// A request that failed.
    Net(NetError),
    /// A response that cannot be used.
    Answer {
        /// The cause.
        message: String,
    },
    /// A name that no server could resolve.
    Dns {
        /// The name.
        name: String,
        /// Failure of the last server.
        reason: String,
    },
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { message } | Self::Answer { message } => f.write_str(message),
            Self::Read { path, source } => write!(f, "open {}: {source}", path.display()),
            Self::Parse { what, message } => write!(f, "{what}: {message}"),
            Self::Net(error) => error.fmt(f),
            Self::Dns { name, reason } => write!(f, "could not resolve {name:?}: {reason}"),
        }
    }
}

impl Error for DiscoveryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Net(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NetError> for DiscoveryError {
    fn from(error: NetError) -> Self {
        Self::Net(error)
    }
}

/// Returns the error of invalid settings.
pub(crate) fn invalid(message: impl Into<String>) -> DiscoveryError {
    DiscoveryError::Config {
        message: message.into(),
    }
}
