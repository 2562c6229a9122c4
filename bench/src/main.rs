//! `narthex-bench`: drives servers from outside, like a user, and measures what they cost.
//!
//! It is: scenarios, their load, servers under test, meters, records, reports. It is not: part of the product.
//! **Invariant:** connects only to loopback unless allowed otherwise, ends within its given time, and leaves neither
//! processes nor directories behind.

#![allow(
    clippy::disallowed_methods,
    reason = "a panic ends the run; what its locks hold is counted or printed, nothing is built on it"
)]

mod command;
mod harness;
mod load;
mod record;
mod report;
mod scenario;
mod tour;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = match error {
                harness::BenchError::Usage(_) => "\nnarthex-bench --help lists commands and flags",
                _ => "",
            };
            harness::progress::complain(&format!("narthex-bench: {error}{hint}"));
            ExitCode::from(error.exit_code())
        }
    }
}
