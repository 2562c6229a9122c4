//! `label_replace` and `label_join`.
//!
//! **Invariant:** samples are not looked at; a new metric name cancels a pending removal of the old one.

use super::FunctionId;
use crate::{
    error::QueryError,
    eval::{META_LABELS, Series},
};
use narthex_model::METRIC_NAME;

/// What to do with a series' labels.
pub(crate) struct Change {
    target: String,
    how: How,
}

enum How {
    Replace {
        source: String,
        pattern: regex::Regex,
        template: Vec<Piece>,
    },
    Join {
        separator: String,
        sources: Vec<String>,
    },
}

/// A part of a replacement: text, or what a group of the pattern matched.
enum Piece {
    Text(String),
    Number(usize),
    Name(String),
}

impl Change {
    /// Takes the text arguments of a call; the plan has made sure that label names are some.
    pub(crate) fn new(id: FunctionId, texts: &[&str]) -> Result<Self, QueryError> {
        let fail = |text: String| Err(QueryError::Execution(text));
        let (target, how) = match (id, texts) {
            (FunctionId::LabelReplace, [target, template, source, pattern]) => {
                let Ok(compiled) = regex::Regex::new(&format!("^(?s:{pattern})$")) else {
                    return fail(format!(
                        "invalid regular expression in label_replace(): {pattern}"
                    ));
                };
                let source = (*source).to_owned();
                (
                    *target,
                    How::Replace {
                        source,
                        pattern: compiled,
                        template: pieces(template),
                    },
                )
            }
            (_, [target, separator, sources @ ..]) => {
                let sources = sources.iter().map(|&name| name.to_owned()).collect();
                (
                    *target,
                    How::Join {
                        separator: (*separator).to_owned(),
                        sources,
                    },
                )
            }
            _ => return fail("a label function lacks its arguments".to_owned()),
        };
        Ok(Self {
            target: target.to_owned(),
            how,
        })
    }

    pub(crate) fn apply(&self, series: &mut Series) {
        let labels = series.labels();
        let value = match &self.how {
            How::Replace {
                source,
                pattern,
                template,
            } => {
                let text = labels.get(source).unwrap_or_default();
                let Some(captures) = pattern.captures(text) else {
                    return;
                };
                expand(template, &captures)
            }
            How::Join { separator, sources } => {
                let values: Vec<&str> = sources
                    .iter()
                    .map(|name| labels.get(name).unwrap_or_default())
                    .collect();
                values.join(separator)
            }
        };
        let mut changed = Series::new(labels.with(&self.target, &value));
        changed.drop_name = series.drop_name && self.target != META_LABELS[0];
        debug_assert_eq!(META_LABELS[0], METRIC_NAME);
        *series = changed;
    }
}

/// Splits Go's template syntax: `$1`, `${1}`, `$name`, `${name}`, `$$`.
fn pieces(template: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].to_owned()));
        }
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix('$') {
            pieces.push(Piece::Text("$".to_owned()));
            rest = tail;
            continue;
        }
        let word = |text: &str| {
            text.len()
                - text
                    .trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
                    .len()
        };
        let (name, tail) = match rest.strip_prefix('{') {
            Some(inner) => {
                let end = word(inner);
                match inner[end..].strip_prefix('}') {
                    Some(tail) => (&inner[..end], tail),
                    None => ("", rest),
                }
            }
            None => rest.split_at(word(rest)),
        };
        if name.is_empty() {
            // Malformed: Go keeps the dollar sign as it is.
            pieces.push(Piece::Text("$".to_owned()));
            continue;
        }
        rest = tail;
        let digits =
            name.bytes().all(|b| b.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0'));
        pieces.push(match name.parse() {
            Ok(number) if digits => Piece::Number(number),
            _ => Piece::Name(name.to_owned()),
        });
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    pieces
}

fn expand(template: &[Piece], captures: &regex::Captures<'_>) -> String {
    let mut text = String::new();
    for piece in template {
        text.push_str(match piece {
            Piece::Text(text) => text,
            Piece::Number(number) => captures.get(*number).map_or("", |m| m.as_str()),
            Piece::Name(name) => captures.name(name).map_or("", |m| m.as_str()),
        });
    }
    text
}
