//! Numbers, durations and times for people.
//!
//! **Invariant:** texts are those of Prometheus' functions of the same names.

use super::{
    number::{float, parse},
    time::TimeMs,
    value::Value,
};
use narthex_model::{duration as periods, histogram::format_g};

/// Returns the number that a value is, or that its text means.
pub(super) fn number(value: &Value) -> Result<f64, String> {
    #[expect(clippy::cast_precision_loss, reason = "as in Go")]
    Ok(match value {
        Value::Float(value) => *value,
        Value::String(text) => return parse(text),
        Value::Int(value) | Value::Int64(value) => *value as f64,
        Value::Duration(duration) => {
            let (seconds, rest) = (duration.0 / 1_000_000_000, duration.0 % 1_000_000_000);
            seconds as f64 + rest as f64 / 1e9
        }
        other => return Err(format!("can't convert {} to float", other.type_name())),
    })
}

/// `%.4g`
fn short(value: f64) -> String {
    float(value, 'g', Some(4))
}

const SMALL: [&str; 8] = ["m", "u", "n", "p", "f", "a", "z", "y"];

/// Divides or multiplies by 1000 as long as that brings the number nearer to one.
pub(super) fn thousands(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return short(value);
    }
    if value.abs() < 1.0 {
        return small(value);
    }
    large(value, 1000.0, &["k", "M", "G", "T", "P", "E", "Z", "Y"])
}

pub(super) fn powers_of_1024(value: f64) -> String {
    if value.abs() <= 1.0 || !value.is_finite() {
        return short(value);
    }
    large(
        value,
        1024.0,
        &["ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"],
    )
}

fn large(mut value: f64, base: f64, prefixes: &[&str]) -> String {
    let mut prefix = "";
    for next in prefixes {
        if value.abs() < base {
            break;
        }
        prefix = next;
        value /= base;
    }
    format!("{}{prefix}", short(value))
}

fn small(mut value: f64) -> String {
    let mut prefix = "";
    for next in SMALL {
        if value.abs() >= 1.0 {
            break;
        }
        prefix = next;
        value *= 1000.0;
    }
    format!("{}{prefix}", short(value))
}

/// Formats seconds: `1d 2h 3m 4s`, `1.234s`, `12ms`.
pub(super) fn duration(value: f64) -> String {
    if !value.is_finite() {
        return short(value);
    }
    if value == 0.0 {
        return format!("{}s", short(value));
    }
    if value.abs() < 1.0 {
        return format!("{}s", small(value));
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let value = value.abs();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what Go leaves open saturates"
    )]
    let whole = value as i64;
    let (seconds, minutes, hours) = (whole % 60, whole / 60 % 60, whole / 3600 % 24);
    match (whole / 86_400, hours, minutes) {
        (0, 0, 0) => format!("{sign}{}s", short(value)),
        (0, 0, _) => format!("{sign}{minutes}m {seconds}s"),
        (0, ..) => format!("{sign}{hours}h {minutes}m {seconds}s"),
        (days, ..) => format!("{sign}{days}d {hours}h {minutes}m {seconds}s"),
    }
}

pub(super) fn percentage(value: f64) -> String {
    format!("{}%", short(value * 100.0))
}

pub(super) fn timestamp(value: f64) -> Result<String, String> {
    if !value.is_finite() {
        return Ok(short(value));
    }
    time(value).map(TimeMs::show)
}

/// Returns the time that seconds since the epoch mean.
pub(super) fn time(value: f64) -> Result<TimeMs, String> {
    if !value.is_finite() {
        return Err("value is NaN or Inf".to_owned());
    }
    let ns = value * 1e9;
    #[expect(clippy::cast_precision_loss, reason = "as in Go")]
    if ns > i64::MAX as f64 || ns < i64::MIN as f64 {
        return Err(format!(
            "{} cannot be represented as a nanoseconds timestamp since it overflows int64",
            format_g(value)
        ));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
    let ns = ns as i64;
    Ok(TimeMs(ns / 1_000_000))
}

/// Returns the seconds of one of Prometheus' durations, which may be negative.
pub(super) fn parse_duration(text: &str) -> Result<f64, String> {
    let (sign, bare) = match text.strip_prefix('-') {
        Some(bare) => (-1.0, bare),
        None => (1.0, text),
    };
    let ms = periods::parse(bare).map_err(|error| error.to_string())?;
    #[expect(clippy::cast_precision_loss, reason = "as in Go")]
    Ok(sign * ms as f64 / 1000.0)
}
