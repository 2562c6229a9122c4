//! Parses arguments by tables of flags.

use crate::{Class, Flag, Surroundings, UsageError, Value, ValueKind, expand::expand};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

/// The values that a command line gives, in its order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Values {
    flags: Vec<&'static Flag>,
    given: Vec<(&'static Flag, OsString)>,
    /// Given flags that have no effect, with the reason.
    pub without_effect: Vec<(&'static str, &'static str)>,
}

impl Values {
    /// Parses the arguments after a command's name.
    ///
    /// # Errors
    /// Fails on the first invalid argument; values are parsed later.
    pub fn parse(
        tables: &[&'static [Flag]],
        arguments: &[OsString],
        around: Surroundings<'_>,
    ) -> Result<Self, UsageError> {
        let arguments = expand(arguments, around.read)?;
        let mut values = Self {
            flags: tables.iter().copied().flatten().collect(),
            ..Self::default()
        };
        let places: Vec<_> = values.flags().filter(|flag| flag.is_positional).collect();
        let mut places = places.into_iter().peekable();
        let (mut rest, mut flags_ended) = (arguments.into_iter().peekable(), false);
        while let Some(argument) = rest.next() {
            if flags_ended || !is_flag(&argument) {
                let place = match places.peek() {
                    Some(flag) if flag.is_repeatable => Some(*flag),
                    _ => places.next(),
                };
                let flag = place.ok_or_else(|| UsageError::Unexpected {
                    argument: argument.to_string_lossy().into_owned(),
                })?;
                values.given.push((flag, argument));
                continue;
            }
            if argument == "--" {
                flags_ended = true;
                continue;
            }
            let (name, inline) = split(&argument);
            let name = name.to_string_lossy();
            if let Some((flag, value)) = lettered(&values, &argument, &name) {
                values.assign(flag, value.into())?;
                continue;
            }
            let (flag, on) = find(&values, &name).ok_or_else(|| unknown(&values, &name))?;
            let value = match (flag.kind, inline) {
                (_, Some(value)) => value.to_owned(),
                (ValueKind::Switch, None) => on.to_string().into(),
                (_, None) => rest
                    .next_if(|value| !is_flag(value))
                    .ok_or(UsageError::NoValue { flag: flag.name })?,
            };
            values.assign(flag, value)?;
        }
        let is_missing =
            |flag: &&Flag| flag.is_positional && !flag.is_optional && !values.is_given(flag.name);
        if let Some(flag) = values.flags().find(is_missing) {
            return Err(UsageError::Missing { what: flag.name });
        }
        Ok(values)
    }

    fn assign(&mut self, flag: &'static Flag, value: OsString) -> Result<(), UsageError> {
        match flag.class {
            Class::Honoured => {}
            Class::NoEffect(reason) => {
                self.without_effect.push((flag.name, reason));
                return Ok(());
            }
            // Turning off an unsupported feature is harmless.
            Class::Refused(_) if flag.kind == ValueKind::Switch && value == "false" => {
                return Ok(());
            }
            Class::Refused(reason) => {
                let flag = flag.name;
                return Err(UsageError::Refused { flag, reason });
            }
        }
        if self.is_given(flag.name) && !flag.is_repeatable {
            return Err(UsageError::Repeated { flag: flag.name });
        }
        self.given.push((flag, value));
        Ok(())
    }

    /// Adds a value from elsewhere, such as a file; it counts as given.
    pub fn add(&mut self, flag: &'static Flag, value: impl Into<OsString>) {
        self.given.push((flag, value.into()));
    }

    /// Returns the flag of that name.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<&'static Flag> {
        self.flags().find(|flag| flag.name == name)
    }

    /// Returns a flag's value: as given, or its default.
    ///
    /// # Errors
    /// Fails on a value that is not of the type, or outside the flag's range.
    ///
    /// # Panics
    /// Panics when the tables have no such flag.
    pub fn get<T: Value>(&self, name: &str) -> Result<T, UsageError> {
        let flag = self.flag(name).expect("a flag of the tables");
        let mut given: Vec<&OsStr> = self.all(name).collect();
        let has_default = !(flag.is_optional || flag.is_repeatable && flag.default.is_empty());
        if given.is_empty() && has_default {
            given.push(OsStr::new(flag.default));
        }
        let outside = given.iter().find_map(|text| outside(flag, text));
        let value = outside.map_or_else(|| T::collect(&given), Err);
        value.map_err(|reason| UsageError::Value {
            flag: if flag.is_positional {
                name.to_owned()
            } else {
                format!("--{name}")
            },
            reason,
        })
    }

