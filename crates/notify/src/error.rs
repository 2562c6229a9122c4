//! Why a configuration of alerting cannot be used.

use narthex_net::NetError;
use std::{error::Error, fmt};

/// A configuration that cannot be applied.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotifyError {
    /// The HTTP settings of a set make no client.
    Client {
        /// Position of the set in the configuration, from 0.
        set: usize,
        /// What is wrong.
        source: NetError,
    },
}

impl fmt::Display for NotifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { set, source } => write!(f, "alertmanagers, entry {}: {source}", set + 1),
        }
    }
}

impl Error for NotifyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Client { source, .. } => Some(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_entry() {
        let error = NotifyError::Client {
            set: 1,
            source: NetError::Config {
                message: "unable to load the key".to_owned(),
            },
        };
        let shown = error.to_string();
        assert!(shown.starts_with("alertmanagers, entry 2: "), "{shown}");
        assert!(shown.contains("unable to load the key"), "{shown}");
        assert!(error.source().is_some());
    }
}
