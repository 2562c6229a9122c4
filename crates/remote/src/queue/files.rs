//! The queue's files: which there are, appending to the newest, giving up the oldest.
//!
//! **Invariant:** numbers ascend and are never used again. A process never continues a file of an earlier one. After a
//! failed write the file is cut back and not continued, so that the dictionary never knows more than the file.

use super::{
    Position, QueueError, Signal,
    dictionary::Dictionary,
    disk::{Disk, RealDisk},
    format::{
        self, ENTRY_BYTES, ENTRY_HEAD_BYTES, HEADER_BYTES, Header, HeaderFault, number_of, path_of,
    },
    pieces::samples_in,
};
use narthex_model::{sync::Whole as _, varint::put_varint};
use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// Most and least bytes of a file, and how many files the bound is divided into between them.
const FILE_BYTES: u64 = 16 << 20;
const LEAST_FILE_BYTES: u64 = 64 << 10;
const FILES: u64 = 16;
/// A file takes this many times the bytes of its definitions, so that they stay a small part.
const DEFINITIONS: u64 = 4;

/// A queue on disk; shared by its writers and readers.
#[derive(Debug)]
pub(crate) struct Queue {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    limit_bytes: AtomicU64,
    /// Samples that were acknowledged or given up, since the queue was created.
    done_samples: AtomicU64,
    state: Mutex<State>,
    /// Raised whenever there is more to read.
    pub(crate) signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    files: VecDeque<KnownFile>,
    active: Option<Active>,
    next_number: u64,
    /// Samples ever appended.
    samples: u64,
    /// Files whose last bytes were not synced.
    unsynced: Vec<File>,
    entry: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct KnownFile {
    number: u64,
    bytes: u64,
    first_sample: u64,
}

/// The file being written.
#[derive(Debug)]
struct Active {
    file: File,
    number: u64,
    first_sample: u64,
    bytes: u64,
    definition_bytes: u64,
    is_dirty: bool,
    dictionary: Dictionary,
}

/// What an append did beside appending.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Appended {
    pub(crate) samples: u64,
    /// Samples given up to stay within the bound.
    pub(crate) given_up: u64,
}

/// What there is to read behind a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ahead {
    /// The file goes on up to this offset.
    Bytes(u64),
    /// The file is done or gone; the next one has this number.
    File(u64),
    Nothing,
}

/// Figures of a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct QueueStatus {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Samples ever appended.
    pub(crate) samples: u64,
    /// Those of them that are in no file any more.
    pub(crate) gone_samples: u64,
}

/// Records of an entry under construction, and the dictionary they refer to.
pub(super) struct Entry<'a> {
    /// Number of the file it will be in.
    pub(super) file: u64,
    pub(super) dictionary: &'a mut Dictionary,
    pub(super) records: &'a mut Vec<u8>,
    /// How many bytes of the records define labels, columns and families.
    pub(super) definition_bytes: &'a mut u64,
}

impl Queue {
    /// Opens the queue in `dir`, which is created if missing.
    ///
    /// `past` is the newest place that the cursor knows: files and samples are numbered from there on. Files without
    /// entries are removed.
    ///
    /// # Errors
    /// Fails if files cannot be listed or read, or are of a newer release.
    pub(crate) fn open(dir: &Path, limit_bytes: u64, past: Position) -> Result<Self, QueueError> {
        Self::open_on(Arc::new(RealDisk), dir, limit_bytes, past)
    }

