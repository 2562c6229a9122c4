//! Appending to the WAL: batches shared by concurrent writers, fsync in the background.
//!
//! A writer takes a [`Ticket`], builds its records under the log's lock, lets go of everything that readers need, and
//! waits until their batch has reached the kernel; a writer that finds no write in progress writes for all.
//!
//! **Invariant:** batches reach the file in the order of their numbers; a batch whose write failed is truncated and
//! the file never continued, because readers do not know what it defined. After a failed fsync, or a write that
//! failed for another reason than a full disk, nothing more is written.

use super::{
    path_of,
    pieces::{Addition, Batches},
    record::RecordWriter,
    symbols::{Identity, SymbolWriter},
};
use crate::sync::Guarded as _;
use crate::{
    error::{TsdbError, io_error},
    io::{AppendFile, Io},
    metrics::Metrics,
};
use narthex_model::metadata::Family;
use narthex_model::sync::Whole as _;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Options of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalOptions {
    /// Size at which a file is followed by another.
    pub(crate) file_bytes: u64,
    /// Time between fsyncs; with zero every append waits for one.
    pub(crate) fsync_interval: Duration,
}

/// Progress of a strip in a file or in blocks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct StripMark {
    /// Rows since the strip was created.
    pub(crate) rows: u64,
    /// Out-of-order samples since the strip was created.
    pub(crate) out_of_order: u64,
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
    /// Number of the file being written. Writers hold it for reading from their ticket to their write's end.
    file_number: RwLock<u32>,
    /// Columns in the head, as far as known.
    live_columns: AtomicU64,
    state: Mutex<State>,
    written: Condvar,
    synced: Condvar,
    /// Wakes the syncer.
    work: Condvar,
}

struct State {
    /// `None` after a failed write, until another file is created.
    file: Option<Current>,
    /// Batches of the next write; empty when nothing was added.
    batch: Batches,
    spare: Batches,
    /// Number of the write under construction, counted from 1 over all files of this process.
    building: u64,
    written: u64,
    synced: u64,
    failed: BTreeMap<u64, Failure>,
    writing: bool,
    waiters: usize,
    closed_files: BTreeMap<u32, FileMarks>,
    /// File with a failed write; closed once another is created.
    abandoned: Option<Current>,
    health: Health,
    /// Time since which another file is due but could not be created.
    stuck_since: Option<Instant>,
    sync_wanted: bool,
    stop: bool,
}

struct Current {
    number: u32,
    handle: Arc<dyn AppendFile>,
    len_bytes: u64,
    counter: u16,
    symbols: SymbolWriter,
    /// Strips that have left the head though the file mentions them.
    gone: HashMap<u32, StripMark>,
}

/// Progress of each strip at the end of a file.
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

/// The log's view of the head, queried when it moves on to another file.
pub(crate) trait Content {
    /// Lists the families with which every file begins.
    fn families(&self) -> Vec<Family>;

    /// Returns the progress of the strips that were written to file `number`.
    fn marks(&self, number: u32) -> HashMap<u32, StripMark>;
}

/// The right to append one batch's worth of records to the file numbered `file`.
///
/// While it lives no other file follows, so its holder keeps it until strips say what the file has.
pub(crate) struct Ticket<'w> {
    wal: &'w Wal,
    file: RwLockReadGuard<'w, u32>,
}

/// Poisons the log when it is dropped by a panic.
#[must_use]
pub(crate) struct PoisonOnPanic<'w> {
    shared: &'w Shared,
    doing: &'static str,
}

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared
                .poison(format!("a panic while {}; the log says where", self.doing));
        }
    }
}

/// Wait before a write is retried on a full disk, and before another file is tried.
const RETRY: Duration = Duration::from_millis(500);
/// A file may grow to this many times its size while no other can be created.
const OVERDUE: u64 = 8;
/// A file is as long as this many times what the next one will say again: a head of a million series with labels of
/// their own takes tens of megabytes to name, and some for each round.
const IDENTITY_SHARE: u64 = 4;
/// Free bytes below which a full disk is still full.
const FULL_RESERVE_BYTES: u64 = 1 << 20;

