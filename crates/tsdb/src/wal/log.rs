//! Appending to the log: batches shared by concurrent writers, fsync in the background.
//!
//! A writer takes a [`Ticket`], builds its records under the log's lock and waits until the batch they are in was
//! handed to the kernel; whoever finds no write in progress writes for all.
//!
//! **Invariant:** batches reach the file in the order of their numbers; a batch whose write failed is cut off again
//! and the file is never continued, because what it defined is unknown to readers. After a failed fsync, or a write
//! that failed for another reason than a full disk, nothing is written any more.

use super::{
    batch::{self, BATCH_HEADER_BYTES},
    path_of,
    record::RecordWriter,
    symbols::SymbolWriter,
};
use crate::{
    error::{TsdbError, io_error},
    io::{AppendFile, Io, is_full},
    metrics::Metrics,
};
use narthex_model::metadata::Family;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How the log behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalOptions {
    /// A file that reached this size is followed by another.
    pub(crate) file_bytes: u64,
    /// Time between fsyncs; zero: every append waits for one.
    pub(crate) fsync_interval: Duration,
}

/// How far a strip had come: what a file holds of it, or what blocks hold of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct StripMark {
    /// Rows since the strip was created.
    pub(crate) rows: u64,
    /// Loose samples since the strip was created.
    pub(crate) loose: u64,
}

/// The log being written.
#[derive(Debug)]
pub(crate) struct Wal {
    shared: Arc<Shared>,
    syncer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    io: Arc<dyn Io>,
    dir: PathBuf,
    options: WalOptions,
    metrics: Arc<Metrics>,
    /// The number of the file being written. Writers hold it for reading from their ticket to their write's end.
    file_number: RwLock<u32>,
    state: Mutex<State>,
    written: Condvar,
    synced: Condvar,
    /// Wakes the syncer.
    work: Condvar,
}

struct State {
    /// `None` after a failed write, until another file could be created.
    file: Option<Current>,
    /// The batch under construction, with room for its header; empty when it has no record.
    batch: Vec<u8>,
    spare: Vec<u8>,
    /// The number of the batch under construction; batches are numbered from 1 over all files of this process.
    building: u64,
    written: u64,
    synced: u64,
    failed: BTreeMap<u64, Failure>,
    writing: bool,
    waiters: usize,
    /// Files that were left behind and not synced since, oldest first.
    unsynced: Vec<Arc<dyn AppendFile>>,
    closed_files: BTreeMap<u32, FileMarks>,
    health: Health,
    sync_wanted: bool,
    stop: bool,
}

struct Current {
    number: u32,
    handle: Arc<dyn AppendFile>,
    len_bytes: u64,
    counter: u16,
    symbols: SymbolWriter,
    strips: HashMap<u32, StripMark>,
}

/// How far each strip had come at the end of a file.
#[derive(Debug, Default)]
pub(crate) struct FileMarks {
    pub(crate) strips: HashMap<u32, StripMark>,
    pub(crate) len_bytes: u64,
}

#[derive(Clone, Debug)]
enum Health {
    Good,
    /// The disk was full when last tried.
    Full {
        since: Instant,
    },
    Poisoned {
        cause: String,
    },
}

#[derive(Clone, Debug)]
struct Failure {
    kind: io::ErrorKind,
    text: String,
}

/// The right to append one batch's worth of records to the file numbered `file`.
pub(crate) struct Ticket<'w> {
    wal: &'w Wal,
    file: RwLockReadGuard<'w, u32>,
}

/// How long a full disk is left alone before a write is tried again.
const FULL_RETRY: Duration = Duration::from_millis(500);
/// Free bytes below which a full disk is still full.
const FULL_RESERVE_BYTES: u64 = 1 << 20;

impl Wal {
    /// Starts a file numbered `number`, which begins with `families`, and the thread that syncs.
    ///
    /// `older` tells what the files before it hold.
    ///
    /// # Errors
    /// Fails when the directory or the file cannot be created.
    pub(crate) fn start(
        io: Arc<dyn Io>,
        dir: &Path,
        number: u32,
        options: WalOptions,
        older: BTreeMap<u32, FileMarks>,
        families: &[Family],
        metrics: Arc<Metrics>,
    ) -> Result<Self, TsdbError> {
        let shared = Shared {
            io,
            dir: dir.to_owned(),
            options,
            metrics,
            file_number: RwLock::new(number),
            state: Mutex::new(State::new(older)),
            written: Condvar::new(),
            synced: Condvar::new(),
            work: Condvar::new(),
        };
        let current = shared
            .create(number, families)
            .map_err(io_error(path_of(dir, number), "create"))?;
        shared.lock().file = Some(current);
        let shared = Arc::new(shared);
        let of_thread = Arc::clone(&shared);
        let syncer = std::thread::Builder::new()
            .name("tsdb-wal-sync".to_owned())
            .spawn(move || of_thread.sync_forever())
            .map_err(io_error(dir, "start the fsync thread for"))?;
        Ok(Self {
            shared,
            syncer: Mutex::new(Some(syncer)),
        })
    }

