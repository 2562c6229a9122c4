//! Types of flag values.

use crate::{Bytes, ValueKind};
use narthex_model::duration;
use std::{ffi::OsStr, path::PathBuf, time::Duration};

/// A type of flag values.
pub trait Value: Sized {
    /// Kind of the flag.
    const KIND: ValueKind;
    /// Whether the flag may be given several times.
    const IS_REPEATABLE: bool = false;
    /// Whether the value may be missing.
    const IS_OPTIONAL: bool = false;
    /// Values that completion offers.
    const OFFERS: &'static [&'static str] = &[];

    /// Parses one value.
    ///
    /// # Errors
    /// Fails with the reason, the value included.
    fn parse(text: &OsStr) -> Result<Self, String>;

    /// Parses all given values; there is one, unless the type is repeatable or optional.
    ///
    /// # Errors
    /// Fails as [`Value::parse`].
    fn collect(given: &[&OsStr]) -> Result<Self, String> {
        Self::parse(given.last().copied().unwrap_or_default())
    }
}

fn utf8(text: &OsStr) -> Result<&str, String> {
    text.to_str().ok_or_else(|| format!("not UTF-8: {text:?}"))
}

impl Value for String {
    const KIND: ValueKind = ValueKind::Text;

    fn parse(text: &OsStr) -> Result<Self, String> {
        utf8(text).map(str::to_owned)
    }
}

impl Value for PathBuf {
    const KIND: ValueKind = ValueKind::File;

    fn parse(text: &OsStr) -> Result<Self, String> {
        Ok(text.into())
    }
}

impl Value for bool {
    const KIND: ValueKind = ValueKind::Switch;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = utf8(text)?;
        text.parse()
            .map_err(|_| format!("not true or false: {text:?}"))
    }
}

impl Value for u64 {
    const KIND: ValueKind = ValueKind::Count;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = utf8(text)?;
        text.parse()
            .map_err(|_| format!("not a whole number, 0 or more: {text:?}"))
    }
}

/// Greater numbers are the type's greatest.
impl Value for usize {
    const KIND: ValueKind = ValueKind::Count;

    fn parse(text: &OsStr) -> Result<Self, String> {
        u64::parse(text).map(|number| Self::try_from(number).unwrap_or(Self::MAX))
    }
}

/// Greater numbers are the type's greatest.
impl Value for u32 {
    const KIND: ValueKind = ValueKind::Count;

    fn parse(text: &OsStr) -> Result<Self, String> {
        u64::parse(text).map(|number| Self::try_from(number).unwrap_or(Self::MAX))
    }
}

impl Value for f64 {
    const KIND: ValueKind = ValueKind::Number;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = utf8(text)?;
        let number = text.parse().ok().filter(|number: &Self| number.is_finite());
        number.ok_or_else(|| format!("not a number: {text:?}"))
    }
}

impl Value for Bytes {
    const KIND: ValueKind = ValueKind::Bytes;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = utf8(text)?;
        Self::parse(text).ok_or_else(|| format!("not a size in bytes: {text:?}"))
    }
}

/// Prometheus' durations: `1h30m`, `15d`.
impl Value for Duration {
    const KIND: ValueKind = ValueKind::Duration;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let ms = duration::parse(utf8(text)?).map_err(|error| error.to_string())?;
        Ok(Self::from_millis(ms.unsigned_abs()))
    }
}

/// A duration in Go's format: `5s`, `1m0.5s`, `250ms`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GoDuration(pub Duration);

impl Value for GoDuration {
    const KIND: ValueKind = ValueKind::Duration;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = utf8(text)?;
        let parsed = go_duration(text).map(Self);
        parsed.ok_or_else(|| format!("not a duration: {text:?}"))
    }
}

fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut total, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = tail;
    }
    // Go counts nanoseconds in an i64.
    (!text.is_empty() && total < 9.2e9).then(|| Duration::from_secs_f64(total))
}

/// Names separated by commas, in one value or several.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct List(pub Vec<String>);

impl Value for List {
    const KIND: ValueKind = ValueKind::Text;
    const IS_REPEATABLE: bool = true;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let names = utf8(text)?.split(',').map(str::trim);
        let names = names.filter(|name| !name.is_empty());
        Ok(Self(names.map(str::to_owned).collect()))
    }

    fn collect(given: &[&OsStr]) -> Result<Self, String> {
        let lists: Result<Vec<Self>, String> = given.iter().map(|text| Self::parse(text)).collect();
        Ok(Self(lists?.into_iter().flat_map(|list| list.0).collect()))
    }
}

/// An empty value counts as absent.
impl<T: Value> Value for Option<T> {
    const KIND: ValueKind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn parse(text: &OsStr) -> Result<Self, String> {
        match text.is_empty() {
            true => Ok(None),
            false => T::parse(text).map(Some),
        }
    }
}

impl<T: Value> Value for Vec<T> {
    const KIND: ValueKind = T::KIND;
    const IS_REPEATABLE: bool = true;

    fn parse(text: &OsStr) -> Result<Self, String> {
        T::parse(text).map(|value| vec![value])
    }

    fn collect(given: &[&OsStr]) -> Result<Self, String> {
        given.iter().map(|text| T::parse(text)).collect()
    }
}
