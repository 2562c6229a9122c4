//! Parses scripts into commands.
//!
//! **Invariant:** commands come in file order with their first line; an evaluation with invalid expectations is kept,
//! with the reason, so that it counts as failed.

use super::series::{Limits, SeriesValue, end_of_metric, parse_series_within, times};
use narthex_model::{LabelSet, duration};
use regex::Regex;
use std::{fmt, sync::LazyLock};

/// The error for an invalid script.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}

/// One command.
pub(super) enum Command {
    Clear,
    Load(Load),
    Eval(Box<Eval>),
    /// An invalid evaluation.
    Broken {
        line: usize,
        query: String,
        reason: String,
    },
}

/// Samples to store.
pub(super) struct Load {
    pub(super) line: usize,
    pub(super) step_ms: i64,
    pub(super) with_nhcb: bool,
    pub(super) series: Vec<LoadedSeries>,
}

pub(super) struct LoadedSeries {
    pub(super) labels: LabelSet,
    pub(super) values: Vec<SeriesValue>,
    /// Start times relative to each sample, if given.
    pub(super) starts_ms: Vec<Option<i64>>,
}

/// A query with its expectations.
pub(super) struct Eval {
    pub(super) line: usize,
    pub(super) query: String,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) step_ms: i64,
    pub(super) is_range: bool,
    /// Evaluation time of an instant query.
    pub(super) time_ms: i64,
    pub(super) expect: Expect,
}

#[derive(Default)]
pub(super) struct Expect {
    pub(super) fail: Option<Text>,
    pub(super) ordered: bool,
    pub(super) warn: Vec<Text>,
    pub(super) info: Vec<Text>,
    pub(super) no_warn: bool,
    pub(super) no_info: bool,
    pub(super) string: Option<String>,
    pub(super) scalar: Option<f64>,
    pub(super) series: Vec<(LabelSet, Vec<SeriesValue>)>,
    /// Whether the query cannot be run as a range query.
    pub(super) instant_only: bool,
}

/// An expected text.
pub(super) enum Text {
    Any,
    Exactly(String),
    Pattern(Regex),
}

impl Text {
    fn pattern(text: &str, room: &mut Limits) -> Result<Self, String> {
        let text = text.trim();
        room.pattern(text)?;
        // The compiled size is bounded by the remaining room.
        let size_limit = room.pattern_bytes.saturating_mul(64).min(10 << 20);
        let compiled = regex::RegexBuilder::new(text)
            .size_limit(size_limit)
            .build();
        compiled.map(Self::Pattern).map_err(|e| e.to_string())
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => wanted == text,
            Self::Pattern(pattern) => pattern.is_match(text),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Exactly(text) => write!(f, "{text:?}"),
            Self::Pattern(pattern) => write!(f, "/{pattern}/"),
        }
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant")
}

static LOAD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^load(?:_(with_nhcb))?\s+(.+?)$"));
static INSTANT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(.+?))?\s+(.+)$")
});
static RANGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^eval(?:_(fail|warn|info))?\s+range\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+?)\s+(.+)$")
});
static EXPECT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^expect\s+(ordered|fail|warn|no_warn|info|no_info)(?:\s+(regex|msg):(.+))?$")
});
static EXPECT_RANGE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^expect range vector\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+)$"));

/// Parses a script that expands to at most `room`.
pub(super) fn parse(script: &str, room: &mut Limits) -> Result<Vec<Command>, ScriptError> {
    let lines: Vec<&str> = script
        .lines()
        .map(|line| {
            let line = line.trim();
            if line.starts_with('#') { "" } else { line }
        })
        .collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let word = line
            .split([' ', '\t'])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let fail = |message: String| ScriptError {
            line: at + 1,
            message,
        };
        if word.is_empty() {
            at += 1;
            continue;
        }
        let block = lines[at..]
            .iter()
            .position(|line| line.is_empty())
            .map_or(lines.len(), |n| at + n);
        if word == "clear" {
            commands.push(Command::Clear);
            at += 1;
            continue;
        }
        if word.starts_with("load") {
            commands.push(Command::Load(
                load(at + 1, line, &lines[at + 1..block], room).map_err(fail)?,
            ));
        } else if word.starts_with("eval") {
            let (eval, used) = eval(at + 1, line, &lines[at + 1..block], room);
            commands.push(eval);
            at += 1 + used;
            continue;
        } else {
            return Err(fail(format!("invalid command {line:?}")));
        }
        at = block;
    }
    Ok(commands)
}

