//! The crate's one error.
//!
//! Invariant: `Display` is one line, names the file, URL or server concerned, and holds no secret.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use narthex_net::NetError;

/// Why a configuration cannot be used, or targets could not be found.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// Settings that cannot be used, in Prometheus' words.
    Config {
        /// What is wrong with them.
        message: String,
    },
    /// A file that could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A document that is not what it should be.
    Parse {
        /// What it was read from.
        what: String,
        /// What is wrong with it, and where.
        message: String,
    },
    /// A request that failed.
    Net(NetError),
    /// An answer that cannot be used.
    Answer {
        /// What is wrong with it.
        message: String,
    },
    /// A name that no server could resolve.
    Dns {
        /// The name.
        name: String,
        /// What the last server did.
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