    pub(super) fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        limit_bytes: u64,
        past: Position,
    ) -> Result<Self, QueueError> {
        fs::create_dir_all(dir).map_err(QueueError::io(dir, "create"))?;
        let mut state = State {
            next_number: past.file + 1,
            samples: past.sample,
            ..State::default()
        };
        let numbers = numbers(dir)?;
        for number in &numbers {
            state.take_file(dir, *number, Some(number) == numbers.last())?;
        }
        Ok(Self {
            dir: dir.to_owned(),
            disk,
            limit_bytes: AtomicU64::new(limit_bytes),
            done_samples: AtomicU64::new(past.sample),
            state: Mutex::new(state),
            signal: Arc::default(),
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sets how many bytes the files may have.
    pub(crate) fn set_limit(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// Returns the place at which the oldest file begins, or the next file will.
    pub(crate) fn oldest(&self) -> Position {
        let state = self.state();
        let (file, sample) = match state.files.front() {
            Some(first) => (first.number, first.first_sample),
            None => (state.next_number, state.samples),
        };
        Position::start_of(file, sample)
    }

    pub(crate) fn status(&self) -> QueueStatus {
        let state = self.state();
        QueueStatus {
            files: state.files.len(),
            bytes: state.bytes(),
            samples: state.samples,
            gone_samples: state.files.front().map_or(0, |file| file.first_sample),
        }
    }

    /// Appends what `write` makes of an entry; it returns the number of its samples, and nothing is written if it is 0
    /// and there are no records.
    ///
    /// # Errors
    /// Fails if the records cannot be made or the entry cannot be written; nothing of it is in the queue then.
    pub(super) fn append(
        &self,
        write: impl FnOnce(&mut Entry<'_>) -> Result<u64, QueueError>,
    ) -> Result<Appended, QueueError> {
        let mut state = self.state();
        let limit_bytes = self.limit_bytes.load(Ordering::Relaxed);
        if state.is_full(limit_bytes) {
            state.retire(&self.dir);
        }
        let samples = state.write(self, write);
        if samples.is_err() {
            // The dictionary may know what the file lacks.
            state.retire(&self.dir);
        }
        let mut appended = Appended {
            samples: samples?,
            given_up: 0,
        };
        let done = self.done_samples.load(Ordering::Relaxed);
        appended.given_up = state.give_up(&self.dir, limit_bytes, done);
        if appended.given_up > 0 {
            let oldest = state.files.front().map_or(0, |file| file.first_sample);
            self.done_samples.fetch_max(oldest, Ordering::Relaxed);
        }
        drop(state);
        self.signal.raise();
        Ok(appended)
    }

    /// Ends the newest file, so that what follows is in another; returns where that one will begin.
    pub(crate) fn rotate(&self) -> Position {
        let mut state = self.state();
        state.retire(&self.dir);
        Position::start_of(state.next_number, state.samples)
    }

    /// Removes the files of which `is_needed` says no; `done_samples` are acknowledged since the queue was created.
    pub(crate) fn release(&self, done_samples: u64, is_needed: impl Fn(u64) -> bool) {
        self.done_samples.fetch_max(done_samples, Ordering::Relaxed);
        let mut state = self.state();
        let active = state.active.as_ref().map(|active| active.number);
        let dir = &self.dir;
        state.files.retain(|file| {
            let stays = Some(file.number) == active || is_needed(file.number);
            if !stays {
                remove(dir, file.number);
            }
            stays
        });
    }

    /// Makes everything appended so far survive a loss of power. A file whose sync failed is not continued.
    pub(crate) fn sync(&self) {
        let (mut files, active) = {
            let mut state = self.state();
            let files = std::mem::take(&mut state.unsynced);
            let active = state.active.as_mut().filter(|active| active.is_dirty);
            let active = active.and_then(|active| {
                active.is_dirty = false;
                Some((active.number, active.file.try_clone().ok()?))
            });
            (files, active)
        };
        let number = active.as_ref().map(|(number, _)| *number);
        files.extend(active.map(|(_, file)| file));
        for file in files {
            if let Err(error) = self.disk.sync(&file) {
                tracing::error!(
                    directory = self.dir.display().to_string(),
                    %error,
                    "What waits for a remote end may not survive a loss of power: an fsync failed."
                );
                let mut state = self.state();
                if state.active.as_ref().map(|active| active.number) == number {
                    state.retire(&self.dir);
                }
            }
        }
    }

    /// Returns what there is to read in a file behind an offset.
    pub(super) fn ahead(&self, number: u64, offset: u64) -> Ahead {
        let state = self.state();
        let at = state.files.partition_point(|file| file.number < number);
        match state.files.get(at) {
            Some(file) if file.number > number => Ahead::File(file.number),
            Some(file) if offset < file.bytes => Ahead::Bytes(file.bytes),
            _ => state
                .files
                .get(at + 1)
                .map_or(Ahead::Nothing, |file| Ahead::File(file.number)),
        }
    }

    /// Returns the number of samples before a file, if it is known.
    pub(super) fn first_sample(&self, number: u64) -> Option<u64> {
        let state = self.state();
        let file = state.files.iter().find(|file| file.number == number)?;
        Some(file.first_sample)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A file is continued only after a whole append; a panic in one leaves at worst an unused definition, and that
        // file is not continued.
        self.state.lock().unwrap_or_else(|_| {
            let mut state = self.state.lock().whole();
            state.retire(&self.dir);
            self.state.clear_poison();
            state
        })
    }
}

impl State {
    /// Registers a file of an earlier process.
    fn take_file(&mut self, dir: &Path, number: u64, is_last: bool) -> Result<(), QueueError> {
        let path = path_of(dir, number);
        let file = File::open(&path).map_err(QueueError::io(&path, "open"))?;
        let bytes = file
            .metadata()
            .map_err(QueueError::io(&path, "stat"))?
            .len();
        let mut header = [0; HEADER_BYTES];
        let read = file.read_exact_at(&mut header, 0);
        let first_sample = match read.ok().map(|()| Header::decode(&header)) {
            Some(Ok(header)) => header.first_sample,
            Some(Err(HeaderFault::Newer(version))) => {
                return Err(QueueError::Newer { path, version });
            }
            // The reader reports it. Its entries may be intact.
            Some(Err(HeaderFault::Damaged)) | None => self.samples,
        };
        self.next_number = self.next_number.max(number + 1);
        self.samples = self.samples.max(first_sample);
        if is_last {
            // The next file's header tells how many samples this one has; for the last file there is none.
            let samples = samples_in(&file, bytes).map_err(QueueError::io(&path, "read"))?;
            self.samples = self.samples.max(first_sample.saturating_add(samples));
        }
        if bytes <= HEADER_BYTES as u64 {
            remove(dir, number);
            return Ok(());
        }
        self.files.push_back(KnownFile {
            number,
            bytes,
            first_sample,
        });
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reports whether the newest file has as much as it may have.
    fn is_full(&self, limit_bytes: u64) -> bool {
        let Some(active) = &self.active else {
            return false;
        };
        let most = FILE_BYTES.max(DEFINITIONS * active.definition_bytes);
        let share = (limit_bytes / FILES).max(LEAST_FILE_BYTES.min(limit_bytes / 4));
        active.bytes >= most.min(share)
    }

    /// Writes one entry to the newest file, which is created if there is none.
    fn write(
        &mut self,
        queue: &Queue,
        write: impl FnOnce(&mut Entry<'_>) -> Result<u64, QueueError>,
    ) -> Result<u64, QueueError> {
        if self.active.is_none() {
            self.active = Some(self.create(queue)?);
        }
        let mut records = std::mem::take(&mut self.entry);
        records.clear();
        let Some(active) = &mut self.active else {
            return Ok(0);
        };
        active.dictionary.begin_entry();
        let mut entry = Entry {
            file: active.number,
            dictionary: &mut active.dictionary,
            records: &mut records,
            definition_bytes: &mut active.definition_bytes,
        };
        let samples = write(&mut entry)?;
        if records.is_empty() {
            self.entry = records;
            return Ok(0);
        }
        let framed = frame(self.samples - active.first_sample, samples, &records)?;
        let path = path_of(&queue.dir, active.number);
        if let Err(source) = queue.disk.append(&active.file, &framed) {
            // What was written of it must not stay. If it cannot be cut off, readers take it for a torn end.
            let _ = active.file.set_len(active.bytes);
            return Err(QueueError::io(path, "write")(source));
        }
        active.bytes += framed.len() as u64;
        active.is_dirty = true;
        self.samples += samples;
        let bytes = active.bytes;
        if let Some(file) = self.files.back_mut() {
            file.bytes = bytes;
        }
        self.entry = records;
        Ok(samples)
    }

    fn create(&mut self, queue: &Queue) -> Result<Active, QueueError> {
        let number = self.next_number;
        let path = path_of(&queue.dir, number);
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(QueueError::io(&path, "create"))?;
        self.next_number += 1;
        let header = Header {
            number,
            first_sample: self.samples,
        };
        if let Err(source) = queue.disk.append(&file, &header.encode()) {
            remove(&queue.dir, number);
            return Err(QueueError::io(path, "write")(source));
        }
        self.files.push_back(KnownFile {
            number,
            bytes: HEADER_BYTES as u64,
            first_sample: self.samples,
        });
        Ok(Active {
            file,
            number,
            first_sample: self.samples,
            bytes: HEADER_BYTES as u64,
            definition_bytes: 0,
            is_dirty: true,
            dictionary: Dictionary::default(),
        })
    }

    /// Ends the newest file; one without entries is removed.
    fn retire(&mut self, dir: &Path) {
        let Some(active) = self.active.take() else {
            return;
        };
        if active.bytes == HEADER_BYTES as u64 {
            self.files.pop_back();
            remove(dir, active.number);
        } else if active.is_dirty {
            self.unsynced.push(active.file);
        }
    }

    /// Removes the oldest files until the bound holds; returns how many samples are lost with them.
    fn give_up(&mut self, dir: &Path, limit_bytes: u64, done: u64) -> u64 {
        let (mut bytes, mut lost) = (self.bytes(), 0);
        while bytes > limit_bytes && self.files.len() > 1 {
            let Some(oldest) = self.files.pop_front() else {
                break;
            };
            let end = self
                .files
                .front()
                .map_or(self.samples, |next| next.first_sample);
            lost += end.saturating_sub(oldest.first_sample.max(done));
            bytes -= oldest.bytes;
            remove(dir, oldest.number);
        }
        lost
    }
}

/// Returns an entry with its head; `first` samples of the file precede it.
fn frame(first: u64, samples: u64, records: &[u8]) -> Result<Vec<u8>, QueueError> {
    let mut framed = Vec::with_capacity(ENTRY_HEAD_BYTES + 20 + records.len());
    let start = format::begin_entry(&mut framed);
    put_varint(&mut framed, first);
    put_varint(&mut framed, samples);
    framed.extend_from_slice(records);
    if format::end_entry(&mut framed, start) {
        return Ok(framed);
    }
    Err(QueueError::Encode {
        detail: format!("it takes more than {ENTRY_BYTES} bytes"),
    })
}

/// Returns the numbers of the files in `dir`, ascending.
fn numbers(dir: &Path) -> Result<Vec<u64>, QueueError> {
    let list = || -> std::io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir)? {
            numbers.extend(number_of(&entry?.path()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    };
    list().map_err(QueueError::io(dir, "list"))
}

fn remove(dir: &Path, number: u64) {
    let path = path_of(dir, number);
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(file = path.display().to_string(), %error, "A file of a remote write queue cannot be removed.");
    }
}
