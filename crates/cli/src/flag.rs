//! Declarations of flags.

use crate::Value;

/// A flag, or a positional argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// A letter that stands for the name after a single dash; empty for none.
    pub short: &'static str,
    /// Kind of value.
    pub kind: ValueKind,
    /// Name of the value in help; empty for the kind's name.
    pub value_name: &'static str,
    /// Default as written on a command line; empty for none.
    pub default: &'static str,
    /// Meaning, in one or more sentences.
    pub help: &'static str,
    /// Values that completion offers.
    pub offers: &'static [&'static str],
    /// Least and greatest number that it takes.
    pub range: Option<(i64, i64)>,
    /// Whether it may be left out; only positional arguments can be required.
    pub is_optional: bool,
    /// Whether it is a positional argument.
    pub is_positional: bool,
    /// Whether it may be given several times.
    pub is_repeatable: bool,
    /// Whether only `--help-long` and the reference show it.
    pub is_hidden: bool,
    /// How far it is supported.
    pub class: Class,
}

/// Kind of a flag's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ValueKind {
    /// No value; `--no-<name>` turns it off.
    Switch,
    /// A text.
    Text,
    /// A path of a file.
    File,
    /// A path of a directory.
    Directory,
    /// A duration such as `15s`.
    Duration,
    /// A size such as `512MB`.
    Bytes,
    /// A whole number, 0 or more.
    Count,
    /// A number.
    Number,
}

impl ValueKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Text => "text",
            Self::File => "file",
            Self::Directory => "directory",
            Self::Duration => "duration",
            Self::Bytes => "bytes",
            Self::Count | Self::Number => "number",
        }
    }
}

/// How far a flag is supported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// Fully supported.
    Honoured,
    /// Accepted without effect, for this reason.
    NoEffect(&'static str),
    /// Rejected, for this reason.
    Refused(&'static str),
}

impl Flag {
    /// Declares a flag whose value is a `T`. A switch is off by default.
    #[must_use]
    pub const fn typed<T: Value>(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            short: "",
            kind: T::KIND,
            value_name: "",
            default: if matches!(T::KIND, ValueKind::Switch) {
                "false"
            } else {
                ""
            },
            help: help.trim_ascii(),
            offers: T::OFFERS,
            range: None,
            is_optional: T::IS_OPTIONAL,
            is_positional: false,
            is_repeatable: T::IS_REPEATABLE,
            is_hidden: false,
            class: Class::Honoured,
        }
    }

    /// Sets the default as written on a command line. For an `Option` it is only shown: a missing flag stays `None`.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    /// Sets a letter that stands for the name after a single dash.
    #[must_use]
    pub const fn short(mut self, letter: &'static str) -> Self {
        self.short = letter;
        self
    }

    /// Sets the value's name in help.
    #[must_use]
    pub const fn value(mut self, value_name: &'static str) -> Self {
        self.value_name = value_name;
        self
    }

    /// Sets the values that completion offers; others are not rejected here.
    #[must_use]
    pub const fn offers(mut self, offers: &'static [&'static str]) -> Self {
        self.offers = offers;
        self
    }

    /// Rejects numbers outside `least` to `greatest`, both inclusive.
    #[must_use]
    pub const fn within(mut self, least: i64, greatest: i64) -> Self {
        self.range = Some((least, greatest));
        self
    }

    /// Makes the text a file's path.
    #[must_use]
    pub const fn file(mut self) -> Self {
        self.kind = ValueKind::File;
        self
    }

    /// Makes the path a directory's.
    #[must_use]
    pub const fn directory(mut self) -> Self {
        self.kind = ValueKind::Directory;
        self
    }

    /// Makes it a positional argument.
    #[must_use]
    pub const fn positional(mut self) -> Self {
        self.is_positional = true;
        self
    }

    /// Allows a positional argument to be left out.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Hides it from `--help`.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    /// Makes it accepted without effect.
    #[must_use]
    pub const fn no_effect(mut self, reason: &'static str) -> Self {
        self.class = Class::NoEffect(reason);
        self
    }

    /// Makes it rejected.
    #[must_use]
    pub const fn refused(mut self, reason: &'static str) -> Self {
        self.class = Class::Refused(reason);
        self
    }

    /// Returns the value's name in help.
    pub(crate) fn shown_value(&self) -> String {
        match self.value_name {
            "" => self.kind.name().to_uppercase(),
            name => name.to_owned(),
        }
    }

    /// Returns the flag as written, such as `--query.timeout=2m`.
    pub(crate) fn usage(&self) -> String {
        if !self.short.is_empty() {
            let long = Self { short: "", ..*self };
            return format!("-{}, {}", self.short, long.usage());
        }
        let again = if self.is_repeatable { " ..." } else { "" };
        match (self.kind, self.default) {
            _ if self.is_positional && self.is_optional => {
                format!("[<{}>{}]", self.name, again.trim_start())
            }
            _ if self.is_positional => format!("<{}>{}", self.name, again.trim_start()),
            (ValueKind::Switch, _) => format!("--[no-]{}", self.name),
            (_, "") => format!("--{}={}{again}", self.name, self.shown_value()),
            (_, default) => format!("--{}={default}{again}", self.name),
        }
    }

    /// Returns the help, or why the flag is not supported.
    pub(crate) fn meaning(&self) -> String {
        match self.class {
            Class::NoEffect(reason) => format!("Accepted without effect: {reason}."),
            Class::Refused(reason) => format!("Refused: {reason}."),
            Class::Honoured => self.help.to_owned(),
        }
    }
}

