//! `query`: the same samples and the same questions for several servers; how long answers take and whether they agree.
//!
//! **Invariant:** every server receives the same requests by remote write, in the same order, and is queried only when
//! it has all series. Answers are compared with the first server's; none is assumed to be right.

mod answers;
mod figures;
mod measure;
mod questions;

use super::prelude::*;
use crate::{
    harness::{usage, yaml},
    load::{Churn, DatasetConfig, POD_SERIES, fleet::now_ms},
};
use measure::Plan;
use narthex_cli::flags;
use std::{path::PathBuf, time::Duration};

pub(crate) static SCENARIO: Scenario = Scenario {
    name: "query",
    about: "The same samples in each server, and the same questions: latencies, memory, and whether answers agree.",
    flags: &[Servers::FLAGS, Flags::FLAGS, Common::FLAGS],
    run,
};

flags! {
    /// What `query` takes.
    #[derive(Debug)]
    struct Flags {
        /// Series, a multiple of 50.
        series: usize = "series", default("100000"), within(POD_SERIES as i64, 50_000_000);
        /// Time the data covers.
        duration: Duration = "duration", default("1h");
        /// Time between two samples of a series.
        interval: Duration = "interval", default("30s");
        /// Share of the pods that are replaced by others, again and again: old series end, as many others begin.
        churn_share: f64 = "churn-share", default("0"), within(0, 1);
        /// Time between two replacements.
        churn_every: Duration = "churn-every", default("90s");
        /// List of queries. Default: bench/scenarios/queries-20.yml, which is built in.
        queries: Option<PathBuf> = "queries";
        /// How often each query is asked of a warm server.
        rounds: usize = "rounds", default("10"), within(1, 100_000);
        /// How often servers are killed, started again and asked once, cold.
        restarts: usize = "restarts", default("1"), within(0, 100);
        /// Ask as a dashboard does that is drawn again and again: each range ends a step later than the one before, and servers may use results that they keep.
        refresh: bool = "refresh";
    }
}

/// The data ends at a full hour, so that every run has the same boundaries of blocks and steps.
const END_MS: i64 = 3_600_000;

/// Measures every server.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = plan(values)?;
    let (servers, notes) = ServerSpec::chosen(values)?;
    let data = &plan.data;
    let title = format!(
        "{} queries over {} series with {} samples, one every {:?}{}",
        plan.questions.len(),
        data.series,
        data.samples(),
        data.interval,
        data.churn.map_or_else(String::new, |churn| {
            let every = data.interval * u32::try_from(churn.every).unwrap_or(u32::MAX);
            format!("; {} of the pods replaced every {every:?}", churn.share)
        })
    );
    let mut record = values.record(title, ServerSpec::subjects(&servers), notes);
    let what = match plan.refreshes {
        true => {
            "Each range ends a step later than the one before; Narthex and VictoriaMetrics use the results that they keep."
        }
        false => {
            "Narthex and VictoriaMetrics keep results of range queries; they are asked not to use them."
        }
    };
    record.notes.push(what.to_owned());
    let each = Duration::from_secs_f64(20.0 + data.samples() as f64 * 3e-6);
    let mut asked = vec![None; servers.len()];
    for_each_turn(values, &servers, 1, each, |turn, server, progress| {
        let measured = measure::run(&plan, server, progress)?;
        let mut add = |phase, round, written| {
            let run = figures::run(&plan, phase, round, written);
            record.runs.push(run.for_turn(turn));
        };
        add("warm", &measured.warm, Some(&measured.written));
        if let Some(cold) = &measured.cold {
            add("cold", cold, None);
        }
        asked[turn.subject].get_or_insert(measured.answers);
        Ok(())
    })?;
    let asked: Vec<_> = asked.into_iter().flatten().collect();
    let labels: Vec<&str> = servers.iter().map(|server| server.label.as_str()).collect();
    record.differences = figures::agreement(&plan, &labels, &asked);
    Ok(record)
}

fn plan(values: &Values) -> Result<Plan, BenchError> {
    let flags = values.read(Flags::from_values)?;
    if !flags.series.is_multiple_of(POD_SERIES) {
        let what = format!("{} is not a multiple of {POD_SERIES}", flags.series);
        return Err(values.wrong("series", what));
    }
    let data = DatasetConfig {
        series: flags.series,
        duration: flags.duration,
        interval: flags.interval,
        seed: values.get("seed")?,
        end_ms: now_ms().div_euclid(END_MS) * END_MS,
        churn: (flags.churn_share > 0.0).then(|| Churn {
            share: flags.churn_share,
            every: (flags.churn_every.as_millis() / flags.interval.as_millis().max(1)) as u64,
        }),
    };
    if data.churn.is_some_and(|churn| churn.every < 2) {
        return Err(values.wrong("churn-every", "at least two intervals"));
    }
    if data.interval < Duration::from_secs(1) || data.duration < data.interval {
        return Err(usage(
            "--interval is at least 1s, and --duration at least one interval",
        ));
    }
    let read = |path: &PathBuf| {
        let wrong = |e| values.wrong("queries", format!("{}: {e}", path.display()));
        yaml::read_file(path).map_err(wrong)
    };
    let queries = flags.queries.filter(|path| !path.as_os_str().is_empty());
    let text = queries.as_ref().map(read).transpose()?;
    let file = queries.unwrap_or_default().display().to_string();
    Ok(Plan {
        data,
        questions: questions::read(text.as_deref(), &file)?,
        rounds: flags.rounds,
        restarts: flags.restarts,
        refreshes: flags.refresh,
        base: values.dir()?,
    })
}
