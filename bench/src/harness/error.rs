//! Errors, one variant for each case that the caller distinguishes.
//!
//! **Invariant:** a refused result is not a failure of the program: it has its own variant and exit code.

use narthex_testkit::http::Response;
use std::{error::Error, fmt, io};

/// Reason that there is no result.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum BenchError {
    /// The command line is invalid.
    Usage(String),
    /// A system call failed.
    Io { what: String, source: io::Error },
    /// A server under test did not start, ended, or did not answer in time; `log` is the end of its output.
    Server {
        name: String,
        what: String,
        log: String,
    },
    /// A server under test returned a wrong answer.
    Answer {
        name: String,
        query: String,
        what: String,
    },
    /// A record's file is malformed or in another format.
    Record { name: String, what: String },
    /// The figures do not characterise the servers.
    Refused(String),
}

impl BenchError {
    /// Returns the function for `map_err` that wraps an error of the operation `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Returns the function for `map_err` that wraps what is wrong with a file.
    pub(crate) fn damaged(name: &str) -> impl FnOnce(String) -> Self {
        let name = name.to_owned();
        move |what| Self::Record { name, what }
    }

    /// Returns the error of a server's wrong answer to a query.
    pub(crate) fn answer(name: &str, query: &str, what: impl Into<String>) -> Self {
        Self::Answer {
            name: name.to_owned(),
            query: query.to_owned(),
            what: what.into(),
        }
    }

    /// Returns the error of an unsuccessful answer, with the beginning of its text.
    pub(crate) fn refused(name: &str, query: &str, answer: &Response) -> Self {
        let text: String = answer.text().chars().take(300).collect();
        Self::answer(name, query, format!("with {}: {text}", answer.status))
    }

    /// Returns the program's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Refused(_) => 3,
            _ => 1,
        }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => f.write_str(what),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Server { name, what, log } if log.is_empty() => write!(f, "{name} {what}"),
            Self::Server { name, what, log } => {
                write!(f, "{name} {what}; the end of its output:\n{log}")
            }
            Self::Answer { name, query, what } => write!(f, "{name} answers {query:?} {what}"),
            Self::Record { name, what } => write!(f, "{name}: {what}"),
            Self::Refused(why) => write!(f, "the result is refused: {why}"),
        }
    }
}

impl Error for BenchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
