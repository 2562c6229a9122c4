//! Moving on from file to file, and removing files that are no longer needed.
//!
//! **Invariant:** a file is closed with its strips' progress, and removed only when blocks hold all of that.

use super::{Content, Current, FULL_RESERVE_BYTES, FileMarks, Health, Shared, StripMark, Wal};
use crate::{
    error::{TsdbError, io_error},
    io::is_full,
    wal::{batch, path_of, pieces::Batches, record::RecordWriter, symbols::SymbolWriter},
};
use narthex_model::metadata::Family;
use narthex_model::sync::Whole as _;
use std::{
    collections::{HashMap, HashSet},
    io,
    time::Instant,
};

impl Wal {
    /// Returns the strips that closed files mention, and the removed ones that the current file mentions.
    pub(crate) fn strips(&self) -> HashSet<u32> {
        let state = self.shared.lock();
        let closed = state
            .closed_files
            .values()
            .flat_map(|file| file.strips.keys());
        let open = state
            .file
            .iter()
            .chain(&state.abandoned)
            .flat_map(|file| file.gone.keys());
        closed.chain(open).copied().collect()
    }

    /// Records strips that leave the head, and their progress.
    pub(crate) fn note_gone(&self, strips: impl Iterator<Item = (u32, StripMark)>) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let open = state.file.as_mut().or(state.abandoned.as_mut());
        if let Some(open) = open {
            open.gone.extend(strips);
        }
    }

    /// Returns the heap bytes of the current file's definitions.
    pub(crate) fn symbols_bytes(&self) -> usize {
        let state = self.shared.lock();
        state
            .file
            .as_ref()
            .map_or(0, |file| file.symbols.heap_bytes())
    }

    /// Reports whether to move on from the file being written at `least_bytes`, so that it can be removed once blocks
    /// hold what it has.
    pub(crate) fn is_worth_cutting(&self, least_bytes: u64) -> bool {
        let state = self.shared.lock();
        let file = state.file.as_ref();
        file.is_some_and(|file| file.len_bytes >= least_bytes.max(self.worth_bytes(file)))
    }

    /// Removes closed files, oldest first, as long as `is_flushed` holds for each strip in them.
    ///
    /// # Errors
    /// Fails when a file cannot be removed.
    pub(crate) fn truncate(
        &self,
        is_flushed: impl Fn(u32, StripMark) -> bool,
    ) -> Result<usize, TsdbError> {
        let mut removed = 0;
        loop {
            let state = self.shared.lock();
            let Some((number, oldest)) = state.closed_files.first_key_value() else {
                break;
            };
            let mut marks = oldest.strips.iter();
            if !marks.all(|(strip, mark)| is_flushed(*strip, *mark)) {
                break;
            }
            let number = *number;
            drop(state);
            let (io, dir) = (&*self.shared.io, &self.shared.dir);
            let path = path_of(dir, number);
            match io.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error(path, "remove")(error));
                }
                _ => removed += 1,
            }
            self.shared.lock().closed_files.remove(&number);
            // One by one, so that a loss of power never leaves an older file without a newer one: a reader takes a
            // missing number for a loss.
            io.sync_dir(dir).map_err(io_error(dir, "fsync"))?;
        }
        if removed > 0 {
            self.shared.metrics.wal_truncations.inc();
        }
        Ok(removed)
    }

    /// Moves on to the next file even if the current one is not full.
    ///
    /// # Errors
    /// Fails like `ticket`.
    pub(crate) fn cut(&self, content: &dyn Content) -> Result<(), TsdbError> {
        self.move_on(content, |_| true)
    }

    /// Moves on to the next file if that is due; while none can be created, the current one is continued.
    pub(super) fn rotate(&self, content: &dyn Content) -> Result<(), TsdbError> {
        let moved = self.move_on(content, |file| file.is_none_or(|file| self.is_long(file)));
        moved.or_else(|error| {
            let state = self.shared.lock();
            let good = matches!(state.health, Health::Good);
            let goes_on = state.file.as_ref().is_some_and(|file| self.may_go_on(file));
            if good && goes_on { Ok(()) } else { Err(error) }
        })
    }

    fn move_on(
        &self,
        content: &dyn Content,
        still_due: impl Fn(Option<&Current>) -> bool,
    ) -> Result<(), TsdbError> {
        // Sync most of it while others still append.
        let (state, _) = self.shared.sync_open(self.shared.lock());
        drop(state);
        // Under the write lock no writer holds a ticket: no batch is under construction or being written.
        let mut number = self.shared.file_number.write().whole();
        if !still_due(self.shared.lock().file.as_ref()) {
            return Ok(());
        }
        let (families, marks) = (content.families(), content.marks(*number));
        // Batches of the next file may reach the disk at once, so nothing before them may be missing.
        let (mut state, _) = self.shared.sync_open(self.shared.lock());
        if let Health::Poisoned { cause } = &state.health {
            return Err(TsdbError::Poisoned {
                cause: cause.clone(),
            });
        }
        if matches!(state.health, Health::Full { .. }) {
            let free = self
                .shared
                .io
                .free_bytes(&self.shared.dir)
                .unwrap_or(u64::MAX);
            if free < FULL_RESERVE_BYTES {
                state.health = Health::Full {
                    since: Instant::now(),
                };
                return Err(self.shared.full_error());
            }
        }
        let next = *number + 1;
        match self.shared.create(next, &families) {
            Ok(current) => {
                let old = state
                    .file
                    .replace(current)
                    .or_else(|| state.abandoned.take());
                if let Some(old) = old {
                    let mut strips = old.gone;
                    strips.extend(marks);
                    let closed = FileMarks {
                        strips,
                        len_bytes: old.len_bytes,
                    };
                    state.closed_files.insert(old.number, closed);
                }
                state.health = Health::Good;
                state.stuck_since = None;
                *number = next;
                Ok(())
            }
            Err(error) => {
                self.shared.metrics.wal_rotation_failures.inc();
                let path = path_of(&self.shared.dir, next);
                // A name without a file header must not block the next try.
                let _ = self.shared.io.remove(&path);
                state.stuck_since = Some(Instant::now());
                if is_full(&error) && state.file.is_none() {
                    state.health = Health::Full {
                        since: Instant::now(),
                    };
                }
                Err(io_error(path, "create")(error))
            }
        }
    }
}

impl Shared {
    /// Creates a file with its header and the families with which every file begins.
    pub(super) fn create(&self, number: u32, families: &[Family]) -> io::Result<Current> {
        self.io.create_dir_all(&self.dir)?;
        let handle = self.io.create(&path_of(&self.dir, number))?;
        let mut current = Current {
            number,
            handle,
            len_bytes: 0,
            counter: 0,
            symbols: SymbolWriter::default(),
            gone: HashMap::new(),
        };
        let mut bytes = batch::file_header(number).to_vec();
        let mut first = Batches::default();
        let mut writer = RecordWriter {
            symbols: &mut current.symbols,
            out: &mut first,
        };
        families.iter().for_each(|family| writer.family(family));
        current.counter = first.seal(0);
        bytes.extend(first.bytes);
        current.handle.append(&bytes)?;
        current.len_bytes = bytes.len() as u64;
        // Before anything in it is acknowledged, so that a loss of power cannot take its name.
        current.handle.sync()?;
        self.io.sync_dir(&self.dir)?;
        Ok(current)
    }
}
