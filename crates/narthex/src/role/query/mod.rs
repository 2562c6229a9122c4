//! `narthex query`: asks a server, or a data directory, and shows the answer to a person or a program.
//!
//! **Invariant:** the answer goes to standard output, everything else to standard error; progress only to a terminal.

mod analyze;
mod answer;
mod csv;
mod plot;
mod promql;
mod source;
mod table;
#[cfg(test)]
mod tests;
pub(super) mod text;

use crate::cli::{Ask, Format, Moment, QueryCommand, RangeFlags};
use answer::{Answer, Series};
use narthex_tsdb::{Clock as _, SystemClock};
use serde_json::Value as Json;
use source::Source;
use std::io::{self, Write};

/// Most steps of a range that are asked for at once; servers refuse more than 11,000.
const STEPS: i64 = 10_000;
/// Steps of a range without a step, as promtool has them.
const DEFAULT_STEPS: i64 = 250;

/// Where an answer goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Whether it is a terminal.
    pub(crate) is_terminal: bool,
    /// Whether colours are wanted.
    pub(crate) has_colours: bool,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Asks and shows the answer; returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn run(
    command: &QueryCommand,
    screen: Screen,
    out: &mut dyn Write,
    error: &mut (dyn Write + Send),
    error_is_terminal: bool,
) -> io::Result<u8> {
    let mut source = match Source::open(command) {
        Ok(source) => source,
        Err(reason) => return writeln!(error, "narthex: query: {reason}").map(|()| 1),
    };
    let mut progress = text::Progress::new(error, error_is_terminal);
    let outcome = ask(command, &mut source, screen, &mut progress);
    progress.clear();
    match outcome {
        Ok((text, warnings)) => {
            for warning in warnings {
                writeln!(error, "query warning: {warning}")?;
            }
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                _ => Ok(0),
            }
        }
        Err(reason) => writeln!(error, "query error: {reason}").map(|()| 1),
    }
}

/// Returns the answer as text, with its warnings.
fn ask(
    command: &QueryCommand,
    source: &mut Source,
    screen: Screen,
    progress: &mut text::Progress<'_>,
) -> Result<(String, Vec<String>), String> {
    let now_ms = SystemClock.now_ms();
    let usual = match (&command.ask, screen.is_terminal) {
        (_, false) => Format::Promql,
        (Ask::Range(_), true) => Format::Plot,
        (_, true) => Format::Table,
    };
    let format = command.flags.format.unwrap_or(usual);
    let ms = |time: Option<Moment>| time.map_or(now_ms, |time| time.ms(now_ms));
    let mut warnings = Vec::new();
    let shown = match &command.ask {
        Ask::Instant(flags) => {
            let time = text::seconds(ms(flags.time));
            let form = [("query", flags.query.clone()), ("time", time)];
            let data = progress.ask(source, "/api/v1/query", &form, &mut warnings)?;
            value(&data, format, screen)?
        }
        Ask::Range(flags) => {
            let range = Range::new(flags, now_ms)?;
            let data = range.ask(&flags.query, source, progress, &mut warnings)?;
            value(&data, format, screen)?
        }
        Ask::Series(flags) => {
            let form = listing(&flags.matches, [flags.start, flags.end], now_ms);
            let data = progress.ask(source, "/api/v1/series", &form, &mut warnings)?;
            let sets = answer::label_sets(&data)?;
            match format {
                Format::Json => text::json_line(&data),
                Format::Csv => csv::label_sets(&sets),
                Format::Table => table::label_sets(&sets, screen),
                Format::Promql | Format::Plot => promql::label_sets(&sets),
            }
        }
        Ask::Labels(flags) => {
            let path = match &flags.name {
                Some(name) => format!("/api/v1/label/{}/values", source::escape_name(name)),
                None => "/api/v1/labels".to_owned(),
            };
            let form = listing(&flags.matches, [flags.start, flags.end], now_ms);
            let data = progress.ask(source, &path, &form, &mut warnings)?;
            let values = answer::texts(&data)?;
            match format {
                Format::Json => text::json_line(&data),
                Format::Csv => csv::column(flags.name.as_deref().unwrap_or("name"), &values),
                _ => values.iter().map(|value| format!("{value}\n")).collect(),
            }
        }
        Ask::Analyze(flags) => analyze::histograms(&flags.matches, flags.duration, |query| {
            let form = [("query", query), ("time", text::seconds(ms(flags.time)))];
            progress.ask(source, "/api/v1/query", &form, &mut warnings)
        })?,
    };
    Ok((shown, warnings))
}

/// Shows a query's value.
fn value(data: &Json, format: Format, screen: Screen) -> Result<String, String> {
    if format == Format::Json {
        return Ok(text::json_line(&data["result"]));
    }
    let answer = Answer::read(data)?;
    Ok(match format {
        Format::Promql | Format::Json => promql::answer(&answer),
        Format::Csv => csv::answer(&answer),
        Format::Table => table::answer(&answer, screen),
        Format::Plot => plot::answer(&answer, screen),
    })
}

fn listing(
    matches: &[String],
    times: [Option<Moment>; 2],
    now_ms: i64,
) -> Vec<(&'static str, String)> {
    let times = ["start", "end"].into_iter().zip(times);
    let times = times.filter_map(|(name, time)| Some((name, text::seconds(time?.ms(now_ms)))));
    let matches = matches.iter().map(|text| ("match[]", text.clone()));
    times.chain(matches).collect()
}

/// Times of a range query.
struct Range {
    start_ms: i64,
    end_ms: i64,
    step_ms: i64,
}

impl Range {
    fn new(flags: &RangeFlags, now_ms: i64) -> Result<Self, String> {
        let ms = |time: Option<Moment>, default| time.map_or(default, |time| time.ms(now_ms));
        let end_ms = ms(flags.end, now_ms);
        let five_minutes = 5 * 60_000;
        let start_ms = ms(flags.start, end_ms - five_minutes);
        if start_ms >= end_ms {
            return Err("start time is not before end time".to_owned());
        }
        let whole_seconds = (end_ms - start_ms) / 1000 / DEFAULT_STEPS;
        let step_ms = match flags.step {
            Some(step) if !step.is_zero() => crate::storage::ms(step),
            _ => whole_seconds.max(1) * 1000,
        };
        Ok(Self {
            start_ms,
            end_ms,
            step_ms,
        })
    }

    /// Asks for a range, a long one in parts, and returns the whole answer.
    fn ask(
        &self,
        query: &str,
        source: &mut Source,
        progress: &mut text::Progress<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Json, String> {
        let steps = (self.end_ms - self.start_ms) / self.step_ms + 1;
        let parts = (steps + STEPS - 1) / STEPS;
        let mut whole: Option<Json> = None;
        for part in 0..parts {
            let first = part * STEPS;
            let last = (first + STEPS).min(steps) - 1;
            let time = |step: i64| text::seconds(self.start_ms + step * self.step_ms);
            let form = [
                ("query", query.to_owned()),
                ("start", time(first)),
                ("end", time(last)),
                ("step", text::seconds(self.step_ms)),
            ];
            if parts > 1 {
                progress.part(part + 1, parts);
            }
            let data = progress.ask(source, "/api/v1/query_range", &form, warnings)?;
            match &mut whole {
                None => whole = Some(data),
                Some(whole) => answer::append(whole, data),
            }
        }
        whole.ok_or_else(|| "the range has no steps".to_owned())
    }
}

/// Sorts series by their labels as a person reads them.
fn sorted(mut series: Vec<&Series>) -> Vec<&Series> {
    series.sort_by_cached_key(|series| promql::metric(&series.labels));
    series
}
