//! Command lines in kingpin's manner, from one declaration of each flag.
//!
//! [`flags!`] declares a command's flags as the fields of a struct: name, type, default, help. The same rows give the
//! parser into that struct, `--help`, the reference in Markdown, man pages and completion in bash, zsh and fish. A
//! [`Program`] is a table of [`Command`]s.
//!
//! ```text
//! ARGUMENT := '--' NAME '=' VALUE | '--' NAME VALUE | '--' SWITCH | '--no-' SWITCH | '@' FILE | '--' | OTHER
//! ```
//! A single dash is read like two. A value that begins with a dash needs `=`. Nothing after `--` is a flag. A file
//! holds one argument per line; blank lines and lines that begin with `#` are skipped.
//!
//! It is not a general parser: there are no short flags, and commands have one to three words.
//!
//! **Invariant:** files are accessed only through [`Surroundings`].

#![forbid(unsafe_code)]

mod bytes;
mod call;
mod complete;
mod error;
mod expand;
mod flag;
pub mod fuzz;
mod help;
mod man;
mod parse;
mod program;
#[cfg(test)]
mod tests;
mod value;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;

pub use bytes::Bytes;
pub use call::Call;
pub use error::UsageError;
pub use expand::Surroundings;
pub use flag::{Class, Flag, ValueKind};
pub use parse::Values;
pub use program::{Command, Program, Topic};
pub use value::{GoDuration, List, Value};
