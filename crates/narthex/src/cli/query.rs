//! Flags of `narthex query`, which are promtool's and some more.

use narthex_cli::{UsageError, Value, ValueKind, Values, flags};
use narthex_model::date::parse_time;
use std::{ffi::OsStr, path::PathBuf, time::Duration};

/// How an answer is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    Table,
    Plot,
    Promql,
    Json,
    Csv,
}

const FORMATS: [(&str, Format); 5] = [
    ("table", Format::Table),
    ("plot", Format::Plot),
    ("promql", Format::Promql),
    ("json", Format::Json),
    ("csv", Format::Csv),
];

impl Value for Format {
    const KIND: ValueKind = ValueKind::Text;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = String::parse(text)?;
        let found = FORMATS.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names = FORMATS.map(|(name, _)| name).join(",");
            format!("enum value must be one of {names}, got '{text}'")
        })
    }
}

/// A header to send.
#[derive(Debug)]
pub(crate) struct Header(pub(crate) String, pub(crate) String);

impl Value for Header {
    const KIND: ValueKind = ValueKind::Text;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = String::parse(text)?;
        match text.split_once(['=', ':']) {
            Some((name, value)) => Ok(Self(name.to_owned(), value.to_owned())),
            None => Err(format!("expected KEY=VALUE got '{text}'")),
        }
    }
}

flags! {
    /// What all commands take that ask a server.
    #[derive(Debug)]
    pub(crate) struct AskFlags {
        /// Output: table, plot, promql, json or csv. By default a table or, for a range, a plot on a terminal, and promql
        /// elsewhere.
        format: Option<Format> = "format", short("o"), offers(&["table", "plot", "promql", "json", "csv"]);
        /// File with HTTP client settings.
        http_config: Option<PathBuf> = "http.config.file";
        /// Header to send, NAME=VALUE; may be repeated.
        headers: Vec<Header> = "header", value("NAME=VALUE");
        /// Longest time for a request.
        timeout: Duration = "timeout", default("2m");
    }
}

flags! {
    /// What `query instant` takes.
    #[derive(Debug)]
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
    #[derive(Debug)]
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
    #[derive(Debug)]
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
    #[derive(Debug)]
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
    #[derive(Debug)]
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

/// What to ask, with what that takes.
#[derive(Debug)]
pub(crate) enum Ask {
    Instant(InstantFlags),
    Range(RangeFlags),
    Series(SeriesFlags),
    Labels(LabelsFlags),
    Analyze(AnalyzeFlags),
}

/// What to ask, whom, and how to show it.
#[derive(Debug)]
pub(crate) struct QueryCommand {
    /// URL, or a data directory.
    pub(crate) server: String,
    pub(crate) ask: Ask,
    pub(crate) flags: AskFlags,
}

impl QueryCommand {
    fn new(values: Values, server: String, ask: Ask) -> Result<Self, UsageError> {
        let flags = AskFlags::from_values(values)?;
        Ok(Self { server, ask, flags })
    }
}

/// Reads the values of `query instant`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn instant(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = InstantFlags::from_values(values.clone())?;
    QueryCommand::new(values, flags.server.clone(), Ask::Instant(flags))
}

/// Reads the values of `query range`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn range(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = RangeFlags::from_values(values.clone())?;
    QueryCommand::new(values, flags.server.clone(), Ask::Range(flags))
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
    QueryCommand::new(values, flags.server.clone(), Ask::Series(flags))
}

/// Reads the values of `query labels`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn labels(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = LabelsFlags::from_values(values.clone())?;
    QueryCommand::new(values, flags.server.clone(), Ask::Labels(flags))
}

/// Reads the values of `query analyze`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn analyze(values: Values) -> Result<QueryCommand, UsageError> {
    let flags = AnalyzeFlags::from_values(values.clone())?;
    let missing = |what| UsageError::Missing { what };
    let server = flags.server.clone().ok_or(missing("--server"))?;
    match flags.kind.as_deref().ok_or(missing("--type"))? {
        "histogram" if flags.matches.is_empty() => Err(missing("--match")),
        "histogram" => QueryCommand::new(values, server, Ask::Analyze(flags)),
        other => Err(UsageError::Value {
            flag: "--type".to_owned(),
            reason: format!("analyze type is {other}, must be 'histogram'"),
        }),
    }
}
