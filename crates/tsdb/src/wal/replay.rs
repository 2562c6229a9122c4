//! Reading the WAL back, file by file.
//!
//! **Invariant:** intact records are passed on in the order they were written; every damaged stretch is reported once
//! with its file and offset; a torn end of the last file, as a crash leaves it, is reported separately and truncated.

use super::{
    DIR,
    batch::{Scanned, Scanner},
    log::FileMarks,
    number_of, path_of,
    record::{Record, RecordReader},
};
use crate::{
    bytes::{Malformed, Reader},
    error::{Damage, TsdbError, io_error},
    io::Io,
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Progress of a replay, for those who wait: the WAL files, and the one being read.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    min: AtomicU32,
    max: AtomicU32,
    current: AtomicU32,
}

impl ReplayProgress {
    fn begin(&self, first: Option<u32>, last: Option<u32>) {
        let first = first.unwrap_or_default();
        self.min.store(first, Relaxed);
        self.max.store(last.unwrap_or_default(), Relaxed);
        self.current.store(first, Relaxed);
    }

    fn reach(&self, number: u32) {
        self.current.store(number, Relaxed);
    }

    /// Returns the numbers of the first file, the last one and the one being read; all 0 if there is none.
    #[must_use]
    pub fn get(&self) -> [u32; 3] {
        [&self.min, &self.max, &self.current].map(|number| number.load(Relaxed))
    }
}

/// Receives the WAL's contents.
pub(crate) trait ReplayTo {
    /// Starts a file, which refers to nothing before it; `current` is true if its header has a checksum and is intact.
    fn begin_file(&mut self, current: bool);

    /// Reports that `batches` batches are missing; `u32::MAX` if their number is unknown.
    fn lost(&mut self, batches: u32);

    /// Applies a record; returns the reason if it is impossible.
    fn record(&mut self, record: Record<'_>) -> Result<(), &'static str>;

    /// Ends a file; returns its result.
    fn end_file(&mut self, last: bool) -> FileEnd;
}

/// Result of replaying one file.
#[derive(Debug, Default)]
pub(crate) struct FileEnd {
    /// Progress of the strips in it.
    pub(crate) marks: FileMarks,
    /// Its rows and samples that could not be placed.
    pub(crate) dropped: u64,
    /// Rows and samples that, by its account, precede it and that no file had.
    pub(crate) missing: u64,
}

/// Result of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) files: BTreeMap<u32, FileMarks>,
    pub(crate) damage: Vec<Damage>,
    /// Place where the last file ended in the middle of a batch.
    pub(crate) torn: Option<Damage>,
    /// Number of the next file.
    pub(crate) next_file: u32,
}

impl Replayed {
    /// Reports that rows are missing before the file at `path`: at the damage that cost them, if any was found.
    fn note_missing(&mut self, path: &Path, missing: u64) {
        if missing == 0 {
            return;
        }
        let detail = format!("{missing} rows and samples that came before are in no file");
        match self.damage.last_mut() {
            Some(last) => last.detail.push_str(&format!(
                "; by {}, {detail}",
                path.file_name().unwrap_or_default().to_string_lossy()
            )),
            None => self.damage.push(Damage {
                path: path.to_owned(),
                offset: 0,
                detail,
            }),
        }
    }
}

/// Passes everything in the WAL below `root` to `to`.
///
/// # Errors
/// Fails when the directory or a file cannot be read, or a file is of a newer version.
pub(crate) fn replay(
    io: &dyn Io,
    root: &Path,
    to: &mut dyn ReplayTo,
    progress: &ReplayProgress,
) -> Result<Replayed, TsdbError> {
    let dir = root.join(DIR);
    let names = io.list(&dir).map_err(io_error(&dir, "list"))?;
    let numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
    let mut replayed = Replayed {
        next_file: numbers.last().map_or(1, |last| last + 1),
        ..Replayed::default()
    };
    progress.begin(numbers.first().copied(), numbers.last().copied());
    let mut expected = numbers.first().copied().unwrap_or_default();
    for number in &numbers {
        if *number > expected {
            // Files are removed oldest first, and each is self-contained: read the rest nevertheless.
            let count = *number - expected;
            replayed.damage.push(Damage {
                path: path_of(&dir, expected),
                offset: 0,
                detail: format!(
                    "{count} files of the log are missing from this one on, though a later one exists"
                ),
            });
        }
        expected = number.saturating_add(1);
        progress.reach(*number);
        let path = path_of(&dir, *number);
        let last = Some(number) == numbers.last();
        let len_bytes = replay_file(io, &path, last, to, &mut replayed)?;
        if last {
            // Its process may have been killed before it synced this, so sync before anything follows it.
            io.truncate(&path, len_bytes)
                .map_err(io_error(&path, "fsync"))?;
        }
        let FileEnd {
            marks,
            dropped,
            missing,
        } = to.end_file(last);
        replayed.note_missing(&path, missing);
        // Losses that a later file reveals are attributed to the damage before it.
        if let Some(last) = replayed.damage.last_mut().filter(|_| dropped > 0) {
            last.detail.push_str(&format!(
                "; {dropped} rows and samples behind it could not be placed"
            ));
        }
        let marks = FileMarks { len_bytes, ..marks };
        replayed.files.insert(*number, marks);
    }
    Ok(replayed)
}

fn replay_file(
    io: &dyn Io,
    path: &Path,
    last: bool,
    to: &mut dyn ReplayTo,
    replayed: &mut Replayed,
) -> Result<u64, TsdbError> {
    let damage = &mut replayed.damage;
    let mut note = |offset, detail| {
        let path = path.to_owned();
        damage.push(Damage {
            path,
            offset,
            detail,
        });
    };
    let file = io.open(path).map_err(io_error(path, "open"))?;
    let mut scanner = Scanner::open(&*file, path)?;
    to.begin_file(scanner.is_current());
    let mut records = RecordReader::default();
    loop {
        match scanner.next()? {
            Scanned::Batch(batch) => {
                if batch.lost > 0 {
                    to.lost(batch.lost);
                }
                let mut reader = Reader::new(batch.body);
                if let Err((at, what)) = hand_on(&mut records, &mut reader, to) {
                    let detail = format!("{what}; the rest of the batch is skipped");
                    note(batch.body_offset + at as u64, detail);
                    to.lost(u32::MAX);
                }
            }
            Scanned::Damage { offset, detail, .. } => note(offset, detail),
            Scanned::Torn { offset } => {
                if last {
                    let bytes = scanner.file_len().saturating_sub(offset);
                    replayed.torn = Some(Damage {
                        path: path.to_owned(),
                        offset,
                        detail: format!(
                            "the last {bytes} bytes are no whole batch and are cut off"
                        ),
                    });
                    return Ok(offset);
                }
                let detail =
                    "the file ends in the middle of a batch, though later files exist".to_owned();
                note(offset, detail);
            }
            Scanned::End => {
                if last && scanner.file_len() == 0 {
                    let detail = "the file is empty".to_owned();
                    replayed.torn = Some(Damage {
                        path: path.to_owned(),
                        offset: 0,
                        detail,
                    });
                }
                return Ok(scanner.file_len());
            }
        }
    }
}

fn hand_on(
    records: &mut RecordReader,
    reader: &mut Reader<'_>,
    to: &mut dyn ReplayTo,
) -> Result<(), (usize, &'static str)> {
    loop {
        let at = reader.offset();
        match records.next(reader) {
            Ok(None) => return Ok(()),
            Ok(Some(record)) => to.record(record).map_err(|what| (at, what))?,
            Err(Malformed { offset, what }) => return Err((offset, what)),
        }
    }
}
