//! What is wrong with a configuration, and where.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

/// A configuration that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The text is no YAML of this shape.
    Yaml {
        /// What is wrong and where.
        message: String,
    },
    /// A key that Prometheus knows and this version does not support.
    Unsupported {
        /// The key with its section.
        key: String,
        /// Its line, from 1.
        line: u64,
        /// Its column, from 1.
        column: u64,
    },
    /// A value that makes no sense.
    Invalid {
        /// What is wrong.
        message: String,
    },
    /// Any of the others, with the file it is about.
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<ConfigError>,
    },
}

impl ConfigError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid {
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

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "open {}: {source}", path.display()),
            Self::Yaml { message } | Self::Invalid { message } => f.write_str(message),
            Self::Unsupported { key, line, column } => {
                write!(
                    f,
                    "line {line}, column {column}: {key} is not supported by this version"
                )
            }
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
