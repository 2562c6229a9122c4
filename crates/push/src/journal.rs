//! The journal: every change of a group, appended before it is acknowledged. See docs/format/push-journal.md.
//!
//! From time to time it is rewritten, group by group, while pushes go on: once a group has been written to the new
//! file, its records go to both.
//!
//! **Invariant:** when `append` succeeds, the kernel has the whole record. A failed fsync poisons the journal until a
//! restart; a failed write leaves nothing of the record, or poisons the journal too.

use crate::record::{self, Groups};
use narthex_model::sync::Whole as _;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Write as _},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

const MAGIC: [u8; 8] = *b"NRTHXPSH";
const VERSION: u32 = 2;
/// Oldest version that is read.
const OLDEST_VERSION: u32 = 1;
const HEADER_BYTES: u64 = 16;
const FRAME_BYTES: usize = 8;
/// Longest record, in bytes; the limit on bodies is lower.
const RECORD_BYTES: usize = 1 << 30;
/// The journal is rewritten when it exceeds twice its size after the last rewrite by this many bytes.
const GROWTH_BYTES: u64 = 8 << 20;

/// Fault at the end of a file after a crash.
const TORN: &str = "the file ends in the middle of a record";

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    files: Mutex<Files>,
    /// Number of the newest file.
    number: AtomicU64,
}

#[derive(Debug)]
struct Files {
    current: Log,
    /// The file being written to replace the current one.
    next: Option<Log>,
    /// Size of the current file when it was new.
    base_bytes: u64,
    is_dirty: bool,
    poison: Option<String>,
}

#[derive(Debug)]
struct Log {
    file: File,
    bytes: u64,
}

/// Result of reading a journal.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) groups: Groups,
    pub(crate) records: usize,
    /// Offset and description of each damaged place.
    pub(crate) faults: Vec<(u64, String)>,
    /// Whether the file has an older version, which no record may be appended to.
    pub(crate) is_old: bool,
    /// End of the intact part.
    good_bytes: u64,
}

impl Journal {
    /// Creates the journal at `path` with these records. It gets its name once all of them are on the disk, so that a
    /// crash leaves either the whole journal or none.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub(crate) fn create(path: &Path, records: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
        let next = next_path(path);
        let write = || {
            let mut out = BufWriter::new(File::create(&next)?);
            out.write_all(&header())?;
            for record in records {
                out.write_all(&frame(&record))?;
            }
            out.into_inner()?.sync_data()?;
            fs::rename(&next, path)?;
            sync_directory(path)
        };
        write().map_err(named(path))
    }

    /// Opens the journal at `path`; returns its contents.
    ///
    /// # Errors
    /// Fails when the file cannot be read or written, or is not a journal of a known version.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Replay)> {
        // Left over from an unfinished rewrite.
        let _ = fs::remove_file(next_path(path));
        let open = || {
            let replay = read(&mut BufReader::new(File::open(path)?))?;
            if replay.is_damaged() {
                // Keep a copy for inspection: the unreadable part is cut off below.
                fs::copy(path, damaged_path(path))?;
            }
            let file = OpenOptions::new().append(true).open(path)?;
            file.set_len(replay.good_bytes)?;
            let bytes = replay.good_bytes;
            Ok((replay, Log { file, bytes }))
        };
        let (replay, log) = open().map_err(named(path))?;
        let files = Files {
            current: log,
            next: None,
            base_bytes: 0,
            is_dirty: true,
            poison: None,
        };
        let journal = Self {
            path: path.to_owned(),
            files: Mutex::new(files),
            number: AtomicU64::new(1),
        };
        Ok((journal, replay))
    }

    /// Appends a record of a group that is wholly in file number `number`.
    ///
    /// # Errors
    /// Returns why it could not be written; the journal is unchanged then.
    pub(crate) fn append(&self, record: &[u8], number: u64) -> Result<(), String> {
        let framed = frame(record);
        let mut files = self.files.lock().whole();
        if let Some(poison) = &files.poison {
            return Err(poison.clone());
        }
        if let Err((error, is_torn)) = files.current.append(&framed) {
            if is_torn {
                files.poison = Some(format!("a record is torn: {error}"));
            }
            return Err(error.to_string());
        }
        files.is_dirty = true;
        if number == self.number() {
            self.append_next(&mut files, &framed);
        }
        Ok(())
    }

    fn append_next(&self, files: &mut Files, framed: &[u8]) {
        if let Some(next) = &mut files.next
            && let Err((error, _)) = next.append(framed)
        {
            tracing::warn!(%error, "The push journal cannot be written anew; it goes on as it is.");
            files.next = None;
            let _ = fs::remove_file(next_path(&self.path));
        }
    }

    /// Returns the number of the newest file.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Syncs the journal to disk.
    ///
    /// # Errors
    /// Fails when the sync fails; from then on every append fails too.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let file = {
            let mut files = self.files.lock().whole();
            if !std::mem::take(&mut files.is_dirty) || files.poison.is_some() {
                return Ok(());
            }
            files.current.file.try_clone()?
        };
        file.sync_data().inspect_err(|error| {
            let text = format!("an fsync failed: {error}");
            self.files.lock().whole().poison = Some(text);
        })
    }

    /// Reports whether the journal is due for a rewrite.
    pub(crate) fn is_long(&self) -> bool {
        let files = self.files.lock().whole();
        files.poison.is_none() && files.current.bytes > files.base_bytes * 2 + GROWTH_BYTES
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.lock().whole().current.bytes
    }

    /// Begins a rewrite.
    ///
    /// # Errors
    /// Fails when the new file cannot be created.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let next = Log::create(&next_path(&self.path))?;
        let mut files = self.files.lock().whole();
        files.next = Some(next);
        self.number.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Appends a record to the new file only.
    pub(crate) fn carry_over(&self, record: &[u8]) {
        let framed = frame(record);
        self.append_next(&mut self.files.lock().whole(), &framed);
    }

    /// Replaces the old file by the new one.
    ///
    /// # Errors
    /// Fails when it cannot be replaced; the old one stays.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let file = {
            let files = self.files.lock().whole();
            let Some(next) = &files.next else {
                return Ok(());
            };
            next.file.try_clone()?
        };
        file.sync_data()?;
        let mut files = self.files.lock().whole();
        let Some(next) = files.next.take() else {
            return Ok(());
        };
        fs::rename(next_path(&self.path), &self.path)?;
        files.base_bytes = next.bytes;
        files.current = next;
        files.is_dirty = true;
        drop(files);
        sync_directory(&self.path)
    }
}

