//! Errors in rule files, with their places.
//!
//! **Invariant:** the text is Prometheus'. A place stands before it where Prometheus prints one, and also where it prints
//! none or `0:0`: names and values of labels and annotations, groups, missing keys, durations.

use narthex_promql::{ParseError, fmt::quote};
use narthex_yaml::YamlError;
use std::{error::Error, fmt};

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Place {
    pub(crate) fn new(line: usize, column: usize) -> Self {
        Self { line, column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value that does not fit into the schema of rule files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Where the value, or its key, is.
    pub place: Place,
    /// Description in the words of Go's YAML library.
    pub message: String,
}

/// An error in a rule file.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuleError {
    /// The file cannot be read.
    Read(std::io::Error),
    /// The text is not YAML.
    Yaml(YamlError),
    /// Keys or values do not fit into the schema.
    Schema(Vec<Problem>),
    /// A duration, a time or a list of values is malformed, or a group is invalid, whatever its rules are.
    Value {
        /// Where the offending part is.
        place: Place,
        /// Description of the error.
        message: String,
    },
    /// A rule is invalid.
    Rule {
        /// Where the offending part is.
        place: Place,
        /// Where the part is that conflicts with it.
        conflict: Option<Place>,
        /// Name of the group.
        group: String,
        /// Number of the rule in its group, from 1.
        number: usize,
        /// Name of the rule.
        name: String,
        /// The reason.
        reason: RuleFault,
    },
}

/// Reason why a rule is invalid.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuleFault {
    /// The expression cannot be parsed.
    Expression(ParseError),
    /// Any other reason.
    Other(String),
}

impl RuleError {
    /// Returns where the errors are; empty for a file that cannot be read.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        match self {
            Self::Read(_) => Vec::new(),
            Self::Yaml(error) => vec![Place::new(error.line, error.column)],
            Self::Schema(problems) => problems.iter().map(|problem| problem.place).collect(),
            Self::Value { place, .. } => vec![*place],
            Self::Rule {
                place, conflict, ..
            } => [Some(*place), *conflict].into_iter().flatten().collect(),
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Yaml(error) => write!(f, "yaml: line {}: {}", error.line, error.message),
            Self::Schema(problems) => {
                f.write_str("yaml: unmarshal errors:")?;
                for problem in problems {
                    write!(f, "\n  line {}: {}", problem.place.line, problem.message)?;
                }
                Ok(())
            }
            Self::Value { place, message } => write!(f, "{place}: {message}"),
            Self::Rule {
                place,
                conflict,
                group,
                number,
                name,
                reason,
            } => {
                write!(f, "{place}: ")?;
                if let Some(conflict) = conflict {
                    write!(f, "{conflict}: ")?;
                }
                let (group, name) = (quote(group), quote(name));
                write!(f, "group {group}, rule {number}, {name}: {reason}")
            }
        }
    }
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression(error) => write!(f, "could not parse expression: {error}"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl Error for RuleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Yaml(error) => Some(error),
            Self::Rule {
                reason: RuleFault::Expression(error),
                ..
            } => Some(error),
            _ => None,
        }
    }
}
