//! Life of block files: they get their final name when they count and are removed when they no longer do.
//!
//! A block is `X.block.tmp` until a durable manifest lists it, then `X.block`, and `X.block.gone` once none does,
//! until no view reads it. So a start can distinguish a block that somebody put there from one that was never
//! finished or was to be removed.
//!
//! **Invariant:** nothing is removed, and the WAL not truncated, while a live block lacks its final name; a block that
//! a view reads keeps its bytes.

use super::{Inner, blocks::dir_of, manifest};
use crate::{
    block::{Block, BlockMeta, GONE, PENDING, with_suffix},
    error::{TsdbError, io_error},
    io::Io,
};
use narthex_model::sync::Whole as _;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// Files with pending operations.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Block files in a published manifest that may or may not count.
    uncertain: Vec<PathBuf>,
    /// Files that lack the names the manifest lists.
    unnamed: Vec<PathBuf>,
    doomed: Vec<Doomed>,
    /// Whether the manifest on disk may still list doomed files, because it could not be written.
    manifest_pending: bool,
}

/// A file of a block that no longer counts.
#[derive(Debug)]
struct Doomed {
    /// Path while it counted.
    path: PathBuf,
    /// `None` for a block that could not be opened.
    block: Option<Arc<Block>>,
    renamed: bool,
    cut: bool,
}

impl Doomed {
    fn is_read(&self) -> bool {
        // Outside the set of blocks, only views and this list hold it.
        self.block
            .as_ref()
            .is_some_and(|block| Arc::strong_count(block) > 1)
    }
}

impl Files {
    /// Returns the state for a start whose manifest lists blocks marked as gone.
    pub(super) fn with_gone(paths: Vec<PathBuf>) -> Self {
        let files = Self::default();
        if !paths.is_empty() {
            files.set_manifest_pending();
            files.doom_paths(paths);
        }
        for doomed in &mut files.lock().doomed {
            doomed.renamed = true;
        }
        files
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().whole()
    }

    /// Registers blocks that count from now on and still have temporary names.
    pub(super) fn name(&self, root: &Path, metas: &[BlockMeta]) {
        let dir = dir_of(root);
        let paths = metas.iter().map(|meta| dir.join(meta.file_name()));
        self.lock().unnamed.extend(paths);
    }

    /// Registers blocks that no longer count.
    pub(super) fn doom(&self, blocks: impl IntoIterator<Item = Arc<Block>>) {
        let doomed = blocks.into_iter().map(|block| Doomed {
            path: block.path().to_owned(),
            block: Some(block),
            renamed: false,
            cut: false,
        });
        self.lock().doomed.extend(doomed);
    }

    /// Registers files that no longer count and are not open.
    pub(super) fn doom_paths(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let doomed = paths.into_iter().map(|path| Doomed {
            path,
            block: None,
            renamed: false,
            cut: false,
        });
        self.lock().doomed.extend(doomed);
    }

    /// Records that the manifest on disk may list doomed files.
    pub(super) fn set_manifest_pending(&self) {
        self.lock().manifest_pending = true;
    }

    /// Reports whether a temporary file belongs to a block that counts or may count.
    pub(super) fn is_unnamed(&self, temporary: &Path) -> bool {
        let state = self.lock();
        let mut unnamed = state.unnamed.iter().chain(&state.uncertain);
        unnamed.any(|path| with_suffix(path, PENDING) == temporary)
    }
}

impl Inner {
    /// Publishes the written manifest, and with it the blocks that it lists under their temporary names.
    ///
    /// # Errors
    /// Fails when it is uncertain which manifest counts: until another is published, neither side's files are removed.
    pub(super) fn publish(&self, metas: &[BlockMeta]) -> Result<(), TsdbError> {
        let (io, root) = (&*self.context.io, &self.context.options.path);
        let dir = dir_of(root);
        let paths = metas.iter().map(|meta| dir.join(meta.file_name()));
        let paths: Vec<PathBuf> = paths.collect();
        self.files.lock().uncertain.extend(paths.iter().cloned());
        manifest::publish(io, root)?;
        let mut state = self.files.lock();
        for path in std::mem::take(&mut state.uncertain) {
            if !paths.contains(&path) {
                // This manifest no longer lists the file. If the removal fails, the next start repeats it.
                let _ = io.remove(&with_suffix(&path, PENDING));
            }
        }
        state.unnamed.extend(paths);
        Ok(())
    }

    /// Gives live blocks their final names, and removes the files of dead ones that no view reads.
    ///
    /// # Errors
    /// Fails when a file cannot be renamed or removed; the next call retries.
    pub(super) fn settle_files(&self) -> Result<(), TsdbError> {
        let (io, root) = (&*self.context.io, &self.context.options.path);
        let dir = dir_of(root);
        let mut state = self.files.lock();
        let mut named = false;
        while let Some(path) = state.unnamed.last() {
            rename(io, &with_suffix(path, PENDING), path)?;
            state.unnamed.pop();
            named = true;
        }
        if named {
            io.sync_dir(&dir).map_err(io_error(&dir, "fsync"))?;
        }
        let mut renamed = false;
        for doomed in state.doomed.iter_mut().filter(|doomed| !doomed.renamed) {
            rename(io, &doomed.path, &with_suffix(&doomed.path, GONE))?;
            (doomed.renamed, renamed) = (true, true);
        }
        if state.manifest_pending {
            if renamed {
                // Before the bytes go, so that a start can see why they are gone.
                io.sync_dir(&dir).map_err(io_error(&dir, "fsync"))?;
            }
            let idle = |doomed: &&mut Doomed| !doomed.cut && !doomed.is_read();
            for doomed in state.doomed.iter_mut().filter(idle) {
                let path = with_suffix(&doomed.path, GONE);
                match io.truncate(&path, 0) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(io_error(path, "truncate")(error));
                    }
                    _ => doomed.cut = true,
                }
            }
            drop(state);
            self.manifest_with(&[], &[]).write(io, root)?;
            state = self.files.lock();
            state.manifest_pending = false;
        }
        let mut failed = None;
        state.doomed.retain(|doomed| {
            if doomed.is_read() {
                return true;
            }
            let path = with_suffix(&doomed.path, GONE);
            match io.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    failed = Some(io_error(path, "remove")(error));
                    true
                }
                _ => false,
            }
        });
        failed.map_or(Ok(()), Err)
    }
}

/// Renames a file; does nothing when it no longer exists.
fn rename(io: &dyn Io, from: &Path, to: &Path) -> Result<(), TsdbError> {
    match io.rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error(from, "rename")(error))
        }
        _ => Ok(()),
    }
}
