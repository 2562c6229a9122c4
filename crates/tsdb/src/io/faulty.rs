//! An in-memory file system that fails on demand, for testing everything that must survive failures.
//!
//! **Invariant:** after `power_loss` exactly the names made durable by `sync_dir` and the bytes made durable by
//! `sync` remain, plus, if requested, a part of later appends and renames: a different part for each file, so that
//! no code can rely on an order between files that no sync made.

mod script;

pub use script::{Fault, Gate, Op};

use super::{AppendFile, FileIdentity, Io, Lock, ReadFile};
use narthex_model::sync::Whole as _;
use script::{Effect, Script};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// A scriptable file system in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct FaultyIo(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct Disk {
    files: BTreeMap<u64, Content>,
    visible: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    dirs: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    /// Changes of names since the last `sync_dir`, oldest first.
    pending: Vec<NameChange>,
    next_file: u64,
    /// Changing operations so far: create, append, truncate, rename, remove, sync, sync_dir.
    operations: u64,
    /// Reads of files so far.
    reads: u64,
    script: Script,
    syncs_fail: bool,
    capacity_bytes: u64,
    /// Descriptors in use, and their limit.
    open_files: usize,
    most_open: usize,
    most_read_bytes: usize,
    /// Increases with every power loss; older handles are dead.
    epoch: u64,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced_bytes: usize,
}

#[derive(Clone, Debug)]
enum NameChange {
    Appeared(PathBuf, u64),
    Moved(PathBuf, PathBuf),
    Gone(PathBuf),
}

/// Unsynced bytes that survive a loss of power.
#[derive(Clone, Copy, Debug)]
pub enum PowerLoss {
    /// Nothing.
    DropUnsynced,
    /// At most this many bytes of each file's unsynced tail.
    KeepBytes(usize),
    /// At most this many bytes, with the byte at this index of the unsynced tail garbled.
    Garble(usize, usize),
    /// Any part of each file's unsynced tail, and any number of the oldest changes of names; chosen by this seed.
    Shuffle(u64),
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            visible: BTreeMap::new(),
            durable: BTreeMap::new(),
            dirs: BTreeSet::new(),
            locks: BTreeSet::new(),
            pending: Vec::new(),
            next_file: 0,
            operations: 0,
            reads: 0,
            script: Script::default(),
            syncs_fail: false,
            capacity_bytes: u64::MAX,
            open_files: 0,
            most_open: usize::MAX,
            most_read_bytes: usize::MAX,
            epoch: 0,
        }
    }
}

