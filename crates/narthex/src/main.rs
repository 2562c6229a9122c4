//! The narthex binary: the only place that reads the arguments.
//!
//! **Invariant:** it holds only what a process has once: its entry point and, by name, its allocator.

// The process' allocator.
use narthex_allocator as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    narthex::run(std::env::args_os())
}
