//! Flags of `narthex check`.

use super::{
    flags::{Flag, Kind, UsageError, Values},
    parse,
};
use crate::role::{
    check_config::CheckConfig, check_discovery::CheckDiscovery, check_server::CheckServer,
};
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
        "duplicate-rules",
        "What else to look for: all, duplicate-rules, too-long-scrape-interval or none, separated by commas. There are no rules.",
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

/// The flags of `check web-config`: none.
pub(crate) static WEB_CONFIG_FLAGS: &[Flag] = &[];

/// The flags of `check healthy` and `check ready`.
pub(crate) static SERVER_FLAGS: &[Flag] = &[
    Flag::new(
        "http.config.file",
        Kind::Text,
        "",
        "File of HTTP client settings to ask with.",
    ),
    Flag::new(
        "url",
        Kind::Text,
        "http://localhost:9090",
        "Where the server is.",
    ),
];

/// The flags of `check service-discovery`.
pub(crate) static DISCOVERY_FLAGS: &[Flag] = &[Flag::new(
    "timeout",
    Kind::Period,
    "30s",
    "How long to wait for what discovery finds; targets that are written down are there at once.",
)];

/// Reads the arguments behind `check web-config`.
///
/// # Errors
/// Fails on a flag, and without a file.
pub(crate) fn web_config(arguments: &[String]) -> Result<Vec<PathBuf>, UsageError> {
    let (_, files) = parse::parse_with_rest(WEB_CONFIG_FLAGS, arguments)?;
    if files.is_empty() {
        return Err(UsageError::Missing {
            what: "web-config-files",
        });
    }
    Ok(files.into_iter().map(PathBuf::from).collect())
}

/// Reads the arguments behind `check healthy` or `check ready`, which ask for `path`.
///
/// # Errors
/// Fails on the first argument that makes no sense.
pub(crate) fn server(path: &'static str, arguments: &[String]) -> Result<CheckServer, UsageError> {
    let values = parse::parse(SERVER_FLAGS, arguments)?;
    let http_config = last(&values, SERVER_FLAGS, "http.config.file");
    Ok(CheckServer {
        url: last(&values, SERVER_FLAGS, "url").to_owned(),
        path,
        http_config: (!http_config.is_empty()).then(|| http_config.into()),
    })
}

/// Reads the arguments behind `check service-discovery`.
///
/// # Errors
/// Fails on the first argument that makes no sense, and without a file and a job.
pub(crate) fn discovery(arguments: &[String]) -> Result<CheckDiscovery, UsageError> {
    let (values, rest) = parse::parse_with_rest(DISCOVERY_FLAGS, arguments)?;
    let mut rest = rest.into_iter();
    let (Some(file), Some(job)) = (rest.next(), rest.next()) else {
        return Err(UsageError::Missing {
            what: "config-file and job",
        });
    };
    if let Some(argument) = rest.next() {
        return Err(UsageError::Unexpected { argument });
    }
    let timeout_ms = duration::parse(last(&values, DISCOVERY_FLAGS, "timeout"));
    Ok(CheckDiscovery {
        file: file.into(),
        job,
        timeout: Duration::from_millis(timeout_ms.unwrap_or_default().unsigned_abs()),
    })
}

/// Returns the value of a flag: as given, or its default.
fn last<'a>(values: &'a Values, flags: &'static [Flag], name: &str) -> &'a str {
    let given = values.given.get(name).and_then(|given| given.last());
    let default = || flags.iter().find(|flag| flag.name == name);
    given.map_or_else(|| default().map_or("", |flag| flag.default), String::as_str)
}

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
    let last = |name: &str| last(&values, CONFIG_FLAGS, name);
    let lints = last("lint").split(',').map(str::trim);
    let (mut interval, mut none, mut unknown_lints) = (false, false, Vec::new());
    for lint in lints {
        match lint {
            "all" | "too-long-scrape-interval" => interval = true,
            "none" => none = true,
            // There are no rules to look at.
            "" | "duplicate-rules" => {}
            other => unknown_lints.push(other.to_owned()),
        }
    }
    if none {
        (interval, unknown_lints) = (false, Vec::new());
    }
    let delta_ms = duration::parse(last("query.lookback-delta")).unwrap_or_default();
    let delta = Duration::from_millis(delta_ms.unsigned_abs());
    Ok(CheckConfig {
        files: files.into_iter().map(PathBuf::from).collect(),
        syntax_only: last("syntax-only") == "true",
        unknown_lints,
        lookback_delta: interval.then_some(delta).filter(|delta| !delta.is_zero()),
        lint_fatal: last("lint-fatal") == "true",
    })
}
