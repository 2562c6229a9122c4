//! Errors in command lines, in kingpin's words.

use std::{fmt, io, path::PathBuf};

/// An invalid command line.
#[derive(Debug)]
#[non_exhaustive]
pub enum UsageError {
    /// An unknown flag.
    Unknown {
        /// As given.
        flag: String,
        /// A flag with a similar name.
        similar: Option<&'static str>,
    },
    /// A flag that lacks its value.
    NoValue {
        /// Name of the flag.
        flag: &'static str,
    },
    /// A value of the wrong kind.
    Value {
        /// The flag, with its dashes.
        flag: String,
        /// The reason, the value included.
        reason: String,
    },
    /// A flag that was repeated but may be given only once.
    Repeated {
        /// Name of the flag.
        flag: &'static str,
    },
    /// A flag this program does not support.
    Refused {
        /// Name of the flag.
        flag: &'static str,
        /// Reason for rejecting it.
        reason: &'static str,
    },
    /// A missing required argument.
    Missing {
        /// Name of the argument.
        what: &'static str,
    },
    /// An unexpected argument.
    Unexpected {
        /// The argument.
        argument: String,
    },
    /// An unknown command.
    Command {
        /// As given.
        name: String,
    },
    /// A file of arguments that cannot be read.
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Files of arguments that include each other endlessly or are too large.
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
