//! The narthex binary: arguments are read here and nowhere else.
//!
//! **Invariant:** it holds what a process has once: its entry point and its allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    narthex::run(&arguments)
}
