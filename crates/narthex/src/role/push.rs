//! `narthex push`: merges files and pushes them to a gateway in one request.
//!
//! **Invariant:** a file that cannot be used costs itself. Exit codes: 0 when everything was pushed, 3 when something was
//! left out, 1 when nothing was pushed.

mod files;
mod send;

use super::console::Console;
use crate::cli::PushFlags;
use narthex_push::{Grouping, Merge, Timestamps};
use std::io::{self, Read, Write};

/// What to push, where and how.
#[derive(Debug)]
pub(crate) struct PushCommand {
    pub(crate) flags: PushFlags,
    pub(crate) target: Target,
    pub(crate) action: Action,
    pub(crate) timestamps: Timestamps,
    pub(crate) compression: Compression,
}

/// The groups that are pushed to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Group(Grouping),
    /// Those that these labels of the series name.
    Groups(Vec<String>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    Replace,
    Add,
    Delete,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Exit code when something was pushed and something left out.
const PARTLY: u8 = 3;

/// Pushes, and returns the exit code. Reports go to `error`, with progress if that is a terminal.
///
/// # Errors
/// Fails when the report cannot be written.
pub(crate) fn run(
    command: &PushCommand,
    input: &mut dyn Read,
    error: &mut dyn Write,
    is_terminal: bool,
) -> io::Result<u8> {
    let mut console = Console::new("push", error, is_terminal);
    let pushed = push(command, input, &mut console);
    let code = pushed.as_ref().map_or(1, |(code, _)| *code);
    console.end(code, pushed.map(|(_, summary)| summary))
}

/// Pushes or deletes; returns the exit code and a summary.
fn push(
    command: &PushCommand,
    input: &mut dyn Read,
    console: &mut Console<'_>,
) -> Result<(u8, String), String> {
    if command.action == Action::Delete {
        send::delete(command, console)?;
        return Ok((0, "the group is deleted".to_owned()));
    }
    let grouping = match &command.target {
        Target::Group(grouping) => grouping.clone(),
        Target::Groups(_) => Grouping::new(Vec::new()),
    };
    let mut merge = Merge::new(grouping, command.timestamps);
    let read = files::merge(&command.flags.inputs, input, &mut merge, console)?;
    if merge.series() == 0 {
        return Err("there is nothing to push".to_owned());
    }
    let outcome = send::push(command, &merge, console)?;
    let is_whole = read.left_out == 0 && outcome.refused == 0;
    let code = match outcome.stored {
        0 => 1,
        _ if is_whole => 0,
        _ => PARTLY,
    };
    let summary = format!(
        "{} series of {} pushed in {:.1} s, {} bytes",
        merge.series(),
        read.sources(),
        outcome.took.as_secs_f64(),
        outcome.bytes
    );
    Ok((code, summary))
}
