//! Errors in a configuration, with their positions.

use narthex_yaml::YamlError;
use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

/// An unusable configuration.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// An error at one position of the text.
    At {
        /// Line, from 1; 0 for an error without a position.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Description of the error.
        message: String,
    },
    /// Any of the other errors, with its file.
    InFile {
        /// Path of the file.
        path: PathBuf,
        /// The error itself.
        source: Box<ConfigError>,
    },
}

impl ConfigError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::at(0, 0, message)
    }

    /// Returns an error at a position; line 0 means a default.
    pub(crate) fn at(line: usize, column: usize, message: impl Into<String>) -> Self {
        Self::At {
            line,
            column,
            message: message.into(),
        }
    }

    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::InFile {
            path: path.to_owned(),
            source: Box::new(self),
        }
    }
}

impl From<YamlError> for ConfigError {
    fn from(error: YamlError) -> Self {
        Self::at(error.line, error.column, error.message)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "open {}: {source}", path.display()),
            Self::At {
                line: 0, message, ..
            } => f.write_str(message),
            Self::At {
                line,
                column,
                message,
            } => write!(f, "line {line}, column {column}: {message}"),
            Self::InFile { path, source } => {
                write!(f, "parsing YAML file {}: {source}", path.display())
            }
        }
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::InFile { source, .. } => Some(source),
            _ => None,
        }
    }
}
