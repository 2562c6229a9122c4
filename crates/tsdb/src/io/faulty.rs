//! A file system in memory that fails on demand: for tests of everything that must survive failures.
//!
//! **Invariant:** after `power_loss` exactly the names made durable by `sync_dir` and the bytes made durable by
//! `sync` are left, plus, where asked, a part of what was appended since.

use super::{AppendFile, Io, Lock, ReadFile};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
    next_file: u64,
    /// Changing operations so far: create, append, truncate, rename, remove, sync, sync_dir.
    operations: u64,
    fail_at: Option<(u64, Fault)>,
    syncs_fail: bool,
    capacity_bytes: u64,
    /// Rises with every power loss: handles of before are dead.
    epoch: u64,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Fail,
    Torn(usize),
}

/// What of the unsynced bytes a loss of power leaves.
#[derive(Clone, Copy, Debug)]
pub enum PowerLoss {
    /// Nothing.
    DropUnsynced,
    /// At most this many bytes of each file's unsynced tail.
    KeepBytes(usize),
    /// As many bytes, of which this one counted from the end of the synced part is wrong.
    Garble(usize, usize),
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            visible: BTreeMap::new(),
            durable: BTreeMap::new(),
            dirs: BTreeSet::new(),
            locks: BTreeSet::new(),
            next_file: 0,
            operations: 0,
            fail_at: None,
            syncs_fail: false,
            capacity_bytes: u64::MAX,
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

    /// Returns how many changing operations were tried so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// Makes the `n`th changing operation from here fail with an input/output error (0: the next).
    pub fn fail_operation(&self, n: u64) {
        let mut disk = self.disk();
        disk.fail_at = Some((disk.operations + n, Fault::Fail));
    }

    /// Makes the `n`th changing operation from here, if it appends, write only `bytes` bytes and fail.
    pub fn tear_operation(&self, n: u64, bytes: usize) {
        let mut disk = self.disk();
        disk.fail_at = Some((disk.operations + n, Fault::Torn(bytes)));
    }

    /// Makes every `sync` fail from here on, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        self.disk().syncs_fail = fail;
    }

    /// Limits the disk to `bytes` in all files together; appends beyond write what fits and fail.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk().capacity_bytes = bytes;
    }

    /// Returns the bytes in all files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.disk().used_bytes()
    }

    /// Cuts the power: forgets what was not synced, locks included; handles opened before fail from here on.
    pub fn power_loss(&self, kept: PowerLoss) {
        let mut disk = self.disk();
        disk.epoch += 1;
        disk.locks.clear();
        disk.fail_at = None;
        disk.syncs_fail = false;
        disk.visible = disk.durable.clone();
        let live: BTreeSet<u64> = disk.visible.values().copied().collect();
        disk.files.retain(|id, _| live.contains(id));
        for content in disk.files.values_mut() {
            let synced = content.synced_bytes;
            match kept {
                PowerLoss::DropUnsynced => content.bytes.truncate(synced),
                PowerLoss::KeepBytes(bytes) => content.bytes.truncate(synced + bytes),
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
        let mut disk = self.disk();
        disk.epoch += 1;
        disk.locks.clear();
        disk.fail_at = None;
        disk.syncs_fail = false;
    }

    /// Returns the bytes of a file.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk();
        let id = disk.visible.get(path)?;
        Some(disk.files[id].bytes.clone())
    }

    /// Replaces the bytes of a file (or creates it), durably.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

    /// Counts a changing operation; returns the fault it must have.
    fn operation(&mut self) -> Option<Fault> {
        let at = self.operations;
        self.operations += 1;
        match self.fail_at {
            Some((fail_at, fault)) if fail_at == at => {
                self.fail_at = None;
                Some(fault)
            }
            _ => None,
        }
    }

    fn change(&mut self) -> io::Result<()> {
        match self.operation() {
            Some(_) => Err(failure()),
            None => Ok(()),
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
        let mut disk = self.disk();
        disk.change()?;
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
        let epoch = disk.epoch;
        drop(disk);
        Ok(Arc::new(Handle {
            io: self.clone(),
            id,
            epoch,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let disk = self.disk();
        let (id, epoch) = (disk.find(path)?, disk.epoch);
        drop(disk);
        Ok(Arc::new(Handle {
            io: self.clone(),
            id,
            epoch,
        }))
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.change()?;
        let (id, epoch) = (disk.find(path)?, disk.epoch);
        let content = disk.content(id, epoch)?;
        content
            .bytes
            .truncate(usize::try_from(len_bytes).unwrap_or(usize::MAX));
        content.synced_bytes = content.bytes.len();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.change()?;
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
            disk.visible.remove(&path);
            disk.visible.insert(target(&path), id);
        }
        // A directory takes its durable names along: only its own name is new.
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
        let mut disk = self.disk();
        disk.change()?;
        disk.find(path)?;
        disk.visible.remove(path);
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.change()?;
        disk.visible.retain(|path, _| !path.starts_with(dir));
        disk.dirs.retain(|other| !other.starts_with(dir));
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        for ancestor in dir.ancestors() {
            disk.dirs.insert(ancestor.to_owned());
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = self.disk();
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
        let mut disk = self.disk();
        disk.change()?;
        if disk.syncs_fail {
            return Err(failure());
        }
        // A file below a directory inside `dir` becomes durable with that directory's name, as rename moves it.
        let visible = disk.visible.clone();
        disk.durable.retain(|path, _| !path.starts_with(dir));
        disk.durable.extend(
            visible
                .into_iter()
                .filter(|(path, _)| path.starts_with(dir)),
        );
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let mut disk = self.disk();
        if !disk.locks.insert(path.to_owned()) {
            return Ok(None);
        }
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
}

impl AppendFile for Handle {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.io.disk();
        let fault = disk.operation();
        let room = disk.capacity_bytes.saturating_sub(disk.used_bytes());
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let content = disk.content(self.id, self.epoch)?;
        match fault {
            Some(Fault::Fail) => Err(failure()),
            Some(Fault::Torn(torn)) => {
                content
                    .bytes
                    .extend_from_slice(&bytes[..torn.min(bytes.len())]);
                Err(failure())
            }
            None => {
                content.bytes.extend_from_slice(&bytes[..fits]);
                if fits < bytes.len() {
                    Err(io::ErrorKind::StorageFull.into())
                } else {
                    Ok(())
                }
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.io.disk();
        disk.change()?;
        let fail = disk.syncs_fail;
        let content = disk.content(self.id, self.epoch)?;
        if fail {
            return Err(failure());
        }
        content.synced_bytes = content.bytes.len();
        Ok(())
    }

    fn truncate(&self, len_bytes: u64) -> io::Result<()> {
        let mut disk = self.io.disk();
        disk.change()?;
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
        Ok(self.io.disk().content(self.id, self.epoch)?.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut disk = self.io.disk();
        let bytes = &disk.content(self.id, self.epoch)?.bytes;
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| bytes.get(at..))
            .unwrap_or_default();
        let len = rest.len().min(buffer.len());
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
        }
    }
}
