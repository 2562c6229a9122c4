//! System calls of a process, counted by strace during requests.
//!
//! **Invariant:** nothing else is measured meanwhile: tracing makes the process many times slower.

use crate::harness::{BenchError, Group, WorkDir, poll};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Timeout of strace's summary.
const END_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);
/// Calls that a runtime's clock thread makes all the time, even when idle.
const IDLE: [&str; 2] = ["nanosleep", "clock_nanosleep"];

/// Calls by name.
pub(crate) type Calls = BTreeMap<String, u64>;

/// Counts the calls a process makes while `ask` runs; the text is the reason that they could not be counted.
pub(crate) fn count(
    pid: i32,
    base: &Path,
    ask: impl FnOnce() -> Result<(), BenchError>,
) -> Result<Result<Calls, String>, BenchError> {
    let dir = WorkDir::new(base, "strace")?;
    let summary = dir.path().join("summary");
    let mut command = Command::new("strace");
    command
        .args(["-c", "-f", "-p", &pid.to_string(), "-o"])
        .arg(&summary)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let (said, said_end) = std::io::pipe().map_err(BenchError::io("make a pipe"))?;
    command.stderr(said_end);
    let Ok(mut group) = Group::start(&mut command) else {
        return Ok(Err(
            "strace is not installed (apt-get install strace)".to_owned()
        ));
    };
    drop(command);
    // Kept until the end: strace writes about every new thread, and would end if nobody reads.
    let mut said = BufReader::new(said);
    let mut line = String::new();
    said.read_line(&mut line)
        .map_err(BenchError::io("listen to strace"))?;
    if !line.contains("attached") {
        return Ok(Err(format!("strace does not attach: {}", line.trim())));
    }
    ask()?;
    if group.ended("strace")?.is_some() {
        return Ok(Err("strace ended early".to_owned()));
    }
    // It detaches and writes its summary.
    rustix::process::kill_process(group.pid(), rustix::process::Signal::INT)
        .map_err(|errno| BenchError::io("stop strace")(errno.into()))?;
    if poll(POLL, END_LIMIT, || group.ended("strace"))?.is_none() {
        return Ok(Err("strace does not end".to_owned()));
    }
    let text = fs::read_to_string(&summary).map_err(BenchError::io("read strace's summary"))?;
    Ok(parse(&text).ok_or_else(|| "strace's summary does not read".to_owned()))
}

/// Parses the table that `strace -c` writes.
fn parse(text: &str) -> Option<Calls> {
    let mut calls = Calls::new();
    let mut lines = text.lines().skip_while(|line| !line.starts_with("------"));
    lines.next()?;
    for line in lines.take_while(|line| !line.starts_with("------")) {
        // Share, seconds, microseconds per call, calls, errors if any, name.
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = *fields.last()?;
        if !IDLE.contains(&name) {
            calls.insert(name.to_owned(), fields.get(3)?.parse().ok()?);
        }
    }
    Some(calls)
}

#[cfg(test)]
mod tests;
