//! Compares a tree with the tables: unknown keys, values of the wrong kind, unsupported keys.
//!
//! **Invariant:** a tree that passed `shape` can be read without checking kinds again.

use super::{
    ConfigError,
    access::{Access as _, parse_period, parse_size},
    keys::{Class, KeyKind, Section},
};
use narthex_yaml::{Node, Scalar, Value};

/// Checks that `node` has only the section's keys, each with a value of its kind.
///
/// # Errors
/// Fails at the first error, with its position.
pub(super) fn shape(node: &Node, section: &Section) -> Result<(), ConfigError> {
    let pairs = match &node.value {
        Value::Null => return Ok(()),
        Value::Map(pairs) => pairs,
        _ => return Err(misfit(node, section.name)),
    };
    for (word, value) in pairs {
        let Some(key) = section.key(&word.text) else {
            let message = format!("field {} not found in type {}", word.text, section.name);
            return Err(ConfigError::at(word.line, word.column, message));
        };
        kind(value, key.kind).map_err(|error| match error {
            // An error about the value itself names its type but not the key.
            ConfigError::At {
                line,
                column,
                message,
            } if !matches!(value.value, Value::Map(_))
                && (line, column) == (value.line, value.column) =>
            {
                ConfigError::at(line, column, format!("{}: {message}", key.name))
            }
            other => other,
        })?;
    }
    Ok(())
}

fn kind(node: &Node, expected: KeyKind) -> Result<(), ConfigError> {
    if node.is_null() {
        return Ok(());
    }
    match expected {
        KeyKind::Any => Ok(()),
        KeyKind::Section(section) => shape(node, section),
        KeyKind::Sections(section) => items(node)?
            .iter()
            .try_for_each(|item| shape(item, section)),
        KeyKind::Named(section) => values(node)?.try_for_each(|value| shape(value, section)),
        KeyKind::Texts | KeyKind::FlowTexts | KeyKind::Paths | KeyKind::Secrets => items(node)?
            .iter()
            .try_for_each(|item| text(item).map(drop)),
        KeyKind::Labels => values(node)?.try_for_each(|value| text(value).map(drop)),
        KeyKind::Params | KeyKind::SecretParams => {
            values(node)?.try_for_each(|value| kind(value, KeyKind::Texts))
        }
        KeyKind::Bool => scalar(node, "bool", |scalar| scalar.boolean().is_some()),
        KeyKind::Count => scalar(node, "uint64", |scalar| whole(scalar, 0)),
        KeyKind::Number => scalar(node, "int64", |scalar| whole(scalar, i128::from(i64::MIN))),
        KeyKind::Float => scalar(node, "float64", |scalar| {
            scalar.float().is_some() || scalar.integer().is_some()
        }),
        KeyKind::Period => parse_period(text(node)?)
            .map(drop)
            .map_err(|message| node.error(message)),
        KeyKind::Size => parse_size(text(node)?)
            .map(drop)
            .map_err(|message| node.error(message)),
        KeyKind::Text | KeyKind::Secret | KeyKind::Path | KeyKind::Url => text(node).map(drop),
    }
}

fn whole(scalar: &Scalar, least: i128) -> bool {
    scalar
        .integer()
        .is_some_and(|number| (least..=i128::from(u64::MAX)).contains(&number))
}

fn items(node: &Node) -> Result<&[Node], ConfigError> {
    match &node.value {
        Value::List(_) | Value::Null => Ok(node.list()),
        _ => Err(misfit(node, "a list")),
    }
}

fn values(node: &Node) -> Result<impl Iterator<Item = &Node>, ConfigError> {
    match &node.value {
        Value::Map(_) | Value::Null => Ok(node.entries().iter().map(|(_, value)| value)),
        _ => Err(misfit(node, "a map")),
    }
}

fn text(node: &Node) -> Result<&str, ConfigError> {
    match &node.value {
        Value::Scalar(scalar) => Ok(&scalar.text),
        Value::Null => Ok(""),
        _ => Err(misfit(node, "string")),
    }
}

fn scalar(
    node: &Node,
    kind: &str,
    accepts: impl FnOnce(&Scalar) -> bool,
) -> Result<(), ConfigError> {
    match node.scalar() {
        Some(scalar) if accepts(scalar) => Ok(()),
        _ => Err(misfit(node, kind)),
    }
}

fn misfit(node: &Node, kind: &str) -> ConfigError {
    node.error(format!("cannot unmarshal {} into {kind}", node.shown()))
}

/// Settings of a file that are not supported.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Unsupported {
    /// Accepted keys without effect, with the reason and the line.
    pub(super) without_effect: Vec<(String, &'static str, usize)>,
    /// The error about the first rejected key: line, column and message.
    refused: Option<(usize, usize, String)>,
    /// That about the first rejected key whose value is not checked.
    unchecked: Option<(usize, usize, String)>,
}

impl Unsupported {
    /// Collects the unsupported keys below `node`.
    pub(super) fn collect_from(node: &Node, section: &Section) -> Self {
        let mut unsupported = Self::default();
        unsupported.collect(node, section, "");
        unsupported
    }

    /// Fails if there is a rejected key.
    pub(super) fn refuse(&mut self) -> Result<(), ConfigError> {
        refuse(self.refused.take())
    }

    /// Fails if there is a rejected key whose value is not checked: later errors that follow from it would mislead.
    pub(super) fn refuse_unchecked(self) -> Result<(), ConfigError> {
        refuse(self.unchecked)
    }

    fn collect(&mut self, node: &Node, section: &Section, path: &str) {
        for (word, value) in node.entries() {
            let Some(key) = section.key(&word.text) else {
                continue;
            };
            let path = if path.is_empty() {
                word.text.clone()
            } else {
                format!("{path}.{}", word.text)
            };
            // Defaults and empty values ask for nothing.
            let written = value.line > 0 && !says_nothing(value);
            match key.class {
                Class::NoEffect(reason) if written => {
                    self.without_effect.push((path, reason, word.line));
                    continue;
                }
                Class::Refused(reason) if written => {
                    let message = format!("{path} is not supported: {reason}");
                    let error = (word.line, word.column, message);
                    if matches!(key.kind, KeyKind::Any) {
                        self.unchecked.get_or_insert_with(|| error.clone());
                    }
                    self.refused.get_or_insert(error);
                    continue;
                }
                _ => {}
            }
            let mut below = |inner, item| self.collect(item, inner, &path);
            match key.kind {
                KeyKind::Section(inner) => below(inner, value),
                KeyKind::Sections(inner) => value.list().iter().for_each(|item| below(inner, item)),
                KeyKind::Named(inner) => {
                    let items = value.entries().iter();
                    items.for_each(|(_, item)| below(inner, item));
                }
                _ => {}
            }
        }
    }
}

fn refuse(error: Option<(usize, usize, String)>) -> Result<(), ConfigError> {
    let error = error.map(|(line, column, message)| ConfigError::at(line, column, message));
    error.map_or(Ok(()), Err)
}

/// Reports whether a value means the same as an absent key.
fn says_nothing(node: &Node) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Scalar(scalar) => scalar.boolean() == Some(false) || scalar.text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(pairs) => pairs.iter().all(|(_, value)| says_nothing(value)),
    }
}
