//! The command line: flags as data, parsed kingpin's way.
//!
//! **Invariant:** a flag is defined once, in a command's table; parsing, `--help` and the generated reference read
//! the same table. Parsing touches nothing but the arguments.

mod check;
mod command;
mod flags;
mod parse;
mod reference;
mod server;
mod size;
#[cfg(test)]
mod tests;

pub(crate) use command::{Invocation, dispatch};
pub(crate) use server::ServerOptions;
pub(crate) use size::Bytes;
