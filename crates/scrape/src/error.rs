//! What can be wrong with a target.

use narthex_net::NetError;
use std::{error::Error, fmt};

/// A target or job that cannot be scraped.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScrapeError {
    /// A target's address makes no URL.
    Address {
        /// The job.
        job: String,
        /// The address as configured.
        address: String,
        /// What is wrong with it.
        source: NetError,
    },
    /// A scheme that is not supported.
    Scheme {
        /// The job.
        job: String,
        /// The scheme as configured.
        scheme: String,
    },
}

impl fmt::Display for ScrapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address {
                job,
                address,
                source,
            } => write!(f, "job {job:?}, target {address:?}: {source}"),
            Self::Scheme { job, scheme } => {
                write!(
                    f,
                    "job {job:?}: scheme {scheme:?} is not supported, only \"http\" is"
                )
            }
        }
    }
}

impl Error for ScrapeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Address { source, .. } => Some(source),
            Self::Scheme { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_reads_well() {
        let scheme = ScrapeError::Scheme {
            job: "j".into(),
            scheme: "ftp".into(),
        };
        assert_eq!(
            scheme.to_string(),
            "job \"j\": scheme \"ftp\" is not supported, only \"http\" is"
        );
        let source = narthex_net::Url::parse("http://a b/").unwrap_err();
        let address = ScrapeError::Address {
            job: "j".into(),
            address: "a b".into(),
            source,
        };
        assert!(
            address
                .to_string()
                .starts_with("job \"j\", target \"a b\": "),
            "{address}"
        );
    }
}
