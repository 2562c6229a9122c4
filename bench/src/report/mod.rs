//! Output of records: as tables on the terminal, as a page, compared with another record.
//!
//! **Invariant:** uses records only; every number has its unit, every ratio its base.

pub(crate) mod compare;
pub(crate) mod html;
mod number;
mod tables;
pub(crate) mod terminal;

use crate::{
    harness::BenchError,
    record::{self, Record, summary},
};
use std::{
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
};

/// Prints a line of the result.
pub(crate) fn say(text: &str) {
    // A closed pipe is the reader's choice.
    let _ = writeln!(stdout(), "{text}");
}

/// Prints a record and writes the requested files; a refused one is shown before the error is returned.
pub(crate) fn show(
    record: &Record,
    out: Option<PathBuf>,
    page: Option<PathBuf>,
) -> Result<(), BenchError> {
    say(terminal::render(record).trim_end_matches('\n'));
    if let Some(path) = out {
        record::write(&path, record)?;
        say(&format!("recorded in {}", path.display()));
    }
    if let Some(path) = page {
        write_page(&path, record)?;
    }
    if summary::is_refused(record) {
        return Err(BenchError::Refused(
            "the generator, not the server, was the bottleneck; see REFUSED above".to_owned(),
        ));
    }
    Ok(())
}

/// Writes a record's page.
pub(crate) fn write_page(path: &Path, record: &Record) -> Result<(), BenchError> {
    let written = fs::write(path, html::page(record));
    written.map_err(BenchError::io(format!("write {}", path.display())))?;
    say(&format!("reported in {}", path.display()));
    Ok(())
}
