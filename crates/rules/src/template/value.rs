//! Values of templates and their Go types.
//!
//! **Invariant:** a value's type is the one that Prometheus' code has there, because functions and errors depend on it.

use super::time::{DurationNs, TimeMs};
use narthex_model::Histogram;
use std::{collections::BTreeMap, sync::Arc};

/// Labels by name.
pub(super) type Labels = BTreeMap<String, String>;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// No value: Go's invalid `reflect.Value`, or an untyped nil.
    Invalid,
    Bool(bool),
    Int(i64),
    Int64(i64),
    Byte(u8),
    Float(f64),
    String(Arc<str>),
    Html(Arc<str>),
    Labels(Arc<Labels>),
    Args(Arc<BTreeMap<String, Value>>),
    Vector(Arc<[Arc<Sample>]>),
    Sample(Arc<Sample>),
    NilSample,
    Data(Arc<Data>),
    Histogram(Arc<Histogram>),
    Time(TimeMs),
    TimePointer(TimeMs),
    Duration(DurationNs),
    DurationPointer(DurationNs),
    Month(i64),
    Weekday(i64),
}

/// An element of a query's result.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) labels: Arc<Labels>,
    pub(super) value: Value,
}

/// What `.` is.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) labels: Arc<Labels>,
    pub(super) external_labels: Arc<Labels>,
    pub(super) external_url: Arc<str>,
    pub(super) value: Value,
}

/// The classes of values that can be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Basic {
    None,
    Bool,
    Int,
    Uint,
    Float,
    String,
}

impl Value {
    pub(super) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// Returns the name of the Go type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Invalid => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::String(_) => "string",
            Self::Html(_) => "template.HTML",
            Self::Labels(_) => "map[string]string",
            Self::Args(_) => "map[string]interface {}",
            Self::Vector(_) => "template.queryResult",
            Self::Sample(_) | Self::NilSample => "*template.sample",
            Self::Data(_) => {
                "struct { Labels map[string]string; ExternalLabels map[string]string; ExternalURL string; Value interface {} }"
            }
            Self::Histogram(_) => "*histogram.FloatHistogram",
            Self::Time(_) => "time.Time",
            Self::TimePointer(_) => "*time.Time",
            Self::Duration(_) => "time.Duration",
            Self::DurationPointer(_) => "*time.Duration",
            Self::Month(_) => "time.Month",
            Self::Weekday(_) => "time.Weekday",
        }
    }

    /// Reports whether `if` takes the value for true.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Invalid | Self::NilSample => false,
            Self::Bool(value) => *value,
            Self::Float(value) => *value != 0.0,
            Self::String(text) | Self::Html(text) => !text.is_empty(),
            Self::Labels(labels) => !labels.is_empty(),
            Self::Args(args) => !args.is_empty(),
            Self::Vector(samples) => !samples.is_empty(),
            Self::Sample(_)
            | Self::Data(_)
            | Self::Histogram(_)
            | Self::Time(_)
            | Self::TimePointer(_)
            | Self::DurationPointer(_) => true,
            Self::Int(_)
            | Self::Int64(_)
            | Self::Byte(_)
            | Self::Month(_)
            | Self::Weekday(_)
            | Self::Duration(_) => self.whole() != Some(0),
        }
    }

    /// Returns the integer that the value is, whatever its type is called.
    pub(super) fn whole(&self) -> Option<i64> {
        match self {
            Self::Int(value) | Self::Int64(value) | Self::Month(value) | Self::Weekday(value) => {
                Some(*value)
            }
            Self::Byte(value) => Some(i64::from(*value)),
            Self::Duration(duration) => Some(duration.0),
            _ => None,
        }
    }

    /// Returns the time that the value is or points to.
    pub(super) fn as_time(&self) -> Option<TimeMs> {
        match self {
            Self::Time(time) | Self::TimePointer(time) => Some(*time),
            _ => None,
        }
    }

    /// Returns the duration that the value is or points to.
    pub(super) fn as_duration(&self) -> Option<DurationNs> {
        match self {
            Self::Duration(duration) | Self::DurationPointer(duration) => Some(*duration),
            _ => None,
        }
    }

    pub(super) fn basic(&self) -> Basic {
        match self {
            Self::Bool(_) => Basic::Bool,
            Self::Byte(_) => Basic::Uint,
            Self::Float(_) => Basic::Float,
            Self::String(_) | Self::Html(_) => Basic::String,
            _ if self.whole().is_some() => Basic::Int,
            _ => Basic::None,
        }
    }

    /// Returns what a text is, whatever its type is called.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Html(text) => Some(text),
            _ => None,
        }
    }
}
