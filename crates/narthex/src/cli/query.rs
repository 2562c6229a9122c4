//! Flags of `narthex query`, which are promtool's and some more.

use crate::role::query::{Ask, Format, QueryCommand, Times};
use narthex_cli::{UsageError, Value, ValueKind, Values, flags};
use narthex_model::date::parse_time;
use std::{ffi::OsStr, path::PathBuf, time::Duration};

const FORMATS: &[&str] = &["table", "plot", "promql", "json", "csv"];

flags! {
    /// What all commands take that ask a server.
    pub(crate) struct AskFlags {
        /// Output: table, plot, promql, json or csv. By default a table or, for a range, a plot on a terminal, and promql
        /// elsewhere.
        format: Option<String> = "format", short("o"), offers(FORMATS);
        /// File with HTTP client settings.
        http_config: Option<PathBuf> = "http.config.file";
        /// Header to send, NAME=VALUE; may be repeated.
        headers: Vec<String> = "header", value("NAME=VALUE");
        /// Longest time for a request.
        timeout: Duration = "timeout", default("2m");
    }
}

flags! {
    /// What `query instant` takes.
    pub(crate) struct InstantFlags {
        /// Evaluation time: RFC 3339, seconds since 1970, or -1h for an hour ago; by default now.
        time: Option<Moment> = "time", value("TIME");
        /// URL of a server, or a data directory that no server has open.
        server: String = "server", positional();
        /// The query.
        query: String = "expr", positional();
    }
}

flags! {
    /// What `query range` takes.
    pub(crate) struct RangeFlags {
        /// First evaluation time, as for --end; by default five minutes before the end.
        start: Option<Moment> = "start", value("TIME");
        /// Last evaluation time: RFC 3339, seconds since 1970, or -1h for an hour ago; by default now.
        end: Option<Moment> = "end", value("TIME");
        /// Time between evaluations; by default the range has 250 of them.
        step: Option<Duration> = "step";
        /// URL of a server, or a data directory that no server has open.
        server: String = "server", positional();
        /// The query.
        query: String = "expr", positional();
    }
}

flags! {
    /// What `query series` takes.
    pub(crate) struct SeriesFlags {
        /// Series selector; may be repeated.
        matches: Vec<String> = "match", value("SELECTOR");
        /// First time: RFC 3339, seconds since 1970, or -1h for an hour ago.
        start: Option<Moment> = "start", value("TIME");
        /// Last time.
        end: Option<Moment> = "end", value("TIME");
        /// URL of a server, or a data directory that no server has open.
        server: String = "server", positional();
    }
}

flags! {
    /// What `query labels` takes.
    pub(crate) struct LabelsFlags {
        /// Series selector; may be repeated.
        matches: Vec<String> = "match", value("SELECTOR");
        /// First time: RFC 3339, seconds since 1970, or -1h for an hour ago.
        start: Option<Moment> = "start", value("TIME");
        /// Last time.
        end: Option<Moment> = "end", value("TIME");
        /// URL of a server, or a data directory that no server has open.
        server: String = "server", positional();
        /// Label whose values are listed; without it, label names.
        name: Option<String> = "name", positional();
    }
}

flags! {
    /// What `query analyze` takes.
    pub(crate) struct AnalyzeFlags {
        /// URL of a server, or a data directory that no server has open.
        server: Option<String> = "server", value("URL");
        /// Type of metric: histogram.
        kind: Option<String> = "type", offers(&["histogram"]);
        /// How far back to look.
        duration: Duration = "duration", default("1h");
        /// Time to look back from: RFC 3339, seconds since 1970, or -1h for an hour ago; by default now.
        time: Option<Moment> = "time", value("TIME");
        /// Series selector; may be repeated.
        matches: Vec<String> = "match", value("SELECTOR");
    }
}

/// A time, or a time before now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moment {
    At(i64),
    Ago(i64),
}

