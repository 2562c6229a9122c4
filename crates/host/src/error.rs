//! Errors of the crate, from configuration to collected values.
//!
//! Invariant: every variant names the file, flag or kernel interface, so that one log line is enough to act on.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A failure of host metrics collection or of its configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostError {
    /// A filter is not a valid regular expression.
    Pattern {
        /// Flag that carries the pattern, without dashes.
        flag: &'static str,
        /// The regex compiler's error.
        source: Box<regex::Error>,
    },
    /// Two flags are given of which only one may be.
    Exclusive {
        /// One flag.
        flag: &'static str,
        /// The other flag.
        other: &'static str,
    },
    /// A file of procfs or sysfs can't be opened or read.
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: Errno,
    },
    /// A file is larger than any that a kernel prints.
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size that is read.
        limit_bytes: usize,
    },
    /// A file is not in the kernel's format.
    Parse {
        /// The file.
        path: PathBuf,
        /// Position and cause.
        source: ParseError,
    },
    /// The kernel's routing socket failed.
    Netlink {
        /// The attempted operation.
        action: &'static str,
        /// The kernel's error.
        source: Errno,
    },
    /// A netlink message is shorter than its header says.
    NetlinkMessage {
        /// The part that is short or wrong.
        what: &'static str,
    },
    /// A thread for slow system calls can't be started.
    Worker {
        /// The system's error.
        source: std::io::Error,
    },
    /// The kernel or the machine has nothing to report: not a failure, but nothing to export either.
    NoData {
        /// The missing file or directory.
        path: PathBuf,
    },
    /// A collector has been running past its deadline, or has not had an answer yet.
    Late {
        /// The deadline.
        deadline_ms: u128,
    },
    /// A program that a collector asks does not answer as it should.
    Service {
        /// The program.
        name: &'static str,
        /// The cause.
        problem: String,
    },
    /// A flag's value is invalid.
    Flag {
        /// The flag, without dashes.
        flag: String,
        /// The cause.
        problem: String,
    },
    /// A label to be added to every series is already used by some of them.
    CommonLabel {
        /// The label's name.
        name: String,
    },
}

impl HostError {
    /// Reports whether there is nothing to report, which is not a failure: node_exporter's "no data".
    pub fn is_no_data(&self) -> bool {
        matches!(self, Self::NoData { .. })
    }

    /// Returns the error of having nothing to report without this file or directory.
    pub(crate) fn no_data(path: &Path) -> Self {
        let path = path.to_path_buf();
        Self::NoData { path }
    }

    /// Converts "no such file" to "no data".
    pub(crate) fn or_no_data(self) -> Self {
        match self {
            Self::Read {
                path,
                source: Errno::NOENT | Errno::NOTDIR,
            } => Self::NoData { path },
            other => other,
        }
    }
}

/// Position and kind of a malformed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// Line number, from 1.
    pub line: u32,
    /// The expected syntax.
    pub expected: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.line, self.expected)
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { flag, .. } => write!(f, "--{flag} is not a valid regular expression"),
            Self::Exclusive { flag, other } => {
                write!(f, "--{flag} and --{other} are mutually exclusive")
            }
            Self::Read { path, .. } => write!(f, "can't read {}", path.display()),
            Self::TooLarge { path, limit_bytes } => {
                write!(f, "{} is larger than {limit_bytes} bytes", path.display())
            }
            Self::Parse { path, .. } => write!(f, "{} is malformed", path.display()),
            Self::Netlink { action, .. } => write!(f, "netlink: can't {action}"),
            Self::NetlinkMessage { what } => write!(f, "netlink: malformed message: {what}"),
            Self::Worker { .. } => write!(f, "can't start a thread for what may hang"),
            Self::NoData { path } => write!(f, "nothing to report: no {}", path.display()),
            Self::Service { name, problem } => write!(f, "{name}: {problem}"),
            Self::Late { deadline_ms } => write!(f, "no answer within {deadline_ms} ms"),
            Self::Flag { flag, problem } => write!(f, "--{flag}: {problem}"),
            Self::CommonLabel { name } => {
                write!(
                    f,
                    "the label {name:?} can't be given to all host metrics: some have it already"
                )
            }
        }
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pattern { source, .. } => Some(source.as_ref()),
            Self::Read { source, .. } | Self::Netlink { source, .. } => Some(source),
            Self::Parse { source, .. } => Some(source),
            Self::Worker { source } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn every_variant_names_what_failed_and_why() {
        let path = || PathBuf::from("/proc/x");
        let pattern = regex::Error::Syntax("unclosed".into());
        let all = [
            HostError::Pattern {
                flag: "collector.x",
                source: Box::new(pattern),
            },
            HostError::Exclusive {
                flag: "a",
                other: "b",
            },
            HostError::Read {
                path: path(),
                source: Errno::ACCESS,
            },
            HostError::TooLarge {
                path: path(),
                limit_bytes: 7,
            },
            HostError::Parse {
                path: path(),
                source: ParseError {
                    line: 3,
                    expected: "a number",
                },
            },
            HostError::Netlink {
                action: "dump",
                source: Errno::PERM,
            },
            HostError::NetlinkMessage { what: "short" },
            HostError::Worker {
                source: std::io::Error::other("no threads"),
            },
            HostError::NoData { path: path() },
            HostError::Late {
                deadline_ms: 30_000,
            },
            HostError::Service {
                name: "the bus",
                problem: "gone".into(),
            },
            HostError::Flag {
                flag: "a".into(),
                problem: "not a number".into(),
            },
            HostError::CommonLabel {
                name: "device".into(),
            },
        ];
        let shown = all.map(|error| match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        });
        let expected = [
            "--collector.x is not a valid regular expression: unclosed",
            "--a and --b are mutually exclusive",
            "can't read /proc/x: Permission denied (os error 13)",
            "/proc/x is larger than 7 bytes",
            "/proc/x is malformed: line 3: expected a number",
            "netlink: can't dump: Operation not permitted (os error 1)",
            "netlink: malformed message: short",
            "can't start a thread for what may hang: no threads",
            "nothing to report: no /proc/x",
            "no answer within 30000 ms",
            "the bus: gone",
            "--a: not a number",
            "the label \"device\" can't be given to all host metrics: some have it already",
        ];
        assert_eq!(shown, expected);
    }
}
