//! What a flag is.

use std::{collections::BTreeMap, fmt};

/// One flag of a command.
#[derive(Debug)]
pub(crate) struct Flag {
    /// Its name without dashes.
    pub(crate) name: &'static str,
    /// What its value is.
    pub(crate) kind: Kind,
    /// Its default as written, empty for none.
    pub(crate) default: &'static str,
    /// What it does, one sentence or more.
    pub(crate) help: &'static str,
    /// What becomes of it.
    pub(crate) class: Class,
}

/// What a flag's value is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// No value; `--no-<name>` turns it off.
    Switch,
    /// A text.
    Text,
    /// Texts; the flag may be repeated.
    Texts,
    /// A period such as `15s`.
    Period,
    /// A size such as `512MB`.
    Bytes,
    /// A whole number, 0 or more.
    Count,
}

/// What becomes of a flag that is given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Class {
    /// It does what it says.
    Honoured,
    /// It is accepted and does nothing, for this reason; a line says so.
    NoEffect(&'static str),
    /// It is refused, for this reason.
    Refused(&'static str),
}

impl Flag {
    pub(crate) const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            default,
            help,
            class: Class::Honoured,
        }
    }

    pub(crate) const fn no_effect(name: &'static str, kind: Kind, reason: &'static str) -> Self {
        Self {
            name,
            kind,
            default: "",
            help: "",
            class: Class::NoEffect(reason),
        }
    }

    pub(crate) const fn refused(name: &'static str, kind: Kind, reason: &'static str) -> Self {
        Self {
            name,
            kind,
            default: "",
            help: "",
            class: Class::Refused(reason),
        }
    }
}

/// The values given, by flag.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Values {
    /// As given, in order; a switch is `true` or `false`.
    pub(crate) given: BTreeMap<&'static str, Vec<String>>,
    /// Flags given that have no effect, with the reason.
    pub(crate) without_effect: Vec<(&'static str, &'static str)>,
}

/// A command line that makes no sense.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub(crate) enum UsageError {
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
        /// The flag's name.
        flag: &'static str,
        /// What is wrong.
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
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { flag, similar } => {
                write!(f, "unknown long flag '{flag}'")?;
                similar.map_or(Ok(()), |similar| write!(f, "; did you mean '--{similar}'?"))
            }
            Self::NoValue { flag } => write!(f, "expected argument for flag '--{flag}'"),
            Self::Value { flag, reason } => write!(f, "flag '--{flag}': {reason}"),
            Self::Repeated { flag } => write!(f, "flag '--{flag}' cannot be repeated"),
            Self::Refused { flag, reason } => {
                write!(f, "flag '--{flag}' is not supported: {reason}")
            }
            Self::Missing { what } => write!(f, "required argument '{what}' not provided"),
            Self::Unexpected { argument } => write!(f, "unexpected {argument:?}"),
            Self::Command { name } => write!(f, "unknown command {name:?}"),
        }
    }
}

impl std::error::Error for UsageError {}