fn load(line: usize, command: &str, lines: &[&str], room: &mut Limits) -> Result<Load, String> {
    let parts = LOAD
        .captures(command)
        .ok_or("invalid load command. (load[_with_nhcb] <step:duration>)")?;
    let step_ms = time(&parts[2])?;
    let mut series: Vec<LoadedSeries> = Vec::new();
    let mut pending: Option<(LabelSet, Vec<Option<i64>>)> = None;
    for text in lines {
        if let Some(starts) = start_times(text, room)? {
            pending = Some(starts);
            continue;
        }
        let (labels, values) = parse_series_within(text, room)?;
        let mut starts_ms = Vec::new();
        if let Some((of, starts)) = pending.take() {
            if of != labels || starts.len() != values.len() {
                return Err(format!(
                    "@st line does not fit the line behind it: {text:?}"
                ));
            }
            starts_ms = starts;
        }
        series.retain(|s| s.labels != labels);
        series.push(LoadedSeries {
            labels,
            values,
            starts_ms,
        });
    }
    Ok(Load {
        line,
        step_ms,
        with_nhcb: parts.get(1).is_some(),
        series,
    })
}

/// A series and the start times of its samples.
type StartTimes = (LabelSet, Vec<Option<i64>>);

/// Parses `metric{labels}@st <offsets>`; returns `None` for any other line.
fn start_times(line: &str, room: &mut Limits) -> Result<Option<StartTimes>, String> {
    let end = end_of_metric(line);
    let Some(items) = line[end..]
        .strip_prefix("@st")
        .filter(|rest| rest.starts_with([' ', '\t']))
    else {
        return Ok(None);
    };
    let labels = crate::parse::parse_metric_with(&line[..end], super::reference_options().parse)
        .map_err(|e| e.to_string())?;
    let mut starts = Vec::new();
    for item in items.split_whitespace() {
        if let Some(rest) = item.strip_prefix('_') {
            let count = if rest.is_empty() { 1 } else { times(rest)? };
            room.values(count, 0)?;
            starts.extend((0..count).map(|_| None));
            continue;
        }
        let (mut value, rest) = signed_time(item)?;
        if rest.is_empty() {
            room.values(1, 0)?;
            starts.push(Some(value));
            continue;
        }
        let (step, rest) = if rest.starts_with('x') {
            (0, rest)
        } else {
            signed_time(rest)?
        };
        let count = times(rest)?;
        room.values(count + 1, 0)?;
        for _ in 0..=count {
            starts.push(Some(value));
            value += step;
        }
    }
    Ok(Some((labels, starts)))
}

/// Splits a signed duration off the front.
fn signed_time(text: &str) -> Result<(i64, &str), String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let unit = unsigned[digits..].find(|c: char| !c.is_ascii_alphabetic() || c == 'x');
    let end = unit.map_or(unsigned.len(), |n| digits + n);
    let ms = time(&unsigned[..end])?;
    Ok((
        if text.starts_with('-') { -ms } else { ms },
        &unsigned[end..],
    ))
}

fn time(text: &str) -> Result<i64, String> {
    duration::parse(text).map_err(|e| e.to_string())
}

/// Parses an evaluation; also returns how many of `lines` belong to it.
fn eval(line: usize, command: &str, lines: &[&str], room: &mut Limits) -> (Command, usize) {
    let parsed = head(line, command).and_then(|(mut eval, word)| {
        let used = body(&mut eval, &word, lines, room)?;
        Ok((eval, used))
    });
    match parsed {
        Ok((eval, used)) => (Command::Eval(Box::new(eval)), used),
        Err(reason) => (
            Command::Broken {
                line,
                query: command.to_owned(),
                reason,
            },
            lines.len(),
        ),
    }
}