impl Moment {
    /// Returns the time in milliseconds since the epoch.
    pub(crate) fn ms(self, now_ms: i64) -> i64 {
        match self {
            Self::At(ms) => ms,
            Self::Ago(ms) => now_ms.saturating_sub(ms),
        }
    }
}

impl Value for Moment {
    const KIND: ValueKind = ValueKind::Text;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = String::parse(text)?;
        if text == "now" {
            return Ok(Self::Ago(0));
        }
        if let Some(ms) = parse_time(&text) {
            return Ok(Self::At(ms));
        }
        let ago = text.strip_prefix("now").unwrap_or(&text).strip_prefix('-');
        let ago = ago.and_then(|text| narthex_model::duration::parse(text).ok());
        ago.map(Self::Ago)
            .ok_or_else(|| format!("cannot parse {text:?} to a valid timestamp"))
    }
}

/// Reads the values of `query instant`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn instant(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = InstantFlags::from_values(values.clone())?;
    let ask = Ask::Instant {
        query: flags.query,
        time: flags.time,
    };
    command(values, flags.server, ask)
}

/// Reads the values of `query range`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn range(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = RangeFlags::from_values(values.clone())?;
    let ask = Ask::Range {
        query: flags.query,
        times: Times {
            start: flags.start,
            end: flags.end,
        },
        step: flags.step,
    };
    command(values, flags.server, ask)
}

/// Reads the values of `query series`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn series(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = SeriesFlags::from_values(values.clone())?;
    if flags.matches.is_empty() {
        return Err(UsageError::Missing { what: "--match" });
    }
    let times = Times {
        start: flags.start,
        end: flags.end,
    };
    let matches = flags.matches;
    command(values, flags.server, Ask::Series { matches, times })
}

/// Reads the values of `query labels`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn labels(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = LabelsFlags::from_values(values.clone())?;
    let ask = Ask::Labels {
        name: flags.name,
        matches: flags.matches,
        times: Times {
            start: flags.start,
            end: flags.end,
        },
    };
    command(values, flags.server, ask)
}

/// Reads the values of `query analyze`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn analyze(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = AnalyzeFlags::from_values(values.clone())?;
    let missing = |what| UsageError::Missing { what };
    let server = flags.server.ok_or(missing("--server"))?;
    match flags.kind.ok_or(missing("--type"))?.as_str() {
        "histogram" if flags.matches.is_empty() => return Err(missing("--match")),
        "histogram" => {}
        other => {
            return Err(UsageError::Value {
                flag: "--type".to_owned(),
                reason: format!("analyze type is {other}, must be 'histogram'"),
            });
        }
    }
    let ask = Ask::Analyze {
        matches: flags.matches,
        duration: flags.duration,
        time: flags.time,
    };
    command(values, server, ask)
}

fn command(values: Values, server: String, ask: Ask) -> Result<QueryCommand, UsageError> {
    let flags = AskFlags::from_values(values)?;
    let format = match flags.format.as_deref() {
        None => None,
        Some("table") => Some(Format::Table),
        Some("plot") => Some(Format::Plot),
        Some("promql") => Some(Format::Promql),
        Some("json") => Some(Format::Json),
        Some("csv") => Some(Format::Csv),
        Some(other) => {
            return Err(UsageError::Value {
                flag: "--format".to_owned(),
                reason: format!(
                    "enum value must be one of {}, got '{other}'",
                    FORMATS.join(",")
                ),
            });
        }
    };
    let header = |text: &String| {
        let pair = text.split_once(['=', ':']);
        let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| UsageError::Value {
            flag: "--header".to_owned(),
            reason: format!("expected KEY=VALUE got '{text}'"),
        })
    };
    Ok(QueryCommand {
        server,
        ask,
        format,
        http_config: flags.http_config,
        headers: flags.headers.iter().map(header).collect::<Result<_, _>>()?,
        timeout: flags.timeout,
    })
}
