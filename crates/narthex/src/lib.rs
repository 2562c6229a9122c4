//! The narthex program without its entry point, so that its parsers of untrusted files can be fuzzed.
//!
//! It is not a library: its binary calls only [`run`].
//!
//! **Invariant:** only this crate reads environment variables and handles signals. This file decides the exit codes: 0
//! for a clean end, 1 for a failure, 2 for bad arguments; checks use promtool's.

mod cgroup;
mod cli;
mod config;
mod descriptors;
mod doctor;
pub mod fuzz;
mod health;
mod heap;
mod host;
mod host_facts;
mod lifecycle;
mod logging;
mod memory;
mod notifications;
mod program_pages;
mod reload;
mod remote;
mod role;
mod rules;
mod screen;
mod segments;
mod sources;
mod status;
mod storage;
mod trimmer;
mod upkeep;
mod web;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;

use std::{
    ffi::OsString,
    fmt::Display,
    io::{IsTerminal as _, Write},
    process::ExitCode,
};

/// Runs the program with its arguments, its own name first, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match cli::dispatch(&arguments) {
        Ok(cli::Invocation::Print(text)) => print(&text),
        Ok(cli::Invocation::Server(options)) => served(role::server::run(*options)),
        Ok(cli::Invocation::Agent(options)) => served(role::agent::run(*options)),
        Ok(cli::Invocation::Pushgateway(options)) => served(role::pushgateway::run(*options)),
        Ok(cli::Invocation::NodeExporter(options)) => served(role::node_exporter::run(*options)),
        Ok(cli::Invocation::Push(command)) => {
            let (mut input, mut error) = (std::io::stdin().lock(), std::io::stderr().lock());
            let is_terminal = error.is_terminal();
            ended(role::push::run(
                &command,
                &mut input,
                &mut error,
                is_terminal,
            ))
        }
        Ok(cli::Invocation::CheckConfig(check)) => {
            let (mut out, mut error) = (std::io::stdout().lock(), std::io::stderr().lock());
            ended(role::check_config::run(&check, &mut out, &mut error))
        }
        Ok(cli::Invocation::CheckRules(check)) => {
            let input = std::io::stdin().lock();
            let (mut out, mut error) = (std::io::stdout().lock(), std::io::stderr().lock());
            ended(role::check_rules::run(&check, input, &mut out, &mut error))
        }
        Ok(cli::Invocation::Backfill(options)) => {
            let mut error = std::io::stderr().lock();
            let is_terminal = error.is_terminal();
            ended(role::backfill::run(&options, &mut error, is_terminal))
        }
        Ok(cli::Invocation::TestRules(command)) => {
            let (mut out, mut error) = (std::io::stdout().lock(), std::io::stderr().lock());
            ended(role::test_rules::run(&command, &mut out, &mut error))
        }
        Ok(cli::Invocation::CheckWebConfig(files)) => {
            let mut error = std::io::stderr().lock();
            ended(role::check_server::web_config(&files, &mut error))
        }
        Ok(cli::Invocation::CheckServer(check)) => {
            let mut error = std::io::stderr().lock();
            ended(role::check_server::ask(&check, &mut error))
        }
        Ok(cli::Invocation::CheckDiscovery(check)) => {
            let (mut out, mut error) = (std::io::stdout().lock(), std::io::stderr().lock());
            ended(role::check_discovery::run(&check, &mut out, &mut error))
        }
        Ok(cli::Invocation::Doctor(doctor)) => {
            let (mut out, mut error) = (std::io::stdout().lock(), std::io::stderr().lock());
            ended(doctor::run(&doctor, &mut out, &mut error))
        }
        Ok(cli::Invocation::Segment(command)) => {
            let (mut out, mut error) = (std::io::stdout().lock(), std::io::stderr().lock());
            ended(role::segment::run(&command, &mut out, &mut error))
        }
        Ok(cli::Invocation::Query(command)) => query(&command),
        Ok(cli::Invocation::CheckMetrics) => {
            let (page, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
            ended(role::check_metrics::run(page, &mut out))
        }
        Err(error) => fail(&format!("{error}, try --help"), 2),
    }
}

/// Asks a server or a data directory.
fn query(command: &role::query::QueryCommand) -> ExitCode {
    let (mut out, mut error) = (std::io::stdout(), std::io::stderr());
    let screen = screen::detect(&out);
    let is_terminal = error.is_terminal();
    ended(role::query::run(
        command,
        screen,
        &mut out,
        &mut error,
        is_terminal,
    ))
}

/// Prints to standard output; a closed pipe is the reader's choice, not an error.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Returns the exit code of a role that ran until it was stopped.
fn served(outcome: Result<(), impl Display>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string(), 1),
    }
}

/// Returns the exit code of a finished check.
fn ended(outcome: std::io::Result<u8>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error.to_string(), 1),
    }
}

/// Prints in one line why the program ends.
fn fail(message: &str, code: u8) -> ExitCode {
    // Standard error may be closed; then there is nowhere left to report it.
    let _ = writeln!(std::io::stderr(), "narthex: error: {message}");
    ExitCode::from(code)
}
