//! Fields and methods of values.
//!
//! **Invariant:** methods are those of Go's `time` that take and return what templates have; others are unknown.

use super::{
    functions::{Param, Signature},
    time::{DurationNs, TimeMs},
    value::Value,
};

/// What a name leads to.
pub(super) enum Found {
    /// A struct's field.
    Field(Value),
    /// A map's entry.
    Entry(Value),
    /// Nothing, with the reason.
    Nothing(String),
}

/// Returns the field or entry `name`; `is_interface` says whether the value's own type is hidden.
pub(super) fn get(value: &Value, name: &str, is_interface: bool) -> Found {
    let field = match (value, name) {
        // As in Go, a field of nothing is nothing.
        (Value::Invalid, _) => Value::Invalid,
        (Value::Labels(labels), _) => {
            return Found::Entry(Value::text(labels.get(name).map_or("", String::as_str)));
        }
        (Value::Args(args), _) => {
            return Found::Entry(args.get(name).cloned().unwrap_or(Value::Invalid));
        }
        (Value::Data(data), "Labels") => Value::Labels(data.labels.clone()),
        (Value::Data(data), "ExternalLabels") => Value::Labels(data.external_labels.clone()),
        (Value::Data(data), "ExternalURL") => Value::String(data.external_url.clone()),
        (Value::Data(data), "Value") => data.value.clone(),
        (Value::Sample(sample), "Labels") => Value::Labels(sample.labels.clone()),
        (Value::Sample(sample), "Value") => sample.value.clone(),
        (Value::NilSample, "Labels" | "Value") => {
            let message = format!("nil pointer evaluating {}.{name}", value.type_name());
            return Found::Nothing(message);
        }
        (Value::Histogram(histogram), "Count") => Value::Float(histogram.count),
        (Value::Histogram(histogram), "Sum") => Value::Float(histogram.sum),
        (Value::Histogram(histogram), "ZeroCount") => Value::Float(histogram.zero_count),
        (Value::Histogram(histogram), "ZeroThreshold") => Value::Float(histogram.zero_threshold),
        _ => {
            let of = if is_interface {
                "interface {}"
            } else {
                value.type_name()
            };
            return Found::Nothing(format!("can't evaluate field {name} in type {of}"));
        }
    };
    Found::Field(field)
}

/// Returns the parameters of a value's method.
pub(super) fn method(value: &Value, name: &str) -> Option<Signature> {
    let takes = |fixed| {
        Some(Signature {
            fixed,
            variadic: None,
        })
    };
    match value {
        Value::Time(_) | Value::TimePointer(_) => match name {
            "Unix" | "UnixMilli" | "UnixMicro" | "UnixNano" | "Year" | "Month" | "Day" | "Hour"
            | "Minute" | "Second" | "Nanosecond" | "Weekday" | "YearDay" | "UTC" | "Local"
            | "String" | "IsZero" => takes(&[]),
            "Format" => takes(&[Param::String]),
            "Add" | "Truncate" => takes(&[Param::Duration]),
            "Sub" | "Before" | "After" | "Equal" => takes(&[Param::Time]),
            _ => None,
        },
        Value::Duration(_) | Value::DurationPointer(_) => match name {
            "Hours" | "Minutes" | "Seconds" | "Milliseconds" | "Microseconds" | "Nanoseconds"
            | "String" | "Abs" => takes(&[]),
            "Truncate" | "Round" => takes(&[Param::Duration]),
            _ => None,
        },
        Value::Histogram(_) | Value::Month(_) | Value::Weekday(_) if name == "String" => takes(&[]),
        _ => None,
    }
}

/// Calls a method that [`method`] knows.
pub(super) fn call(value: &Value, name: &str, arguments: &[Value]) -> Value {
    let argument = arguments.first();
    match (value.as_time(), value.as_duration()) {
        (Some(time), _) => of_time(time, name, argument),
        (_, Some(duration)) => of_duration(duration, name, argument),
        _ => Value::text(super::format::show(value)),
    }
}

/// Returns a duration of so many nanoseconds.
pub(super) fn duration(ns: i64) -> Value {
    Value::Duration(DurationNs(ns))
}

fn nanoseconds(argument: Option<&Value>) -> i64 {
    argument.and_then(Value::as_duration).map_or(0, |one| one.0)
}

fn of_time(time: TimeMs, name: &str, argument: Option<&Value>) -> Value {
    let date = time.date();
    let (hour, minute, second) = date.clock();
    let at = |ms| Value::Time(TimeMs(ms));
    let other = argument.and_then(Value::as_time).unwrap_or(time);
    let ns = nanoseconds(argument);
    match name {
        "Unix" => Value::Int64(time.0.div_euclid(1000)),
        "UnixMilli" => Value::Int64(time.0),
        "UnixMicro" => Value::Int64(time.0.saturating_mul(1000)),
        "UnixNano" => Value::Int64(time.0.saturating_mul(1_000_000)),
        "Year" => Value::Int(date.year),
        "Month" => Value::Month(date.month()),
        "Day" => Value::Int(date.day()),
        "Hour" => Value::Int(hour),
        "Minute" => Value::Int(minute),
        "Second" => Value::Int(second),
        "Nanosecond" => Value::Int(time.millisecond() * 1_000_000),
        "Weekday" => Value::Weekday(date.weekday()),
        "YearDay" => Value::Int(date.day_of_year()),
        "UTC" | "Local" => at(time.0),
        "IsZero" => Value::Bool(false),
        "Format" => Value::text(time.format(argument.and_then(Value::as_str).unwrap_or_default())),
        "Add" => at(time.0.saturating_add(ns / 1_000_000)),
        "Truncate" => at(truncated(time.0, ns / 1_000_000)),
        "Sub" => duration(time.0.saturating_sub(other.0).saturating_mul(1_000_000)),
        "Before" => Value::Bool(time < other),
        "After" => Value::Bool(time > other),
        "Equal" => Value::Bool(time == other),
        _ => Value::text(time.show()),
    }
}

/// Rounds down to a multiple since the first of January of the year 1, where Go's times begin.
fn truncated(ms: i64, multiple_ms: i64) -> i64 {
    const BEGIN_MS: i64 = -62_135_596_800_000;
    if multiple_ms <= 0 {
        return ms;
    }
    ms - ms.saturating_sub(BEGIN_MS).rem_euclid(multiple_ms)
}

#[expect(clippy::cast_precision_loss, reason = "as in Go")]
fn of_duration(DurationNs(ns): DurationNs, name: &str, argument: Option<&Value>) -> Value {
    let multiple = nanoseconds(argument);
    let parts = |unit: i64| (ns / unit) as f64 + (ns % unit) as f64 / unit as f64;
    match name {
        "Hours" => Value::Float(parts(3_600_000_000_000)),
        "Minutes" => Value::Float(parts(60_000_000_000)),
        "Seconds" => Value::Float(parts(1_000_000_000)),
        "Milliseconds" => Value::Int64(ns / 1_000_000),
        "Microseconds" => Value::Int64(ns / 1000),
        "Nanoseconds" => Value::Int64(ns),
        "Abs" => duration(ns.saturating_abs()),
        "Truncate" | "Round" if multiple <= 0 => duration(ns),
        "Truncate" => duration(ns - ns % multiple),
        "Round" => {
            let rest = ns % multiple;
            let down = ns - rest;
            let away = down.saturating_add(multiple * ns.signum());
            duration(if rest.abs() < multiple - rest.abs() {
                down
            } else {
                away
            })
        }
        _ => Value::text(DurationNs(ns).show()),
    }
}