    /// Takes part in the log, moving on to the next file first where that is due.
    ///
    /// # Errors
    /// Fails when the log is poisoned or the disk is full.
    pub(crate) fn ticket(
        &self,
        families: impl Fn() -> Vec<Family>,
    ) -> Result<Ticket<'_>, TsdbError> {
        loop {
            let file = self
                .shared
                .file_number
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let state = self.shared.lock();
            match &state.health {
                Health::Poisoned { cause } => {
                    return Err(TsdbError::Poisoned {
                        cause: cause.clone(),
                    });
                }
                Health::Full { since } if since.elapsed() < FULL_RETRY => {
                    return Err(self.shared.full_error());
                }
                _ => {}
            }
            let due = state
                .file
                .as_ref()
                .is_none_or(|file| file.len_bytes >= self.shared.options.file_bytes);
            drop(state);
            if !due {
                return Ok(Ticket { wal: self, file });
            }
            drop(file);
            self.rotate(&families())?;
        }
    }

    /// Waits until batch `number` survives a loss of power.
    ///
    /// # Errors
    /// Fails when an fsync failed; nothing is written from then on.
    pub(crate) fn sync(&self, number: u64) -> Result<(), TsdbError> {
        let mut state = self.shared.lock();
        let number = number.min(state.building - 1);
        while state.synced < number {
            if let Health::Poisoned { cause } = &state.health {
                return Err(TsdbError::Poisoned {
                    cause: cause.clone(),
                });
            }
            state.sync_wanted = true;
            self.shared.work.notify_one();
            state = self
                .shared
                .synced
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Reports why nothing can be written, if so.
    pub(crate) fn poisoned(&self) -> Option<String> {
        match &self.shared.lock().health {
            Health::Poisoned { cause } => Some(cause.clone()),
            _ => None,
        }
    }

    /// Returns the bytes of all files.
    pub(crate) fn len_bytes(&self) -> u64 {
        let state = self.shared.lock();
        let current = state.file.as_ref().map_or(0, |file| file.len_bytes);
        state
            .closed_files
            .values()
            .map(|file| file.len_bytes)
            .sum::<u64>()
            + current
    }

    /// Returns the strips that any file mentions.
    pub(crate) fn strips(&self) -> HashSet<u32> {
        let state = self.shared.lock();
        let closed = state
            .closed_files
            .values()
            .flat_map(|file| file.strips.keys());
        let current = state.file.iter().flat_map(|file| file.strips.keys());
        closed.chain(current).copied().collect()
    }

    /// Returns the bytes of the file being written.
    pub(crate) fn current_bytes(&self) -> u64 {
        self.shared
            .lock()
            .file
            .as_ref()
            .map_or(0, |file| file.len_bytes)
    }

    /// Removes closed files, oldest first, as long as `is_flushed` holds of each strip in them.
    ///
    /// # Errors
    /// Fails when a file cannot be removed.
    pub(crate) fn truncate(
        &self,
        is_flushed: impl Fn(u32, StripMark) -> bool,
    ) -> Result<usize, TsdbError> {
        let mut removed = 0;
        loop {
            let mut state = self.shared.lock();
            let Some(oldest) = state.closed_files.first_entry() else {
                break;
            };
            if !oldest
                .get()
                .strips
                .iter()
                .all(|(strip, mark)| is_flushed(*strip, *mark))
            {
                break;
            }
            let number = *oldest.key();
            oldest.remove();
            drop(state);
            let path = path_of(&self.shared.dir, number);
            match self.shared.io.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error(path, "remove")(error));
                }
                _ => removed += 1,
            }
        }
        if removed > 0 {
            self.shared.metrics.wal_truncations.inc();
            self.shared
                .io
                .sync_dir(&self.shared.dir)
                .map_err(io_error(&self.shared.dir, "fsync"))?;
        }
        Ok(removed)
    }

    /// Moves on to the next file though the current one is not full, unless it holds nothing.
    ///
    /// # Errors
    /// As `ticket`.
    pub(crate) fn cut(&self, families: &[Family]) -> Result<(), TsdbError> {
        let empty = self
            .shared
            .lock()
            .file
            .as_ref()
            .is_some_and(|file| file.strips.is_empty());
        if empty {
            Ok(())
        } else {
            self.move_on(families, |_| true)
        }
    }

    /// Ends the thread after a last fsync; nothing is written from then on.
    ///
    /// # Errors
    /// Fails when that fsync fails or an earlier one did.
    pub(crate) fn close(&self) -> Result<(), TsdbError> {
        let last = self.shared.lock().written;
        let synced = self.sync(last);
        self.stop();
        let mut state = self.shared.lock();
        if !matches!(state.health, Health::Poisoned { .. }) {
            state.health = Health::Poisoned {
                cause: "the database is closed".to_owned(),
            };
        }
        synced
    }

    fn stop(&self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_one();
        let thread = self
            .syncer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic there has poisoned the log by then.
            let _ = thread.join();
        }
    }

    fn rotate(&self, families: &[Family]) -> Result<(), TsdbError> {
        let limit = self.shared.options.file_bytes;
        self.move_on(families, |file| {
            file.is_none_or(|file| file.len_bytes >= limit)
        })
    }

    fn move_on(
        &self,
        families: &[Family],
        still_due: impl Fn(Option<&Current>) -> bool,
    ) -> Result<(), TsdbError> {
        // With the lock taken for writing no writer holds a ticket: no batch is under construction or being written.
        let mut number = self
            .shared
            .file_number
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = self.shared.lock();
        if !still_due(state.file.as_ref()) {
            return Ok(());
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
        match self.shared.create(next, families) {
            Ok(current) => {
                if let Some(old) = state.file.replace(current) {
                    let marks = FileMarks {
                        strips: old.strips,
                        len_bytes: old.len_bytes,
                    };
                    state.closed_files.insert(*number, marks);
                    state.unsynced.push(old.handle);
                }
                state.health = Health::Good;
                *number = next;
                Ok(())
            }
            Err(error) => {
                let path = path_of(&self.shared.dir, next);
                // A name without a file's beginning must not be in the way of the next try.
                let _ = self.shared.io.remove(&path);
                if is_full(&error) {
                    state.health = Health::Full {
                        since: Instant::now(),
                    };
                }
                Err(io_error(path, "create")(error))
            }
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Ticket<'_> {
    /// Returns the number of the file that the records go to.
    pub(crate) fn file(&self) -> u32 {
        *self.file
    }

    /// Appends records and returns when the kernel has them: the batch's number, for `Wal::sync`.
    ///
    /// `marks` says how far the strips in them have come with them.
    ///
    /// # Errors
    /// Fails when they could not be written; none of them will ever be read then.
    pub(crate) fn append(
        self,
        marks: &[(u32, StripMark)],
        write: impl FnOnce(&mut RecordWriter<'_>),
    ) -> Result<u64, TsdbError> {
        let shared = &*self.wal.shared;
        let mut state = shared.lock();
        let State { file, batch, .. } = &mut *state;
        let Some(current) = file.as_mut() else {
            return Err(match &state.health {
                Health::Poisoned { cause } => TsdbError::Poisoned {
                    cause: cause.clone(),
                },
                _ => shared.full_error(),
            });
        };
        if batch.is_empty() {
            batch.resize(BATCH_HEADER_BYTES, 0);
            current.symbols.begin_batch();
        }
        write(&mut RecordWriter {
            symbols: &mut current.symbols,
            out: batch,
        });
        for (strip, mark) in marks {
            current.strips.insert(*strip, *mark);
        }
        let mine = state.building;
        let number = shared.write_until(state, mine)?;
        if shared.options.fsync_interval.is_zero() {
            self.wal.sync(number)?;
        }
        Ok(number)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wal({})", self.dir.display())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn full_error(&self) -> TsdbError {
        io_error(&self.dir, "write")(io::ErrorKind::StorageFull.into())
    }

    /// Creates a file with its header and what every file begins with.
    fn create(&self, number: u32, families: &[Family]) -> io::Result<Current> {
        self.io.create_dir_all(&self.dir)?;
        let handle = self.io.create(&path_of(&self.dir, number))?;
        let mut current = Current {
            number,
            handle,
            len_bytes: 0,
            counter: 0,
            symbols: SymbolWriter::default(),
            strips: HashMap::new(),
        };
        let mut bytes = batch::file_header(number).to_vec();
        if !families.is_empty() {
            let mut first = vec![0; BATCH_HEADER_BYTES];
            let mut writer = RecordWriter {
                symbols: &mut current.symbols,
                out: &mut first,
            };
            families.iter().for_each(|family| writer.family(family));
            batch::seal(&mut first, 0);
            current.counter = 1;
            bytes.extend(first);
        }
        current.handle.append(&bytes)?;
        current.len_bytes = bytes.len() as u64;
        // Before anything in it is acknowledged, so that its name is not what a loss of power takes.
        current.handle.sync()?;
        self.io.sync_dir(&self.dir)?;
        Ok(current)
    }

    /// Returns when batch `mine` was written, writing it where nobody else does.
    fn write_until<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        mine: u64,
    ) -> Result<u64, TsdbError> {
        loop {
            if state.written >= mine {
                return self.outcome(&state, mine);
            }
            if state.writing {
                state.waiters += 1;
                state = self
                    .written
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.waiters -= 1;
                continue;
            }
            state = self.write(state);
        }
    }

    /// Writes the batch under construction.
    fn write<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let number = state.building;
        let spare = std::mem::take(&mut state.spare);
        let mut bytes = std::mem::replace(&mut state.batch, spare);
        state.building += 1;
        state.writing = true;
        let target = state.file.as_mut().map(|file| {
            file.counter = file.counter.wrapping_add(1);
            (
                Arc::clone(&file.handle),
                file.counter.wrapping_sub(1),
                file.len_bytes,
            )
        });
        drop(state);
        let result = match &target {
            Some((handle, counter, _)) => {
                batch::seal(&mut bytes, *counter);
                handle.append(&bytes)
            }
            None => Err(io::ErrorKind::StorageFull.into()),
        };
        let mut state = self.lock();
        match result {
            Ok(()) => {
                self.metrics.wal_written_bytes.inc_by(bytes.len() as u64);
                if let Some(file) = &mut state.file {
                    file.len_bytes += bytes.len() as u64;
                }
            }
            Err(error) => self.give_up(
                &mut state,
                number,
                target.as_ref().map(|(file, _, len)| (file, *len)),
                error,
            ),
        }
        state.written = number;
        state.writing = false;
        bytes.clear();
        if bytes.capacity() <= 1 << 20 {
            state.spare = bytes;
        }
        if state.waiters > 0 {
            self.written.notify_all();
        }
        state
    }

    /// Leaves a file behind to which a batch could not be written.
    fn give_up(
        &self,
        state: &mut State,
        number: u64,
        file: Option<(&Arc<dyn AppendFile>, u64)>,
        error: io::Error,
    ) {
        let (kind, text) = (error.kind(), error.to_string());
        if let Some((file, len_bytes)) = file {
            self.metrics.wal_write_failures.inc();
            let cut = file.truncate(len_bytes);
            state.health = match cut {
                Ok(()) if is_full(&error) => Health::Full {
                    since: Instant::now(),
                },
                Ok(()) => Health::Poisoned {
                    cause: format!("write to the log failed: {error}"),
                },
                Err(again) => Health::Poisoned {
                    cause: format!(
                        "write to the log failed ({error}) and could not be undone: {again}"
                    ),
                },
            };
            if let Some(old) = state.file.take() {
                let marks = FileMarks {
                    strips: old.strips,
                    len_bytes: old.len_bytes,
                };
                state.closed_files.insert(old.number, marks);
                state.unsynced.push(old.handle);
            }
        }
        // Batches after it were built on what it defined; whoever comes next finds no file.
        state.failed.insert(number, Failure { kind, text });
        while state.failed.len() > 64 {
            state.failed.pop_first();
        }
        self.work.notify_one();
        self.synced.notify_all();
    }

    fn outcome(&self, state: &State, number: u64) -> Result<u64, TsdbError> {
        let Some(failure) = state.failed.get(&number) else {
            return Ok(number);
        };
        let error = io::Error::new(failure.kind, failure.text.clone());
        Err(io_error(&self.dir, "write")(error))
    }
}

impl State {
    fn new(closed_files: BTreeMap<u32, FileMarks>) -> Self {
        Self {
            file: None,
            batch: Vec::new(),
            spare: Vec::new(),
            building: 1,
            written: 0,
            synced: 0,
            failed: BTreeMap::new(),
            writing: false,
            waiters: 0,
            unsynced: Vec::new(),
            closed_files,
            health: Health::Good,
            sync_wanted: false,
            stop: false,
        }
    }
}

mod syncer;

#[cfg(test)]
mod tests;