/// Syncs the directory of a file, so that its name survives a crash.
fn sync_directory(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns what puts a file's name into an error.
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Replay {
    /// Reports whether there is damage other than the torn end a crash leaves.
    fn is_damaged(&self) -> bool {
        self.faults.iter().any(|(_, what)| what != TORN)
    }
}

impl Log {
    fn create(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(path)?;
        file.write_all(&header())?;
        Ok(Self {
            file: OpenOptions::new().append(true).open(path)?,
            bytes: HEADER_BYTES,
        })
    }

    /// Appends bytes; an error comes with whether a part of them was written.
    fn append(&mut self, bytes: &[u8]) -> Result<(), (io::Error, bool)> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.bytes += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                let is_torn = self.file.set_len(self.bytes).is_err();
                Err((error, is_torn))
            }
        }
    }
}

/// Returns the path under which a damaged journal is kept.
pub(crate) fn damaged_path(path: &Path) -> PathBuf {
    with_ending(path, ".damaged")
}

fn next_path(path: &Path) -> PathBuf {
    with_ending(path, ".new")
}

/// Returns the path of a file beside this one.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn header() -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32c(&[&header[..12]]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Returns a record with its length and checksum.
pub(crate) fn frame(record: &[u8]) -> Vec<u8> {
    let len = u32::try_from(record.len())
        .expect("a record is below 1 GiB")
        .to_le_bytes();
    let crc = crc32c(&[&len, record]).to_le_bytes();
    [&len[..], &crc, record].concat()
}

fn crc32c(parts: &[&[u8]]) -> u32 {
    parts
        .iter()
        .fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// Reads a journal to its end.
///
/// A record with a wrong checksum is skipped if another one follows; otherwise the file ends there, as after a crash.
///
/// # Errors
/// Fails when the journal cannot be read, or has another header.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Replay> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidData, text));
    let mut head = [0; HEADER_BYTES as usize];
    from.read_exact(&mut head)?;
    if head[..8] != MAGIC || crc32c(&[&head[..12]]).to_le_bytes() != head[12..] {
        return invalid("not a push journal, or its header is damaged".to_owned());
    }
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return invalid(format!(
            "a push journal of version {version}, not {OLDEST_VERSION} to {VERSION}"
        ));
    }
    let mut replay = Replay {
        good_bytes: HEADER_BYTES,
        is_old: version < VERSION,
        ..Replay::default()
    };
    let mut at = HEADER_BYTES;
    let mut pending: Option<(u64, String)> = None;
    let mut record = Vec::new();
    loop {
        let mut frame = [0; FRAME_BYTES];
        let got = read_full(from, &mut frame)?;
        if got == 0 {
            break;
        }
        let len = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
        record.clear();
        let is_whole = got == FRAME_BYTES
            && len <= RECORD_BYTES
            && from.by_ref().take(len as u64).read_to_end(&mut record)? == len;
        if !is_whole {
            pending = pending.or(Some((at, TORN.to_owned())));
            break;
        }
        if crc32c(&[&frame[..4], &record]).to_le_bytes() != frame[4..] {
            pending = pending.or(Some((at, "a record with another checksum".to_owned())));
            at += (FRAME_BYTES + len) as u64;
            continue;
        }
        replay.faults.extend(pending.take());
        if let Err(reason) = record::apply(&record, &mut replay.groups) {
            replay.faults.push((at, reason.to_owned()));
        }
        replay.records += 1;
        at += (FRAME_BYTES + len) as u64;
        replay.good_bytes = at;
    }
    replay.faults.extend(pending);
    Ok(replay)
}

/// Reads until the buffer is full or the input ends; returns the number of bytes.
fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match from.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
