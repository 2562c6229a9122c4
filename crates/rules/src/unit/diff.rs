//! Differences between expected and actual alerts, as coloured JSON.
//!
//! **Invariant:** what is expected only is red, what was found only is green, a changed text yellow; without colours it
//! is JSON but for changed texts.

use super::ExpectedAlert;
use crate::file::Texts;
use narthex_promql::fmt::quote;
use std::{collections::BTreeSet, fmt::Write as _};

const GREEN: &str = "\u{1b}[0;32m";
const RED: &str = "\u{1b}[0;31m";
const YELLOW: &str = "\u{1b}[0;33m";
const PLAIN: &str = "\u{1b}[0m";

/// Compares alert by alert, both lists being sorted.
pub(super) fn alerts(expected: &[ExpectedAlert], got: &[ExpectedAlert]) -> String {
    let none = ExpectedAlert::default();
    // As in promtool, no alert at all is compared as one without labels.
    let count = expected.len().max(got.len());
    let mut out = "[\n".to_owned();
    for at in 0..count {
        let (wanted, found) = (expected.get(at), got.get(at));
        let colour = match (wanted, found) {
            (Some(_), None) if !got.is_empty() => Some(RED),
            (None, Some(_)) if !expected.is_empty() => Some(GREEN),
            _ => None,
        };
        let (wanted, found) = match colour {
            Some(_) => (wanted.or(found), found.or(wanted)),
            None => (wanted.or(Some(&none)), found.or(Some(&none))),
        };
        let (wanted, found) = (wanted.unwrap_or(&none), found.unwrap_or(&none));
        let mut text = "{\n".to_owned();
        texts(
            &mut text,
            "Annotations",
            &wanted.annotations,
            &found.annotations,
        );
        text.push_str(",\n");
        texts(&mut text, "Labels", &wanted.labels, &found.labels);
        text.push_str("\n}");
        if let Some(colour) = colour {
            text = format!("{colour}{text}{PLAIN}");
        }
        for line in text.lines() {
            let _ = writeln!(out, "    {line}");
        }
        if at + 1 < count {
            out.pop();
            out.push_str(",\n");
        }
    }
    out + "]"
}

fn texts(out: &mut String, key: &str, expected: &Texts, got: &Texts) {
    let names: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
    let _ = write!(out, "    {}: {{", quote(key));
    for (at, name) in names.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let key = quote(name);
        let _ = match (expected.get(*name), got.get(*name)) {
            (Some(wanted), Some(found)) if wanted == found => {
                write!(out, "{comma}\n        {key}: {}", quote(wanted))
            }
            (Some(wanted), Some(found)) => {
                let (wanted, found) = (quote(wanted), quote(found));
                write!(
                    out,
                    "{comma}\n        {key}: {YELLOW}{wanted} => {found}{PLAIN}"
                )
            }
            (Some(text), None) => {
                let text = quote(text);
                write!(out, "{comma}\n        {RED}{key}: {text}{PLAIN}")
            }
            (None, text) => {
                let text = quote(text.map_or("", |text| text));
                write!(out, "{comma}\n        {GREEN}{key}: {text}{PLAIN}")
            }
        };
    }
    let end = if names.is_empty() { "}" } else { "\n    }" };
    out.push_str(end);
}
