//! The terminal that output goes to.

use crate::role::query::Screen;
use std::{
    io::{IsTerminal, Stdout},
    os::fd::AsRawFd as _,
};

/// Returns what is known of the terminal of standard output, or that it is none.
pub(crate) fn detect(out: &Stdout) -> Screen {
    let is_terminal = out.is_terminal();
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let size = size(out).filter(|_| is_terminal);
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    Screen {
        is_terminal,
        has_colours: is_terminal && !is_plain,
        columns: size
            .map(|size| size.0)
            .or_else(|| number("COLUMNS"))
            .unwrap_or(80),
        rows: size
            .map(|size| size.1)
            .or_else(|| number("LINES"))
            .unwrap_or(24),
    }
}

/// Returns the columns and rows of a terminal.
fn size(out: &Stdout) -> Option<(usize, usize)> {
    // SAFETY: zeroes are a valid `winsize`, which has only numbers.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes one `winsize`, to which the pointer leads.
    let failed = unsafe { libc::ioctl(out.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (failed == 0 && size.ws_col > 0 && size.ws_row > 0)
        .then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
