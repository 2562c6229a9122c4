//! Command lines that make no sense, in kingpin's words.

use std::{fmt, io, path::PathBuf};

/// A command line that makes no sense.
#[derive(Debug)]
#[non_exhaustive]
pub enum UsageError {
    /// A flag nobody knows.
    Unknown {
        /// As given.
        flag: String,
        /// One that is spelt much the same.
        similar: Option<&'static str>,
    },
    /// A flag that lacks its value.
    NoValue {
        /// Its name.
        flag: &'static str,
    },
    /// A value of the wrong kind.
    Value {
        /// The flag, with its dashes.
        flag: String,
        /// What is wrong, the value included.
        reason: String,
    },
    /// A flag that may be given once.
    Repeated {
        /// Its name.
        flag: &'static str,
    },
    /// A flag this program does not support.
    Refused {
        /// Its name.
        flag: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// An argument that has to be there.
    Missing {
        /// What it is.
        what: &'static str,
    },
    /// An argument where none is taken.
    Unexpected {
        /// The argument.
        argument: String,
    },
    /// No command of that name.
    Command {
        /// As given.
        name: String,
    },
    /// A file of arguments that cannot be read.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Files of arguments that name one another, or are too large.
    Files,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { flag, similar } => {
                write!(f, "unknown long flag '{flag}'")?;
                similar.map_or(Ok(()), |similar| write!(f, "; did you mean '--{similar}'?"))
            }
            Self::NoValue { flag } => write!(f, "expected argument for flag '--{flag}'"),
            Self::Value { flag, reason } => write!(f, "flag '{flag}': {reason}"),
            Self::Repeated { flag } => write!(f, "flag '--{flag}' cannot be repeated"),
            Self::Refused { flag, reason } => {
                write!(f, "flag '--{flag}' is not supported: {reason}")
            }
            Self::Missing { what } => write!(f, "required argument '{what}' not provided"),
            Self::Unexpected { argument } => write!(f, "unexpected {argument:?}"),
            Self::Command { name } => write!(f, "unknown command {name:?}"),
            Self::File { path, source } => {
                write!(f, "failed to read arguments from {path:?}: {source}")
            }
            Self::Files => f.write_str("too many files of arguments, or of more than 1 MiB in all"),
        }
    }
}

impl std::error::Error for UsageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}
