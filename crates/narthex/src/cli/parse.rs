//! Arguments against a table of flags.
//!
//! ```text
//! ARGUMENT := '--' NAME | '--' NAME '=' VALUE | '--' NAME VALUE | '--no-' SWITCH | '@' FILE
//! ```
//! A single dash before a long name is taken too. A file holds one argument a line.

use super::flags::{Class, Flag, Kind, UsageError, Values};
use super::size::Bytes;
use narthex_model::duration;

/// Parses the arguments behind a command's name.
///
/// # Errors
/// Fails on the first argument that makes no sense.
pub(crate) fn parse(table: &'static [Flag], arguments: &[String]) -> Result<Values, UsageError> {
    let (values, rest) = parse_with_rest(table, arguments)?;
    match rest.into_iter().next() {
        Some(argument) => Err(UsageError::Unexpected { argument }),
        None => Ok(values),
    }
}

/// Parses the arguments behind a command's name; what is no flag comes back as it is.
///
/// # Errors
/// Fails on the first argument that makes no sense.
pub(crate) fn parse_with_rest(
    table: &'static [Flag],
    arguments: &[String],
) -> Result<(Values, Vec<String>), UsageError> {
    let mut values = Values::default();
    let mut others = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(long) = argument
            .strip_prefix("--")
            .or_else(|| argument.strip_prefix('-'))
        else {
            others.push(argument.clone());
            continue;
        };
        let (name, inline) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let (flag, on) = find(table, name).ok_or_else(|| unknown(table, name))?;
        let value = match flag.kind {
            Kind::Switch => inline.unwrap_or_else(|| on.to_string()),
            _ => match inline.or_else(|| rest.next().cloned()) {
                Some(value) => value,
                None => return Err(UsageError::NoValue { flag: flag.name }),
            },
        };
        take(flag, value, &mut values)?;
    }
    Ok((values, others))
}

fn find(table: &'static [Flag], name: &str) -> Option<(&'static Flag, bool)> {
    let named = |name: &str| table.iter().find(|flag| flag.name == name);
    if let Some(flag) = named(name) {
        return Some((flag, true));
    }
    let off = named(name.strip_prefix("no-")?)?;
    (off.kind == Kind::Switch).then_some((off, false))
}

fn take(flag: &'static Flag, value: String, values: &mut Values) -> Result<(), UsageError> {
    match flag.class {
        Class::Honoured => check(flag, &value)?,
        Class::NoEffect(reason) => {
            values.without_effect.push((flag.name, reason));
            return Ok(());
        }
        Class::Refused(reason) => {
            // Turning something off that is not there is no reason to refuse.
            if flag.kind == Kind::Switch && value == "false" {
                return Ok(());
            }
            return Err(UsageError::Refused {
                flag: flag.name,
                reason,
            });
        }
    }
    let given = values.given.entry(flag.name).or_default();
    if !given.is_empty() && flag.kind != Kind::Texts {
        return Err(UsageError::Repeated { flag: flag.name });
    }
    given.push(value);
    Ok(())
}

fn check(flag: &'static Flag, value: &str) -> Result<(), UsageError> {
    let fault = match flag.kind {
        Kind::Text | Kind::Texts => None,
        Kind::Switch => {
            (!matches!(value, "true" | "false")).then(|| format!("not true or false: {value:?}"))
        }
        Kind::Period => duration::parse(value).err().map(|error| error.to_string()),
        Kind::Bytes => Bytes::parse(value)
            .is_none()
            .then(|| format!("not a size in bytes: {value:?}")),
        Kind::Count => value
            .parse::<u64>()
            .is_err()
            .then(|| format!("not a whole number, 0 or more: {value:?}")),
    };
    fault.map_or(Ok(()), |reason| {
        Err(UsageError::Value {
            flag: flag.name,
            reason,
        })
    })
}

fn unknown(table: &'static [Flag], name: &str) -> UsageError {
    let nearest = table
        .iter()
        .map(|flag| (distance(flag.name, name), flag.name))
        .min();
    let similar = nearest
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, name)| name);
    UsageError::Unknown {
        flag: format!("--{name}"),
        similar,
    }
}

/// Levenshtein's distance.
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
