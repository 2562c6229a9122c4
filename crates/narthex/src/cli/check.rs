//! Flags of `narthex check`.

use super::{
    flags::{Flag, Kind, UsageError},
    parse,
};
use crate::role::check_config::CheckConfig;
use narthex_model::duration;
use std::{path::PathBuf, time::Duration};

const LATER: &str = "this version does not have it";

/// The flags of `check config`.
pub(crate) static CONFIG_FLAGS: &[Flag] = &[
    Flag::new(
        "syntax-only",
        Kind::Switch,
        "false",
        "Leave alone the files that the configuration names.",
    ),
    Flag::new(
        "lint",
        Kind::Text,
        "none",
        "What else to look for: all, none or too-long-scrape-interval, separated by commas.",
    ),
    Flag::new(
        "lint-fatal",
        Kind::Switch,
        "false",
        "Let what lint finds fail the check, with exit code 3.",
    ),
    Flag::new(
        "query.lookback-delta",
        Kind::Period,
        "5m",
        "How old the newest sample of a series may be to count; lint compares intervals with it.",
    ),
    Flag::no_effect(
        "ignore-unknown-fields",
        Kind::Switch,
        "it is about files of rules, which are not read",
    ),
    Flag::refused("agent", Kind::Switch, LATER),
];

/// The flags of `check metrics`.
pub(crate) static METRICS_FLAGS: &[Flag] = &[
    Flag::refused("extended", Kind::Switch, LATER),
    Flag::refused("lint", Kind::Text, LATER),
];

/// Reads the arguments behind `check config`.
///
/// # Errors
/// Fails on the first argument that makes no sense, and without a file.
pub(crate) fn config(arguments: &[String]) -> Result<CheckConfig, UsageError> {
    let (values, files) = parse::parse_with_rest(CONFIG_FLAGS, arguments)?;
    if files.is_empty() {
        return Err(UsageError::Missing {
            what: "config-files",
        });
    }
    let last = |name: &str| {
        let given = values.given.get(name).and_then(|given| given.last());
        let default = || CONFIG_FLAGS.iter().find(|flag| flag.name == name);
        given.map_or_else(|| default().map_or("", |flag| flag.default), String::as_str)
    };
    let lints = last("lint").split(',').map(str::trim);
    let mut interval = false;
    for lint in lints {
        match lint {
            "all" | "too-long-scrape-interval" => interval = true,
            // There are no rules to look at.
            "none" | "" | "duplicate-rules" => {}
            other => {
                return Err(UsageError::Value {
                    flag: "lint",
                    reason: format!("unknown lint option {other:?}"),
                });
            }
        }
    }
    let delta_ms = duration::parse(last("query.lookback-delta")).unwrap_or_default();
    let delta = Duration::from_millis(delta_ms.unsigned_abs());
    Ok(CheckConfig {
        files: files.into_iter().map(PathBuf::from).collect(),
        syntax_only: last("syntax-only") == "true",
        lookback_delta: interval.then_some(delta).filter(|delta| !delta.is_zero()),
        lint_fatal: last("lint-fatal") == "true",
    })
}