/// Declares a struct of flags.
///
/// ```text
/// flags! {
///     /// What the command is asked to do.
///     #[derive(Debug)]
///     pub(crate) struct Options {
///         /// Help, which is the field's documentation too.
///         timeout: Duration = "query.timeout", default("2m");
///         ..values
///     }
///     without effect {
///         "there is no Go runtime" => "auto-gomaxprocs": bool, "auto-gomemlimit": bool;
///     }
///     refused { "this version does not have it" => "agent": bool; }
/// }
/// ```
/// Names are followed by methods of [`Flag`]. `..values` keeps the [`Values`](crate::Values) as given in a field.
/// The struct gets `FLAGS` and `from_values`.
#[macro_export]
macro_rules! flags {
    (
        $(#[$attribute:meta])*
        $vis:vis struct $options:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty = $name:literal $(, $modifier:ident($($argument:expr),*))*;
            )*
            $(.. $values:ident)?
        }
        $(without effect { $($idle_reason:expr => $($idle:literal: $idle_type:ty),+;)* })?
        $(refused { $($refused_reason:expr => $($refused:literal: $refused_type:ty),+;)* })?
    ) => {
        $(#[$attribute])*
        $vis struct $options {
            $($(#[doc = $help])+ $vis $field: $type,)*
            $(
                /// All values as given.
                $vis $values: $crate::Values,
            )?
        }

        impl $options {
            /// Declarations of the flags.
            $vis const FLAGS: &'static [$crate::Flag] = &[
                $($crate::Flag::typed::<$type>($name, concat!($($help),+)) $(.$modifier($($argument),*))*,)*
                $($($($crate::Flag::typed::<$idle_type>($idle, "").default("").no_effect($idle_reason),)+)*)?
                $($($($crate::Flag::typed::<$refused_type>($refused, "").default("").refused($refused_reason),)+)*)?
            ];

            /// Reads the values of a command line.
            ///
            /// # Errors
            /// Fails on the first value that is not of its flag's type.
            #[allow(unused_variables, clippy::unnecessary_wraps, clippy::needless_pass_by_value)]
            $vis fn from_values(values: $crate::Values) -> Result<Self, $crate::UsageError> {
                Ok(Self {
                    $($field: values.get($name)?,)*
                    $($values: values,)?
                })
            }
        }
    };
}
