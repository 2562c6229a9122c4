//! Finds and reads the inputs of a push.
//!
//! **Invariant:** a file that changes while it is read is not used.

use crate::role::console::Console;
use narthex_net::glob::glob;
use narthex_push::Merge;
use std::{
    fs::{self, Metadata},
    io::Read,
    os::unix::fs::MetadataExt as _,
    path::Path,
    thread,
    time::Duration,
};

/// Attempts to read a file that is being written.
const ATTEMPTS: usize = 3;
/// Pause between them.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of the inputs.
#[derive(Debug, Default)]
pub(super) struct InputReport {
    /// Inputs that were merged.
    merged: usize,
    /// Inputs and families that were left out.
    pub(super) left_out: usize,
}

impl InputReport {
    pub(super) fn sources(&self) -> String {
        match self.merged {
            1 => "1 file".to_owned(),
            merged => format!("{merged} files"),
        }
    }
}

/// Merges all inputs, in the order in which they are given.
pub(super) fn merge(
    inputs: &[String],
    stdin: &mut dyn Read,
    merge: &mut Merge,
    console: &mut Console<'_>,
) -> Result<InputReport, String> {
    let mut report = InputReport::default();
    let mut names: Vec<String> = Vec::new();
    for input in inputs {
        match found(input) {
            Ok(found) => names.extend(found),
            Err(reason) => {
                report.left_out += 1;
                console.warn(&format!("{input}: {reason}"))?;
            }
        }
    }
    let total = names.len();
    for (at, name) in names.iter().enumerate() {
        console.progress(&format!("reading {}/{total}: {name}", at + 1))?;
        let page = if name == "-" {
            let mut page = Vec::new();
            stdin
                .read_to_end(&mut page)
                .map(|_| page)
                .map_err(|error| error.to_string())
        } else {
            read(Path::new(name))
        };
        let merged = page.and_then(|page| merge.add(&page).map_err(|error| error.to_string()));
        match merged {
            Ok(merged) => {
                report.merged += 1;
                report.left_out += merged.conflicts.len();
                if merged.duplicates > 0 {
                    let duplicates = merged.duplicates;
                    console.warn(&format!(
                        "{name}: {duplicates} metrics are left out, because a file before has them"
                    ))?;
                }
                for conflict in &merged.conflicts {
                    console.warn(&format!("{name}: {conflict}; the family is left out"))?;
                }
            }
            Err(reason) => {
                report.left_out += 1;
                console.warn(&format!("{name}: {reason}; the file is left out"))?;
            }
        }
    }
    Ok(report)
}

/// Returns the files of an input.
fn found(input: &str) -> Result<Vec<String>, String> {
    // A file may have the name of a pattern.
    if input == "-" || Path::new(input).exists() {
        return Ok(vec![input.to_owned()]);
    }
    let found = glob(input)?;
    let files: Vec<String> = found
        .into_iter()
        .filter(|name| Path::new(name).is_file())
        .collect();
    if files.is_empty() {
        return Err("there is no such file".to_owned());
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let stamp = |metadata: &Metadata| {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        (metadata.ino(), metadata.len(), modified)
    };
    let look = || fs::metadata(path).map_err(|error| error.to_string());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        let before = look()?;
        let bytes = fs::read(path).map_err(|error| error.to_string())?;
        let is_whole = !before.is_file() || bytes.len() as u64 == before.len();
        if is_whole && stamp(&before) == stamp(&look()?) {
            return Ok(bytes);
        }
    }
    Err("it is being written".to_owned())
}
