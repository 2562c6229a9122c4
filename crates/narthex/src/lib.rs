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
mod server_client;
mod sources;
mod status;
mod storage;
mod trimmer;
mod upkeep;
mod web;
mod worker;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;

use std::{
    ffi::OsString,
    fmt::Display,
    io::{self, IsTerminal as _, Write},
    process::ExitCode,
};

/// Runs the program with its arguments, its own name first, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    use cli::Invocation;
    use role::{backfill, check_config, check_discovery, check_metrics, check_rules, check_server};
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let invocation = match cli::dispatch(&arguments) {
        Ok(invocation) => invocation,
        Err(error) => return fail(&format!("{error}, try --help"), 2),
    };
    let (input, out, error) = (&mut io::stdin(), &mut io::stdout(), &mut io::stderr());
    let is_terminal = error.is_terminal();
    ended(match invocation {
        Invocation::Print(text) => return print(&text),
        Invocation::Server(options) => return served(role::server::run(*options)),
        Invocation::Agent(options) => return served(role::agent::run(*options)),
        Invocation::Pushgateway(options) => return served(role::pushgateway::run(*options)),
        Invocation::NodeExporter(options) => return served(role::node_exporter::run(*options)),
        Invocation::Push(command) => role::push::run(&command, input, error, is_terminal),
        Invocation::CheckConfig(check) => check_config::run(&check, out, error),
        Invocation::CheckRules(check) => check_rules::run(&check, input, out, error),
        Invocation::Backfill(options) => backfill::run(&options, error, is_terminal),
        Invocation::TestRules(command) => role::test_rules::run(&command, out, error),
        Invocation::CheckWebConfig(flags) => check_server::web_config(&flags, error),
        Invocation::CheckServer(path, flags) => check_server::ask(path, &flags, error),
        Invocation::CheckDiscovery(flags) => check_discovery::run(&flags, out, error),
        Invocation::Doctor(flags) => doctor::run(&flags, out, error),
        Invocation::Segment(command) => role::segment::run(&command, out, error),
        Invocation::Query(command) => {
            let screen = screen::detect(out);
            role::query::run(&command, screen, out, error, is_terminal)
        }
        Invocation::CheckMetrics => check_metrics::run(input, out),
    })
}

/// Prints to standard output; a closed pipe is the reader's choice, not an error.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
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
fn ended(outcome: io::Result<u8>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error.to_string(), 1),
    }
}

/// Prints in one line why the program ends.
fn fail(message: &str, code: u8) -> ExitCode {
    // Standard error may be closed; then there is nowhere left to report it.
    let _ = writeln!(io::stderr(), "narthex: error: {message}");
    ExitCode::from(code)
}