impl FaultyIo {
    /// Returns an empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of reads of files attempted so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.disk().reads
    }

    /// Returns the number of changing operations attempted so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// Adds a fault; earlier ones stay.
    pub fn inject(&self, fault: Fault) {
        self.disk().script.add(fault);
    }

    /// Makes the `n`th changing operation from here fail with an input/output error (0: the next).
    pub fn fail_operation(&self, n: u64) {
        self.inject(Fault::on_change().after(n));
    }

    /// Makes the `n`th changing operation from here, if it appends, write only `bytes` bytes and fail.
    pub fn tear_operation(&self, n: u64, bytes: usize) {
        self.inject(Fault::on_change().after(n).torn(bytes));
    }

    /// Removes every fault that has not happened.
    pub fn clear_faults(&self) {
        let mut disk = self.disk();
        disk.script.clear();
        disk.syncs_fail = false;
    }

    /// Limits the files, directories and locks that may be open at once, as RLIMIT_NOFILE does.
    pub fn set_most_open(&self, files: usize) {
        self.disk().most_open = files;
    }

    /// Returns the number of open files and locks.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.disk().open_files
    }

    /// Makes reads return at most `bytes` bytes at once.
    pub fn set_most_read(&self, bytes: usize) {
        self.disk().most_read_bytes = bytes.max(1);
    }

    /// Makes every `sync` fail from here on, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        self.disk().syncs_fail = fail;
    }

    /// Limits the disk to `bytes` in all files together; an append beyond writes the part that fits and fails.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk().capacity_bytes = bytes;
    }

    /// Returns the bytes in all files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.disk().used_bytes()
    }

    /// Cuts the power: drops unsynced data and locks; older handles fail from here on.
    pub fn power_loss(&self, kept: PowerLoss) {
        let mut disk = self.disk();
        disk.restart();
        let mut random = match kept {
            PowerLoss::Shuffle(seed) => seed,
            _ => 0,
        };
        let mut below = |bound: usize| {
            // SplitMix64: this file cannot depend on the better generator of the crate's tests.
            random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % (bound as u64 + 1)) as usize
        };
        let pending = std::mem::take(&mut disk.pending);
        if matches!(kept, PowerLoss::Shuffle(_)) {
            let survive = below(pending.len());
            for change in pending.into_iter().take(survive) {
                disk.survive(change);
            }
        }
        disk.visible = disk.durable.clone();
        let live: BTreeSet<u64> = disk.visible.values().copied().collect();
        disk.files.retain(|id, _| live.contains(id));
        for content in disk.files.values_mut() {
            let synced = content.synced_bytes;
            match kept {
                PowerLoss::DropUnsynced => content.bytes.truncate(synced),
                PowerLoss::KeepBytes(bytes) => content.bytes.truncate(synced + bytes),
                PowerLoss::Shuffle(_) => {
                    let unsynced = content.bytes.len() - synced;
                    content.bytes.truncate(synced + below(unsynced));
                }
                PowerLoss::Garble(bytes, at) => {
                    content.bytes.truncate(synced + bytes);
                    if let Some(byte) = content.bytes.get_mut(synced + at) {
                        *byte ^= 0x55;
                    }
                }
            }
            content.synced_bytes = content.bytes.len();
        }
    }

    /// Ends the process without a loss of power: handles die, bytes stay.
    pub fn kill(&self) {
        self.disk().restart();
    }

    /// Returns the bytes of a file.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk();
        let id = disk.visible.get(path)?;
        Some(disk.files[id].bytes.clone())
    }

    /// Replaces the bytes of a file (or creates it), durably.
    pub fn put_file(&self, path: &Path, bytes: Vec<u8>) {
        let mut disk = self.disk();
        let id = disk.new_file();
        let synced_bytes = bytes.len();
        disk.files.insert(
            id,
            Content {
                bytes,
                synced_bytes,
            },
        );
        disk.visible.insert(path.to_owned(), id);
        disk.durable.insert(path.to_owned(), id);
        disk.pending
            .retain(|change| !matches!(change, NameChange::Appeared(other, _) if other == path));
        let mut dir = path.parent();
        while let Some(parent) = dir {
            disk.dirs.insert(parent.to_owned());
            dir = parent.parent();
        }
    }

    /// Returns the paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disk().visible.keys().cloned().collect()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().whole()
    }

    /// Counts an operation and applies a due fault; returns the disk, and for an append to be torn the number of bytes
    /// to write.
    fn begin(&self, op: Op, path: &Path) -> io::Result<(MutexGuard<'_, Disk>, Option<usize>)> {
        let mut disk = self.disk();
        disk.operations += u64::from(op.is_change());
        disk.reads += u64::from(op == Op::Read);
        let effect = disk.script.next(op, path);
        if op.takes_descriptor() && disk.open_files >= disk.most_open {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        match effect {
            None => Ok((disk, None)),
            Some(Effect::Fail(None)) => Err(failure()),
            Some(Effect::Fail(Some(errno))) => Err(io::Error::from_raw_os_error(errno)),
            Some(Effect::Torn(bytes)) if op == Op::Append => Ok((disk, Some(bytes))),
            Some(Effect::Torn(_)) => Err(failure()),
            Some(Effect::Hang(gate)) => {
                drop(disk);
                gate.pass()?;
                Ok((self.disk(), None))
            }
        }
    }

    fn handle(&self, mut disk: MutexGuard<'_, Disk>, id: u64, path: &Path) -> Arc<Handle> {
        disk.open_files += 1;
        let epoch = disk.epoch;
        drop(disk);
        Arc::new(Handle {
            io: self.clone(),
            id,
            epoch,
            path: path.to_owned(),
        })
    }
}

/// EMFILE (too many open files), the same on all systems that have it.
const EMFILE: i32 = 24;

