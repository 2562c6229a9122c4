//! The operating system's files, of which none is changed: what would be written stays in memory.
//!
//! **Invariant:** whoever writes here reads what it wrote; on disk nothing happens. The lock of a directory is taken, so
//! that what is read is nobody's who still writes it.

use super::{AppendFile, FileIdentity, Io, Lock, ReadFile, RealIo};
use narthex_model::sync::Whole as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// A file system that only reads.
#[derive(Debug, Default)]
pub struct ReadOnlyIo {
    changed: Mutex<Changed>,
    next: AtomicU64,
}

/// What differs from the disk.
#[derive(Debug, Default)]
struct Changed {
    files: BTreeMap<PathBuf, Entry>,
    removed_dirs: BTreeSet<PathBuf>,
}

#[derive(Clone, Debug)]
enum Entry {
    Written(Arc<Written>),
    /// A file on disk under another name, or shortened.
    OnDisk {
        path: PathBuf,
        len_bytes: u64,
    },
    Removed,
}

/// A file in memory.
#[derive(Debug)]
struct Written {
    number: u64,
    bytes: Mutex<Vec<u8>>,
}

/// The beginning of a file on disk.
#[derive(Debug)]
struct Beginning {
    file: Arc<dyn ReadFile>,
    len_bytes: u64,
}

#[derive(Debug)]
struct Held(#[expect(dead_code, reason = "held for its lock, given back on close")] Option<File>);

impl Lock for Held {}

impl Changed {
    fn entry(&self, path: &Path) -> Option<Entry> {
        if let Some(entry) = self.files.get(path) {
            return Some(entry.clone());
        }
        let is_gone = path.ancestors().any(|dir| self.removed_dirs.contains(dir));
        is_gone.then_some(Entry::Removed)
    }
}

impl ReadOnlyIo {
    fn entry(&self, path: &Path) -> Option<Entry> {
        self.changed.lock().whole().entry(path)
    }

    fn set(&self, path: &Path, entry: Entry) {
        self.changed
            .lock()
            .whole()
            .files
            .insert(path.to_owned(), entry);
    }

    /// Returns what is at `path` as an entry.
    fn present(&self, path: &Path) -> io::Result<Entry> {
        match self.entry(path) {
            Some(Entry::Removed) => Err(io::ErrorKind::NotFound.into()),
            Some(entry) => Ok(entry),
            None => Ok(Entry::OnDisk {
                path: path.to_owned(),
                len_bytes: RealIo.open(path)?.len_bytes()?,
            }),
        }
    }
}

impl Io for ReadOnlyIo {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn AppendFile>> {
        if self.present(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(Written {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            bytes: Mutex::default(),
        });
        self.set(path, Entry::Written(Arc::clone(&file)));
        Ok(file)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match self.entry(path) {
            None => RealIo.open(path),
            Some(Entry::Removed) => Err(io::ErrorKind::NotFound.into()),
            Some(Entry::Written(file)) => Ok(file),
            Some(Entry::OnDisk { path, len_bytes }) => {
                let file = RealIo.open(&path)?;
                Ok(Arc::new(Beginning { file, len_bytes }))
            }
        }
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> io::Result<()> {
        match self.present(path)? {
            Entry::Written(file) => AppendFile::truncate(&*file, len_bytes),
            Entry::OnDisk { path: named, .. } => {
                let path_on_disk = named;
                let entry = Entry::OnDisk {
                    path: path_on_disk,
                    len_bytes,
                };
                self.set(path, entry);
                Ok(())
            }
            Entry::Removed => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let entry = self.present(from)?;
        self.set(from, Entry::Removed);
        self.set(to, entry);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.present(path)?;
        self.set(path, Entry::Removed);
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut changed = self.changed.lock().whole();
        changed.files.retain(|path, _| !path.starts_with(dir));
        changed.removed_dirs.insert(dir.to_owned());
        Ok(())
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names: BTreeSet<String> = RealIo.list(dir)?.into_iter().collect();
        let changed = self.changed.lock().whole();
        names.retain(|name| !matches!(changed.entry(&dir.join(name)), Some(Entry::Removed)));
        for (path, entry) in &changed.files {
            let name = path.file_name().and_then(|name| name.to_str());
            let is_here = path.parent() == Some(dir) && !matches!(entry, Entry::Removed);
            names.extend(name.filter(|_| is_here).map(str::to_owned));
        }
        Ok(names.into_iter().collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Box::new(Held(None))));
            }
            other => other?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(Held(Some(file))))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

impl AppendFile for Written {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.lock().whole().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, len_bytes: u64) -> io::Result<()> {
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        self.bytes.lock().whole().truncate(len);
        Ok(())
    }
}

impl ReadFile for Written {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().whole().len() as u64)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(FileIdentity {
            // No device has this number.
            file: (u64::MAX, self.number),
            modified: (0, 0),
            len_bytes: self.len_bytes()?,
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock().whole();
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..));
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl ReadFile for Beginning {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.len_bytes)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let len_bytes = self.len_bytes;
        Ok(FileIdentity {
            len_bytes,
            ..self.file.identity()?
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        self.file.read_at(offset, &mut buffer[..count])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;

    fn read(io: &dyn Io, path: &Path) -> io::Result<Vec<u8>> {
        let file = io.open(path)?;
        let mut bytes = vec![0; usize::try_from(file.len_bytes()?).unwrap()];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn changes_are_seen_here_and_not_on_disk() {
        let dir = TempDir::new("read-only");
        let (old, new, moved) = (dir.join("old"), dir.join("new"), dir.join("moved"));
        std::fs::write(&old, b"0123456789").unwrap();
        std::fs::create_dir(dir.join("sub")).unwrap();
        std::fs::write(dir.join("sub/file"), b"x").unwrap();
        let io = ReadOnlyIo::default();
        assert!(io.create(&old).is_err());
        let file = io.create(&new).unwrap();
        file.append(b"abc").unwrap();
        file.truncate(2).unwrap();
        io.truncate(&old, 4).unwrap();
        io.rename(&old, &moved).unwrap();
        io.remove_dir_all(&dir.join("sub")).unwrap();
        assert_eq!(read(&io, &new).unwrap(), b"ab");
        assert_eq!(read(&io, &moved).unwrap(), b"0123");
        assert!(read(&io, &old).is_err());
        assert!(read(&io, &dir.join("sub/file")).is_err());
        assert_eq!(io.list(dir.path()).unwrap(), ["moved", "new"]);
        assert!(io.list(&dir.join("sub")).unwrap().is_empty());
        io.remove(&new).unwrap();
        assert!(io.remove(&new).is_err());
        assert_eq!(std::fs::read(&old).unwrap(), b"0123456789");
        assert!(!new.exists() && !moved.exists() && dir.join("sub/file").exists());
    }

    #[test]
    fn a_directory_that_is_in_use_is_not_read() {
        let dir = TempDir::new("read-only-lock");
        let path = dir.join("lock");
        let io = ReadOnlyIo::default();
        assert!(io.lock(&path).unwrap().is_some());
        assert!(!path.exists());
        let held = RealIo.lock(&path).unwrap();
        assert!(io.lock(&path).unwrap().is_none());
        drop(held);
        assert!(io.lock(&path).unwrap().is_some());
    }
}
