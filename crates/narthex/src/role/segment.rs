//! `narthex segment`: lists, prints, watches and switches what other processes keep in shared memory.
//!
//! **Invariant:** only `switch` writes, and only the word of the metric it names. Nothing is taken over or removed.

use crate::cli::{DumpFlags, SegmentCommand, SwitchFlags, SwitchState, WatchFlags};
use narthex_expfmt::{Negotiated, Writer};
use narthex_model::{ColumnId, Frame, LabelSet};
use narthex_segment::{Pool, PoolOptions, list, set_switch};
use narthex_tsdb::{Clock as _, SystemClock};
use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    path::Path,
    time::Instant,
};

/// Nothing could be read, or there was nothing to switch.
const FAILED: u8 = 1;
/// Moves to the upper left corner of a terminal and clears it.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the command, and returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn run(
    command: &SegmentCommand,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    match command {
        SegmentCommand::List(flags) => show_list(&flags.dir, SystemClock.now_ms(), out, error),
        SegmentCommand::Dump(flags) => dump(flags, out, error),
        SegmentCommand::Watch(flags) => watch(flags, out, error),
        SegmentCommand::Switch(flags) => switch(flags, out, error),
    }
}

fn switch(flags: &SwitchFlags, out: &mut dyn Write, error: &mut dyn Write) -> io::Result<u8> {
    let SwitchFlags {
        dir,
        app,
        metric,
        state: SwitchState(is_on),
    } = flags;
    match set_switch(dir, app, metric, *is_on) {
        Ok(0) => {
            writeln!(error, "no segment of {app:?} has a metric {metric:?}")?;
            Ok(FAILED)
        }
        Ok(segments) => {
            let state = if *is_on { "on" } else { "off" };
            writeln!(out, "{metric} is {state} in {segments} segments")?;
            Ok(0)
        }
        Err(reason) => failed(dir, &reason, error),
    }
}

fn failed(path: &Path, reason: &dyn std::fmt::Display, error: &mut dyn Write) -> io::Result<u8> {
    writeln!(error, "{}: {reason}", path.display())?;
    Ok(FAILED)
}

fn show_list(
    dir: &Path,
    now_ms: i64,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    let (segments, bad) = match list(dir) {
        Ok(found) => found,
        Err(reason) => return failed(dir, &reason, error),
    };
    let mut rows = vec![
        [
            "APP", "WORKER", "PID", "STATE", "AGE", "METRICS", "OFF", "SERIES", "REFUSED", "BYTES",
        ]
        .map(str::to_owned),
    ];
    for segment in &segments {
        let off = segment.metrics.iter().filter(|metric| !metric.is_on);
        let series: usize = segment.metrics.iter().map(|metric| metric.series).sum();
        let age_s = (now_ms - segment.created_ms).max(0) / 1000;
        rows.push([
            segment.app.clone(),
            segment.worker.clone(),
            segment.pid.to_string(),
            if segment.is_live { "live" } else { "ended" }.to_owned(),
            format!("{age_s}s"),
            segment.metrics.len().to_string(),
            off.count().to_string(),
            series.to_string(),
            segment.refused.to_string(),
            segment.bytes.to_string(),
        ]);
    }
    table(&rows, out)?;
    let mut code = 0;
    for (path, reason) in &bad {
        code = failed(path, reason, error)?;
    }
    for segment in &segments {
        if let Some(problem) = &segment.problem {
            code = failed(&segment.path, problem, error)?;
        }
    }
    Ok(code)
}

/// Writes rows with aligned columns.
fn table<const N: usize>(rows: &[[String; N]], out: &mut dyn Write) -> io::Result<()> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|at| width(at).unwrap_or_default()).collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn pool(dir: &Path, by_worker: bool) -> Pool {
    let mut options = PoolOptions::default();
    options.dir = dir.to_owned();
    options.by_worker = by_worker;
    options.read_only = true;
    options.common = LabelSet::empty();
    Pool::new(options)
}

fn dump(flags: &DumpFlags, out: &mut dyn Write, error: &mut dyn Write) -> io::Result<u8> {
    let mut pool = pool(&flags.dir, flags.by_worker);
    let frame = match pool.collect(SystemClock.now_ms()) {
        Ok(frame) => frame,
        Err(reason) => return failed(&flags.dir, &reason, error),
    };
    let mut page = Vec::new();
    Writer::new(frame.schema(), Negotiated::default()).write(frame, &mut page);
    out.write_all(&page)?;
    let mut code = 0;
    for problem in pool.problems() {
        code = failed(&problem.path, &problem.reason, error)?;
    }
    Ok(code)
}

fn watch(flags: &WatchFlags, out: &mut dyn Write, error: &mut dyn Write) -> io::Result<u8> {
    let mut pool = pool(&flags.dir, flags.by_worker);
    let mut before = HashMap::new();
    let mut last = Instant::now();
    for shown in 1_usize.. {
        let now = Instant::now();
        let frame = match pool.collect(SystemClock.now_ms()) {
            Ok(frame) => frame,
            Err(reason) => return failed(&flags.dir, &reason, error),
        };
        let seconds = (now - last).as_secs_f64();
        last = now;
        if io::stdout().is_terminal() {
            out.write_all(CLEAR.as_bytes())?;
        }
        table(&rates(frame, &mut before, seconds, flags.rows), out)?;
        out.flush()?;
        if shown == flags.tables {
            break;
        }
        std::thread::sleep(flags.interval);
    }
    Ok(0)
}

/// Returns the series that changed fastest, with their values; `before` becomes what they are compared with next.
fn rates(
    frame: &Frame,
    before: &mut HashMap<ColumnId, (u64, f64)>,
    seconds: f64,
    limit: usize,
) -> Vec<[String; 3]> {
    let mut found = Vec::new();
    for at in frame.present().iter() {
        let id = ColumnId(u32::try_from(at).expect("a slot of a schema"));
        let value = frame.values()[at];
        let lineage = frame.schema().lineage();
        let last = before.insert(id, (lineage, value));
        let last = last.filter(|(known, _)| *known == lineage && seconds > 0.0);
        let rate = last.map_or(0.0, |(_, last)| (value - last) / seconds);
        // A quantile of nothing is no number: it would be the fastest.
        let rate = if rate.is_finite() { rate } else { 0.0 };
        found.push((id, value, rate));
    }
    // Equal rates stay in the order of the schema.
    found.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
    let mut rows = vec![["SERIES", "VALUE", "PER SECOND"].map(str::to_owned)];
    rows.extend(found.into_iter().take(limit).map(|(id, value, rate)| {
        let series = frame.schema().labels(id).to_string();
        [series, value.to_string(), format!("{rate:.1}")]
    }));
    rows
}