impl Disk {
    fn used_bytes(&self) -> u64 {
        self.visible
            .values()
            .map(|id| self.files[id].bytes.len() as u64)
            .sum()
    }

    fn new_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    /// Closes all open files.
    fn restart(&mut self) {
        self.epoch += 1;
        self.locks.clear();
        self.script.clear();
        self.syncs_fail = false;
        self.open_files = 0;
    }

    /// Makes a change of names durable.
    fn survive(&mut self, change: NameChange) {
        match change {
            NameChange::Appeared(path, id) => {
                self.durable.insert(path, id);
            }
            NameChange::Moved(from, to) => {
                if let Some(id) = self.durable.remove(&from) {
                    self.durable.insert(to, id);
                }
            }
            NameChange::Gone(path) => {
                self.durable.remove(&path);
            }
        }
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        self.visible
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn content(&mut self, id: u64, epoch: u64) -> io::Result<&mut Content> {
        if epoch != self.epoch {
            return Err(io::Error::other("the machine went down"));
        }
        self.files
            .get_mut(&id)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn failure() -> io::Error {
    io::Error::other("injected failure")
}

impl Io for FaultyIo {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn AppendFile>> {
        let (mut disk, _) = self.begin(Op::Create, path)?;
        if disk.visible.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_some_and(|dir| disk.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if disk.used_bytes() >= disk.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = disk.new_file();
        disk.files.insert(id, Content::default());
        disk.visible.insert(path.to_owned(), id);
        disk.pending.push(NameChange::Appeared(path.to_owned(), id));
        Ok(self.handle(disk, id, path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let (disk, _) = self.begin(Op::Open, path)?;
        let id = disk.find(path)?;
        Ok(self.handle(disk, id, path))
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> io::Result<()> {
        let (mut disk, _) = self.begin(Op::Truncate, path)?;
        let (id, epoch) = (disk.find(path)?, disk.epoch);
        let content = disk.content(id, epoch)?;
        content
            .bytes
            .truncate(usize::try_from(len_bytes).unwrap_or(usize::MAX));
        content.synced_bytes = content.bytes.len();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut disk, _) = self.begin(Op::Rename, from)?;
        let moved: Vec<(PathBuf, u64)> = disk
            .visible
            .iter()
            .filter(|(path, _)| path.starts_with(from))
            .map(|(path, id)| (path.clone(), *id))
            .collect();
        if moved.is_empty() && !disk.dirs.contains(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let target = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        for (path, id) in moved {
            let target = target(&path);
            disk.visible.remove(&path);
            disk.visible.insert(target.clone(), id);
            disk.pending.push(NameChange::Moved(path, target));
        }
        // A directory keeps its durable names: only its own name is new.
        if disk.dirs.contains(from) {
            let dirs: Vec<PathBuf> = disk
                .dirs
                .iter()
                .filter(|dir| dir.starts_with(from))
                .cloned()
                .collect();
            for dir in dirs {
                disk.dirs.remove(&dir);
                disk.dirs.insert(target(&dir));
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut disk, _) = self.begin(Op::Remove, path)?;
        disk.find(path)?;
        disk.visible.remove(path);
        disk.pending.push(NameChange::Gone(path.to_owned()));
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let (mut disk, _) = self.begin(Op::Remove, dir)?;
        let below: Vec<PathBuf> = disk
            .visible
            .keys()
            .filter(|path| path.starts_with(dir))
            .cloned()
            .collect();
        disk.pending.extend(below.into_iter().map(NameChange::Gone));
        disk.visible.retain(|path, _| !path.starts_with(dir));
        disk.dirs.retain(|other| !other.starts_with(dir));
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let (mut disk, _) = self.begin(Op::CreateDir, dir)?;
        for ancestor in dir.ancestors() {
            disk.dirs.insert(ancestor.to_owned());
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let (disk, _) = self.begin(Op::List, dir)?;
        let below = |path: &PathBuf| {
            let first = path.strip_prefix(dir).ok()?.components().next()?;
            Some(first.as_os_str().to_string_lossy().into_owned())
        };
        let names: BTreeSet<String> = disk
            .visible
            .keys()
            .chain(&disk.dirs)
            .filter_map(below)
            .collect();
        Ok(names.into_iter().collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let (mut disk, _) = self.begin(Op::SyncDir, dir)?;
        if disk.syncs_fail {
            return Err(failure());
        }
        // A file below a directory inside `dir` becomes durable with that directory's name, because a rename moves it.
        let visible = disk.visible.clone();
        disk.durable.retain(|path, _| !path.starts_with(dir));
        disk.durable.extend(
            visible
                .into_iter()
                .filter(|(path, _)| path.starts_with(dir)),
        );
        let mut pending = std::mem::take(&mut disk.pending);
        pending.retain_mut(|change| match change {
            NameChange::Appeared(path, _) | NameChange::Gone(path) => !path.starts_with(dir),
            NameChange::Moved(from, to) => match (from.starts_with(dir), to.starts_with(dir)) {
                (true, true) => false,
                // From this directory into another: each gets its own half.
                (true, false) => {
                    if let Some(id) = disk.visible.get(to) {
                        *change = NameChange::Appeared(to.clone(), *id);
                    }
                    true
                }
                (false, true) => {
                    *change = NameChange::Gone(from.clone());
                    true
                }
                (false, false) => true,
            },
        });
        disk.pending = pending;
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let (mut disk, _) = self.begin(Op::Lock, path)?;
        if !disk.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        disk.open_files += 1;
        let epoch = disk.epoch;
        drop(disk);
        Ok(Some(Box::new(FaultyLock {
            io: self.clone(),
            path: path.to_owned(),
            epoch,
        })))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let disk = self.disk();
        Ok(disk.capacity_bytes.saturating_sub(disk.used_bytes()))
    }
}

#[derive(Debug)]
struct Handle {
    io: FaultyIo,
    id: u64,
    epoch: u64,
    path: PathBuf,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut disk = self.io.disk();
        if disk.epoch == self.epoch {
            disk.open_files -= 1;
        }
    }
}

impl AppendFile for Handle {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let (mut disk, torn) = self.io.begin(Op::Append, &self.path)?;
        let room = disk.capacity_bytes.saturating_sub(disk.used_bytes());
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let content = disk.content(self.id, self.epoch)?;
        if let Some(torn) = torn {
            content
                .bytes
                .extend_from_slice(&bytes[..torn.min(bytes.len())]);
            return Err(failure());
        }
        content.bytes.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let (mut disk, _) = self.io.begin(Op::Sync, &self.path)?;
        let fail = disk.syncs_fail;
        let content = disk.content(self.id, self.epoch)?;
        if fail {
            return Err(failure());
        }
        content.synced_bytes = content.bytes.len();
        Ok(())
    }

    fn truncate(&self, len_bytes: u64) -> io::Result<()> {
        let (mut disk, _) = self.io.begin(Op::Truncate, &self.path)?;
        let content = disk.content(self.id, self.epoch)?;
        content
            .bytes
            .truncate(usize::try_from(len_bytes).unwrap_or(usize::MAX));
        content.synced_bytes = content.synced_bytes.min(content.bytes.len());
        Ok(())
    }
}

impl ReadFile for Handle {
    fn len_bytes(&self) -> io::Result<u64> {
        let (mut disk, _) = self.io.begin(Op::Read, &self.path)?;
        Ok(disk.content(self.id, self.epoch)?.bytes.len() as u64)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let (mut disk, _) = self.io.begin(Op::Read, &self.path)?;
        let len_bytes = disk.content(self.id, self.epoch)?.bytes.len() as u64;
        Ok(FileIdentity {
            file: (0, self.id),
            modified: (0, 0),
            len_bytes,
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut disk, _) = self.io.begin(Op::Read, &self.path)?;
        let most = disk.most_read_bytes;
        let bytes = &disk.content(self.id, self.epoch)?.bytes;
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| bytes.get(at..))
            .unwrap_or_default();
        let len = rest.len().min(buffer.len()).min(most);
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

#[derive(Debug)]
struct FaultyLock {
    io: FaultyIo,
    path: PathBuf,
    epoch: u64,
}

impl Lock for FaultyLock {}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        let mut disk = self.io.disk();
        if disk.epoch == self.epoch {
            disk.locks.remove(&self.path);
            disk.open_files -= 1;
        }
    }
}
