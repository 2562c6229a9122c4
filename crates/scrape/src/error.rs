//! Errors of jobs and their targets.

use narthex_net::{NetError, Panicked};
use std::{error::Error, fmt, io, path::PathBuf};

/// A job that cannot be scraped.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScrapeError {
    /// Its HTTP settings are invalid.
    Client {
        /// The job.
        job: String,
        /// The client's error.
        source: NetError,
    },
    /// The log file of failed scrapes cannot be opened.
    FailureLog {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Updating its targets panicked: it has none until it is applied again.
    Panicked {
        /// The job.
        job: String,
        /// Location and message of the panic.
        source: Panicked,
    },
}

impl ScrapeError {
    /// Reports whether applying the job again may succeed.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked { .. })
    }
}

impl fmt::Display for ScrapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { job, source } => {
                write!(f, "job {job:?}: error creating HTTP client: {source}")
            }
            Self::FailureLog { path, source } => {
                let path = path.display();
                write!(f, "can't create json log file: open {path}: {source}")
            }
            Self::Panicked { job, source } => write!(f, "job {job:?}: {source}"),
        }
    }
}

impl Error for ScrapeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Client { source, .. } => Some(source),
            Self::FailureLog { source, .. } => Some(source),
            Self::Panicked { source, .. } => Some(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_reads_well() {
        let source = narthex_net::Url::parse("http://a b/").unwrap_err();
        let text = format!("job \"j\": error creating HTTP client: {source}");
        let error = ScrapeError::Client {
            job: "j".into(),
            source,
        };
        assert_eq!(error.to_string(), text);
        let error = ScrapeError::FailureLog {
            path: "/no/such".into(),
            source: io::Error::other("gone"),
        };
        let text = "can't create json log file: open /no/such: gone";
        assert_eq!(error.to_string(), text);
        let source = Panicked {
            task: "targets",
            message: "no way".into(),
            place: Some("a.rs:1:2".into()),
        };
        let job = "j".into();
        let error = ScrapeError::Panicked { job, source };
        let text = "job \"j\": panicked at a.rs:1:2: no way";
        assert_eq!(error.to_string(), text);
    }
}