    /// Returns whether a flag is given.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Lists the given flags and values, in their order.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        let given = self.given.iter();
        given.map(|(flag, value)| (flag.name, value.as_os_str()))
    }

    /// Lists the supported flags with the values in effect.
    #[must_use]
    pub fn in_effect(&self) -> Vec<(String, String)> {
        let is_refused = |flag: &&Flag| matches!(flag.class, Class::Refused(_));
        let shown = self.flags().filter(|flag| !is_refused(flag));
        let row = |flag: &'static Flag| {
            let given: Vec<_> = self.all(flag.name).map(OsStr::to_string_lossy).collect();
            let value = match given.is_empty() {
                true => flag.default.to_owned(),
                false => given.join(", "),
            };
            (flag.name.to_owned(), value)
        };
        shown.map(row).collect()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        let given = self.given.iter().filter(move |(flag, _)| flag.name == name);
        given.map(|(_, value)| value.as_os_str())
    }

    fn flags(&self) -> impl Iterator<Item = &'static Flag> {
        self.flags.iter().copied()
    }
}

/// Returns whether an argument is written like a flag; a single dash alone is not.
pub(crate) fn is_flag(argument: &OsStr) -> bool {
    argument.len() > 1 && argument.as_bytes().starts_with(b"-")
}

/// Returns the name of an argument written like a flag, and its value after `=`.
pub(crate) fn split(argument: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = argument.as_bytes();
    let long = bytes.strip_prefix(b"--").or(bytes.strip_prefix(b"-"));
    let long = long.unwrap_or(bytes);
    match long.iter().position(|byte| *byte == b'=') {
        Some(at) => (
            OsStr::from_bytes(&long[..at]),
            Some(OsStr::from_bytes(&long[at + 1..])),
        ),
        None => (OsStr::from_bytes(long), None),
    }
}

/// Returns why a number is not in its flag's range, if it is not.
fn outside(flag: &Flag, text: &OsStr) -> Option<String> {
    let (least, greatest) = flag.range?;
    let number = text.to_str().and_then(|text| text.parse::<f64>().ok());
    #[expect(clippy::cast_precision_loss, reason = "bounds are round numbers")]
    let is_inside = number.is_some_and(|n| (least as f64..=greatest as f64).contains(&n));
    (!is_inside && !text.is_empty())
        .then(|| format!("{text:?} is not a number from {least} to {greatest}"))
}

fn find(values: &Values, name: &str) -> Option<(&'static Flag, bool)> {
    let mut flags = values.flags().filter(|flag| !flag.is_positional);
    if let Some(flag) = flags.find(|flag| flag.name == name) {
        return Some((flag, true));
    }
    let mut letters = values.flags().filter(|flag| !flag.short.is_empty());
    if let Some(flag) = letters.find(|flag| flag.short == name) {
        return Some((flag, true));
    }
    let off = name.strip_prefix("no-")?;
    let mut switches = values.flags().filter(|flag| flag.kind == ValueKind::Switch);
    Some((switches.find(|flag| flag.name == off)?, false))
}

/// Returns the flag and the value of `-ojson`: a letter with its value right behind it.
fn lettered<'a>(
    values: &Values,
    argument: &'a OsStr,
    name: &str,
) -> Option<(&'static Flag, &'a str)> {
    if find(values, name).is_some() {
        return None;
    }
    let text = argument.to_str()?.strip_prefix('-')?;
    let mut letters = values.flags().filter(|flag| !flag.short.is_empty());
    let flag = letters.find(|flag| text.starts_with(flag.short))?;
    let value = text.strip_prefix(flag.short)?;
    Some((flag, value)).filter(|_| flag.kind != ValueKind::Switch && !value.is_empty())
}

fn unknown(values: &Values, name: &str) -> UsageError {
    let flags = values.flags().filter(|flag| !flag.is_positional);
    let nearest = flags
        .map(|flag| (distance(flag.name, name), flag.name))
        .min();
    UsageError::Unknown {
        flag: format!("--{name}"),
        similar: nearest
            .filter(|(distance, _)| *distance <= 3)
            .map(|(_, name)| name),
    }
}

/// Returns the Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