fn head(line: usize, command: &str) -> Result<(Eval, String), String> {
    let text = |part: Option<regex::Match<'_>>| part.map_or("", |part| part.as_str()).to_owned();
    if let Some(parts) = INSTANT.captures(command) {
        let time_ms = time(&text(parts.get(2)))?;
        let eval = Eval {
            line,
            query: parts[3].to_owned(),
            start_ms: time_ms,
            end_ms: time_ms,
            step_ms: 0,
            is_range: false,
            time_ms,
            expect: Expect::default(),
        };
        return Ok((eval, text(parts.get(1))));
    }
    let parts = RANGE
        .captures(command)
        .ok_or("invalid evaluation command")?;
    let start_ms = time(&parts[2])?;
    let eval = Eval {
        line,
        query: parts[5].to_owned(),
        start_ms,
        end_ms: time(&parts[3])?,
        step_ms: time(&parts[4])?,
        is_range: true,
        time_ms: start_ms,
        expect: Expect::default(),
    };
    Ok((eval, text(parts.get(1))))
}

fn body(eval: &mut Eval, word: &str, lines: &[&str], room: &mut Limits) -> Result<usize, String> {
    match word {
        "ordered" => eval.expect.ordered = true,
        "fail" => eval.expect.fail = Some(Text::Any),
        "warn" => eval.expect.warn.push(Text::Any),
        "info" => eval.expect.info.push(Text::Any),
        _ => {}
    }
    let mut range_vector = false;
    for (at, text) in lines.iter().enumerate() {
        if let Some(message) = text.strip_prefix("expected_fail_message") {
            eval.expect.fail = Some(Text::Exactly(message.trim().to_owned()));
            return Ok(at + 1);
        }
        if let Some(regex) = text.strip_prefix("expected_fail_regexp") {
            eval.expect.fail = Some(Text::pattern(regex, room)?);
            return Ok(at + 1);
        }
        if text.starts_with("expect range vector") {
            let parts = EXPECT_RANGE
                .captures(text)
                .ok_or("invalid range vector definition")?;
            (eval.start_ms, eval.end_ms, eval.step_ms) =
                (time(&parts[1])?, time(&parts[2])?, time(&parts[3])?);
            eval.time_ms = eval.end_ms;
            eval.expect.instant_only = true;
            range_vector = true;
            continue;
        }
        if let Some(literal) = text.strip_prefix("expect string") {
            let bytes = crate::lex::unquote(literal.trim_start()).map_err(|e| e.to_string())?;
            eval.expect.string = Some(String::from_utf8_lossy(&bytes).into_owned());
            eval.expect.instant_only = true;
            continue;
        }
        if text.split(' ').next() == Some("expect") {
            expectation(&mut eval.expect, text, room)?;
            continue;
        }
        if let Some(value) = lone_number(text) {
            eval.expect.scalar = Some(value);
            return Ok(at + 1);
        }
        let (labels, values) = parse_series_within(text, room)?;
        if values.len() > 1 && !eval.is_range && !range_vector {
            return Err("expecting multiple values in instant evaluation not allowed".to_owned());
        }
        eval.expect.series.retain(|(other, _)| *other != labels);
        eval.expect.series.push((labels, values));
    }
    Ok(lines.len())
}

fn lone_number(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let value = crate::fmt::parse_number(unsigned).ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

fn expectation(expect: &mut Expect, text: &str, room: &mut Limits) -> Result<(), String> {
    let parts = EXPECT.captures(text.trim()).ok_or(
        "invalid expect statement, must match `expect <type> <match_type>: <string>` format",
    )?;
    let wanted = match (parts.get(2).map(|m| m.as_str()), parts.get(3)) {
        (Some("msg"), Some(text)) => Text::Exactly(text.as_str().trim().to_owned()),
        (Some(_), Some(text)) => Text::pattern(text.as_str(), room)?,
        _ => Text::Any,
    };
    match &parts[1] {
        "ordered" => expect.ordered = true,
        "fail" => expect.fail = Some(wanted),
        "warn" => expect.warn.push(wanted),
        "info" => expect.info.push(wanted),
        "no_warn" => expect.no_warn = true,
        _ => expect.no_info = true,
    }
    Ok(())
}
