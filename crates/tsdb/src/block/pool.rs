//! A bounded pool of open block files.
//!
//! A month has hundreds of blocks, while a process may have as few as a thousand descriptors, which its connections
//! need too. The least recently read file is closed, and reopened by its path when it is read again.
//!
//! **Invariant:** the number of files open between reads is bounded. A reopened file must be the one that was opened
//! first: another file at its path is an error and never yields another block's bytes.

use crate::{
    io::{FileIdentity, Io, ReadFile, is_exhausted},
    metrics::Metrics,
};
use narthex_model::sync::Whole as _;
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// Suffix of a block file until the manifest that lists it is durable; and suffix of one that no longer counts.
pub(crate) const PENDING: &str = ".tmp";
pub(crate) const GONE: &str = ".gone";

/// Returns `path` with `suffix` appended.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Block files, some of them open.
#[derive(Debug)]
pub(crate) struct FilePool {
    io: Arc<dyn Io>,
    most: usize,
    state: Mutex<State>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<u64, Open>,
    next_key: u64,
    tick: u64,
}

#[derive(Debug)]
struct Open {
    file: Arc<dyn ReadFile>,
    used: u64,
}

/// One file of a pool.
#[derive(Debug)]
pub(crate) struct Pooled {
    pool: Arc<FilePool>,
    key: u64,
    path: PathBuf,
    identity: FileIdentity,
}

impl FilePool {
    /// Returns a pool that keeps at most `most` files open, and at least one.
    pub(crate) fn new(io: Arc<dyn Io>, most: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            io,
            most: most.max(1),
            state: Mutex::default(),
            metrics,
        }
    }

    /// Opens a block's file under its temporary, its final or its removal name.
    ///
    /// # Errors
    /// Fails when the file does not exist or cannot be opened.
    pub(crate) fn open(self: &Arc<Self>, path: &Path) -> io::Result<Pooled> {
        let file = self.open_file(path)?;
        let identity = file.identity()?;
        let mut state = self.lock();
        let key = state.next_key;
        state.next_key += 1;
        drop(state);
        self.keep(key, file);
        Ok(Pooled {
            pool: Arc::clone(self),
            key,
            path: path.to_owned(),
            identity,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().whole()
    }

    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let opened = self.open_by_any_name(path);
        match opened {
            Err(error) if is_exhausted(&error) => {
                // Pooled files can be reopened; other users of descriptors perhaps cannot wait.
                let mut state = self.lock();
                let closed = std::mem::take(&mut state.open);
                drop(state);
                if closed.is_empty() {
                    return Err(error);
                }
                drop(closed);
                self.open_by_any_name(path)
            }
            other => other,
        }
    }

    fn open_by_any_name(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match self.io.open(path) {
            Err(first) if missing(&first) => {
                let mut names = [PENDING, GONE].into_iter();
                let found = names.find_map(|suffix| {
                    let opened = self.io.open(&with_suffix(path, suffix));
                    (!opened.as_ref().is_err_and(missing)).then_some(opened)
                });
                found.unwrap_or(Err(first))
            }
            other => other,
        }
    }

    /// Keeps a file open, closing the least recently read one when there are too many.
    fn keep(&self, key: u64, file: Arc<dyn ReadFile>) {
        let mut state = self.lock();
        state.tick += 1;
        let used = state.tick;
        state.open.insert(key, Open { file, used });
        let mut closed = None;
        if state.open.len() > self.most {
            let oldest = state.open.iter().min_by_key(|(_, open)| open.used);
            let oldest = oldest.map(|(key, _)| *key);
            closed = oldest.and_then(|key| state.open.remove(&key));
        }
        self.metrics.open_blocks.set(state.open.len() as f64);
        drop(state);
        drop(closed);
    }
}

impl Pooled {
    /// Returns the file, reopening it if it was closed.
    ///
    /// # Errors
    /// Fails when the file cannot be opened, or another file has its path.
    pub(crate) fn get(&self) -> io::Result<Arc<dyn ReadFile>> {
        let mut state = self.pool.lock();
        state.tick += 1;
        let tick = state.tick;
        if let Some(open) = state.open.get_mut(&self.key) {
            open.used = tick;
            return Ok(Arc::clone(&open.file));
        }
        drop(state);
        let file = self.pool.open_file(&self.path)?;
        if file.identity()? != self.identity {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "another file has taken its place",
            ));
        }
        self.pool.keep(self.key, Arc::clone(&file));
        Ok(file)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        let closed = state.open.remove(&self.key);
        self.pool.metrics.open_blocks.set(state.open.len() as f64);
        drop(state);
        drop(closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Fault, FaultyIo, Op};

    fn pool(disk: &FaultyIo, most: usize) -> (Arc<FilePool>, Vec<Pooled>) {
        let pool = Arc::new(FilePool::new(
            Arc::new(disk.clone()),
            most,
            Arc::<Metrics>::default(),
        ));
        let files = (0..10).map(|at| {
            let path = path(at);
            disk.put_file(&path, vec![at; 3]);
            pool.open(&path).unwrap()
        });
        let files = files.collect();
        (pool, files)
    }

    fn path(at: u8) -> PathBuf {
        Path::new("/data").join(format!("{at}.block"))
    }

    fn first_byte(file: &Pooled) -> io::Result<u8> {
        let mut byte = [0];
        file.get()?.read_exact_at(0, &mut byte)?;
        Ok(byte[0])
    }

    #[test]
    fn files_are_closed_and_opened_again() {
        let disk = FaultyIo::new();
        let (_, files) = pool(&disk, 3);
        assert_eq!(disk.open_files(), 3);
        for _ in 0..3 {
            for (at, file) in files.iter().enumerate() {
                assert_eq!(usize::from(first_byte(file).unwrap()), at);
                assert_eq!(disk.open_files(), 3);
            }
        }
        // The file read last stays open.
        disk.inject(Fault::on(Op::Open).times(u64::MAX));
        assert_eq!(first_byte(&files[9]).unwrap(), 9);
        assert!(first_byte(&files[0]).is_err());
        drop(files);
        assert_eq!(disk.open_files(), 0);
    }

    #[test]
    fn names_change_and_files_do_not() {
        let disk = FaultyIo::new();
        let (_, files) = pool(&disk, 1);
        disk.rename(&path(0), &with_suffix(&path(0), PENDING))
            .unwrap();
        assert_eq!(first_byte(&files[0]).unwrap(), 0);
        disk.rename(&path(1), &with_suffix(&path(1), GONE)).unwrap();
        assert_eq!(first_byte(&files[1]).unwrap(), 1);
        disk.put_file(&path(2), vec![77; 3]);
        let error = first_byte(&files[2]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        disk.remove(&path(3)).unwrap();
        let error = first_byte(&files[3]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn others_descriptors_are_made_room_for() {
        let disk = FaultyIo::new();
        let (_, files) = pool(&disk, 5);
        disk.set_most_open(5);
        assert_eq!(
            first_byte(&files[0]).unwrap(),
            0,
            "the pool gives up its own"
        );
        disk.set_most_open(0);
        let error = first_byte(&files[1]).unwrap_err();
        assert!(is_exhausted(&error), "{error}");
        disk.set_most_open(1);
        assert_eq!(first_byte(&files[1]).unwrap(), 1);
    }
}
