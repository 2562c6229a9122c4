//! Records shown: as a table on the terminal, as a page, beside another record.
//!
//! **Invariant:** works on records alone; every number comes with its unit, every ratio says of what.

pub(crate) mod compare;
pub(crate) mod html;
mod number;
mod plot;
pub(crate) mod table;
mod words;

use std::io::{Write, stdout};

/// Prints a line of the result.
pub(crate) fn say(text: &str) {
    // A closed pipe is the reader's wish.
    let _ = writeln!(stdout(), "{text}");
}
