//! Checks on queries beyond types.
//!
//! **Invariant:** texts are Prometheus', which detects these errors during evaluation.

use super::Source;
use crate::{
    ast::{Expr, Extension},
    error::QueryError,
    fmt::quote_bytes,
    functions::FunctionId,
};

pub(super) fn check_extension(source: &Source, function: &str) -> Result<(), QueryError> {
    let Source::Window(window) = source else {
        return Ok(());
    };
    let (word, allowed): (_, &[&str]) = match window.select.extension {
        Extension::None => return Ok(()),
        Extension::Anchored => (
            "anchored",
            &["changes", "delta", "increase", "rate", "resets"],
        ),
        Extension::Smoothed => ("smoothed", &["delta", "increase", "rate"]),
    };
    if allowed.contains(&function) {
        return Ok(());
    }
    let allowed = allowed.join(", ");
    Err(QueryError::Execution(format!(
        "{word} modifier can only be used with: {allowed} - not with {function}"
    )))
}

/// Rejects a string argument that is not a valid label name; `say` receives it in quotes.
pub(super) fn check_label(
    arg: Option<&Expr>,
    say: impl Fn(String) -> String,
) -> Result<(), QueryError> {
    match arg.map(Expr::without_parens) {
        Some(Expr::String(s)) if s.value.is_empty() || std::str::from_utf8(&s.value).is_err() => {
            Err(QueryError::Execution(say(quote_bytes(&s.value))))
        }
        _ => Ok(()),
    }
}

/// Rejects invalid label names in the label functions.
pub(super) fn check_label_function(call: &crate::ast::Call) -> Result<(), QueryError> {
    let name = call.function.name;
    let sources = if call.function.id == FunctionId::LabelJoin {
        call.args.get(3..)
    } else {
        None
    };
    for source in sources.unwrap_or_default() {
        check_label(Some(source), |quoted| {
            format!("invalid source label name in {name}(): {quoted}")
        })?;
    }
    check_label(call.args.get(1), |quoted| {
        format!("invalid destination label name in {name}(): {quoted}")
    })
}