impl Wal {
    /// Starts a file numbered `number`, which begins with `families`, and the thread that syncs.
    ///
    /// `older` describes the earlier files.
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
            live_columns: AtomicU64::new(u64::MAX),
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
            .spawn(move || {
                let _guard = of_thread.guard("making the log durable");
                of_thread.sync_forever();
            })
            .map_err(io_error(dir, "start the fsync thread for"))?;
        Ok(Self {
            shared,
            syncer: Mutex::new(Some(syncer)),
        })
    }

    /// Returns a ticket for one append, moving on to the next file first if that is due.
    ///
    /// # Errors
    /// Fails when the log is poisoned or the disk is full.
    pub(crate) fn ticket(&self, content: &dyn Content) -> Result<Ticket<'_>, TsdbError> {
        loop {
            let file = self.shared.file_number.read().whole();
            let state = self.shared.lock();
            match &state.health {
                Health::Good => {}
                Health::Poisoned { cause } => {
                    return Err(TsdbError::Poisoned {
                        cause: cause.clone(),
                    });
                }
                Health::Full { since } if since.elapsed() < RETRY => {
                    return Err(self.shared.full_error());
                }
                Health::Full { .. } => {}
            }
            let due = match &state.file {
                None => true,
                Some(file) => {
                    let stuck = state.stuck_since.is_some_and(|at| at.elapsed() < RETRY);
                    self.is_long(file) && !(stuck && self.may_go_on(file))
                }
            };
            drop(state);
            if !due {
                return Ok(Ticket { wal: self, file });
            }
            drop(file);
            self.rotate(content)?;
        }
    }

    /// Reports whether another file should follow this one: as soon as it has its size, unless most of that is what
    /// the next one will say again.
    fn is_long(&self, file: &Current) -> bool {
        let size = self.shared.options.file_bytes;
        let most = size.saturating_mul(OVERDUE / 2);
        file.len_bytes >= size.max(self.worth_bytes(file)).min(most)
    }

    /// Returns the length below which another file would mostly repeat what this one says about series that are alive.
    fn worth_bytes(&self, file: &Current) -> u64 {
        let Identity { columns, bytes } = file.symbols.identity();
        let live = self.shared.live_columns.load(Ordering::Relaxed);
        let again = u128::from(bytes) * u128::from(live.min(columns)) / u128::from(columns.max(1));
        u64::try_from(again)
            .unwrap_or(u64::MAX)
            .saturating_mul(IDENTITY_SHARE)
    }

    /// Records how many columns the next file will name.
    pub(crate) fn note_live(&self, columns: usize) {
        let live = &self.shared.live_columns;
        live.store(columns as u64, Ordering::Relaxed);
    }

    /// Reports whether a full file may be continued, because another cannot be created.
    fn may_go_on(&self, file: &Current) -> bool {
        file.len_bytes < self.shared.options.file_bytes.saturating_mul(OVERDUE)
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
            state = self.shared.synced.wait(state).guarded();
        }
        Ok(())
    }

    /// Returns the reason nothing can be written, if there is one.
    pub(crate) fn poisoned(&self) -> Option<String> {
        match &self.shared.lock().health {
            Health::Poisoned { cause } => Some(cause.clone()),
            _ => None,
        }
    }

    /// Poisons the log if the caller panics before it drops the result: its change is then half-done.
    pub(crate) fn guard(&self, doing: &'static str) -> PoisonOnPanic<'_> {
        self.shared.guard(doing)
    }

    /// Returns the bytes of all files.
    pub(crate) fn len_bytes(&self) -> u64 {
        let state = self.shared.lock();
        let open = state.file.iter().chain(&state.abandoned);
        let current: u64 = open.map(|file| file.len_bytes).sum();
        state
            .closed_files
            .values()
            .map(|file| file.len_bytes)
            .sum::<u64>()
            + current
    }

    /// Ends the thread after a last fsync; nothing is written afterwards.
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
        drop(state);
        // A waiter that came in between would wait for a thread that is gone.
        self.shared.synced.notify_all();
        synced
    }

    fn stop(&self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_one();
        let thread = self.syncer.lock().whole().take();
        if let Some(thread) = thread {
            // A panic there has already poisoned the log.
            let _ = thread.join();
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

    /// Poisons the log like [`Wal::guard`].
    pub(crate) fn guard(&self, doing: &'static str) -> PoisonOnPanic<'_> {
        self.wal.guard(doing)
    }

    /// Adds records to the next write; returns its number, for [`wait`](Self::wait), which must follow.
    ///
    /// # Errors
    /// Fails when nothing can be written to the file, or a record is longer than any reader accepts.
    ///
    /// # Panics
    /// Panics when `write` does; its own additions are rolled back, those of others stay.
    pub(crate) fn add(&self, write: impl FnOnce(&mut RecordWriter<'_>)) -> Result<u64, TsdbError> {
        let shared = &*self.wal.shared;
        let mut state = shared.lock();
        let State { file, batch, .. } = &mut *state;
        let Some(current) = file.as_mut() else {
            return Err(shared.refusal(&state));
        };
        let addition = Addition::new(batch, &mut current.symbols);
        write(&mut RecordWriter {
            symbols: &mut *addition.symbols,
            out: &mut *addition.batches,
        });
        addition.keep()?;
        Ok(state.building)
    }

    /// Waits until the kernel has write `number`, and the disk if appends wait for that; returns the number, for
    /// `Wal::sync`.
    ///
    /// # Errors
    /// Fails when it could not be written; then none of its records will ever be read, unless only the fsync failed.
    pub(crate) fn wait(&self, number: u64) -> Result<u64, TsdbError> {
        let shared = &*self.wal.shared;
        let (state, written) = shared.write_until(shared.lock(), number);
        drop(state);
        let number = written?;
        if shared.options.fsync_interval.is_zero() {
            self.wal.sync(number)?;
        }
        Ok(number)
    }

    /// Waits like [`wait`](Self::wait) for everything that was added before, by anybody.
    ///
    /// # Errors
    /// Fails when any of it could not be written.
    pub(crate) fn wait_for_all(&self) -> Result<(), TsdbError> {
        let shared = &*self.wal.shared;
        let state = shared.lock();
        let added = state.building - u64::from(state.batch.is_empty());
        let (state, written) = shared.write_until(state, added);
        written?;
        if state.file.is_none() {
            // An earlier write failed: no file follows while there is a ticket.
            return Err(shared.refusal(&state));
        }
        drop(state);
        if shared.options.fsync_interval.is_zero() {
            self.wal.sync(added)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wal({})", self.dir.display())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().guarded()
    }

    fn guard(&self, doing: &'static str) -> PoisonOnPanic<'_> {
        PoisonOnPanic {
            shared: self,
            doing,
        }
    }

    /// Ends all writing until a restart and wakes the waiters.
    fn poison(&self, cause: String) {
        let mut state = self.lock();
        if !matches!(state.health, Health::Poisoned { .. }) {
            state.health = Health::Poisoned { cause };
        }
        // The writer itself may have panicked: nobody must wait for it, or write after it.
        state.writing = false;
        if let Some(file) = state.file.take() {
            state.abandoned = Some(file);
        }
        drop(state);
        self.written.notify_all();
        self.synced.notify_all();
        self.work.notify_one();
    }

    /// Returns the error of writing to a file that is no longer written to.
    fn refusal(&self, state: &State) -> TsdbError {
        match &state.health {
            Health::Poisoned { cause } => TsdbError::Poisoned {
                cause: cause.clone(),
            },
            _ => self.full_error(),
        }
    }

    fn full_error(&self) -> TsdbError {
        io_error(&self.dir, "write")(io::ErrorKind::StorageFull.into())
    }
}

impl State {
    fn new(closed_files: BTreeMap<u32, FileMarks>) -> Self {
        Self {
            file: None,
            batch: Batches::default(),
            spare: Batches::default(),
            building: 1,
            written: 0,
            synced: 0,
            failed: BTreeMap::new(),
            writing: false,
            waiters: 0,
            closed_files,
            abandoned: None,
            health: Health::Good,
            stuck_since: None,
            sync_wanted: false,
            stop: false,
        }
    }
}

mod files;
mod syncer;
mod write;

#[cfg(test)]
mod tests;
