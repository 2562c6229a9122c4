//! Treatment, at a start, of files beside the blocks that the manifest lists.
//!
//! Restoring a backup puts blocks into the directory, or an older manifest beside newer blocks. An intact block with
//! samples that no listed one has is adopted. Any other is moved to `quarantine/` for inspection.
//!
//! **Invariant:** only files that this program never finished, or marked as gone, are removed.

use crate::{
    block::{Block, BlockCache, BlockId, FilePool, GONE, PENDING, with_suffix},
    damage::DamageLog,
    error::{TsdbError, io_error},
    io::{Io, is_exhausted},
    metrics::Metrics,
};
use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Directory of files that a start did not adopt, below the data directory.
const QUARANTINE: &str = "quarantine";

/// Action of a start on a file that the manifest does not list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// The file's original path.
    pub path: PathBuf,
    /// The action and its reason.
    pub detail: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.detail)
    }
}

/// Files in the directory of blocks, classified by name.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Names of blocks.
    pub(super) blocks: BTreeSet<String>,
    /// Names of blocks whose files still have temporary names.
    pub(super) pending: BTreeSet<String>,
    /// Names of blocks that were about to be removed.
    pub(super) gone: BTreeSet<String>,
    /// Files with a block's extension but not a name this program gives.
    pub(super) strange: Vec<String>,
}

impl Found {
    /// Classifies the names in a directory; files not named like blocks belong to others and are left alone.
    pub(super) fn sort(names: Vec<String>) -> Self {
        let mut found = Self::default();
        let is_ours = |name: &str| {
            let id = name.strip_suffix(".block").and_then(BlockId::parse);
            id.is_some()
        };
        for name in names {
            let pending = name.strip_suffix(PENDING).filter(|name| is_ours(name));
            let gone = name.strip_suffix(GONE).filter(|name| is_ours(name));
            if let Some(block) = pending {
                found.pending.insert(block.to_owned());
            } else if let Some(block) = gone {
                found.gone.insert(block.to_owned());
            } else if is_ours(&name) {
                found.blocks.insert(name);
            } else if name.ends_with(".block") {
                found.strange.push(name);
            }
        }
        found
    }
}

/// Judges blocks that the manifest does not list.
pub(super) struct Adoption<'a> {
    pub(super) io: &'a dyn Io,
    pub(super) root: &'a Path,
    pub(super) dir: &'a Path,
    pub(super) pool: &'a Arc<FilePool>,
    pub(super) cache: &'a Arc<BlockCache>,
    pub(super) damage: &'a Arc<DamageLog>,
    pub(super) metrics: &'a Metrics,
    pub(super) notices: Vec<Notice>,
}

impl Adoption<'_> {
    /// Opens a block that may be adopted: intact, with samples that `known` blocks do not have; moves any other away.
    ///
    /// # Errors
    /// Fails when it cannot be read or moved.
    pub(super) fn judge(
        &mut self,
        name: &str,
        known: &HashSet<BlockId>,
    ) -> Result<Option<Arc<Block>>, TsdbError> {
        let path = self.dir.join(name);
        match self.is_wanted(&path, name, known) {
            Ok(Ok(block)) => {
                self.metrics.blocks_adopted.inc();
                self.notices.push(Notice {
                    path,
                    detail: format!(
                        "is a whole block that the manifest does not list: it is served from now on, {} samples",
                        block.meta().samples
                    ),
                });
                Ok(Some(block))
            }
            Ok(Err(why)) => self.quarantine(name, &why).map(|()| None),
            Err(TsdbError::Io {
                path,
                operation,
                source,
            }) if is_exhausted(&source) => Err(io_error(path, operation)(source)),
            Err(error @ TsdbError::Io { .. }) => {
                let detail = format!("is listed nowhere and was left where it is: {error}");
                self.notices.push(Notice { path, detail });
                Ok(None)
            }
            Err(error) => self.quarantine(name, &error.to_string()).map(|()| None),
        }
    }

    fn is_wanted(
        &self,
        path: &Path,
        name: &str,
        known: &HashSet<BlockId>,
    ) -> Result<Result<Arc<Block>, String>, TsdbError> {
        let block = Block::open_in(self.pool, path, self.cache, self.damage)?;
        let meta = block.meta();
        if meta.file_name() != name {
            return Ok(Err(format!("it is the block {}", meta.id)));
        }
        if meta.sources.iter().all(|source| known.contains(source)) {
            return Ok(Err("other blocks have all its samples".to_owned()));
        }
        if let Some(damage) = block.verify()?.first() {
            return Ok(Err(format!("it is damaged: {damage}")));
        }
        Ok(Ok(Arc::new(block)))
    }

    /// Moves a file to the quarantine, where nothing reads or removes it.
    ///
    /// # Errors
    /// Fails when it cannot be moved.
    pub(super) fn quarantine(&mut self, name: &str, why: &str) -> Result<(), TsdbError> {
        let dir = self.root.join(QUARANTINE);
        let (io, path) = (self.io, self.dir.join(name));
        io.create_dir_all(&dir).map_err(io_error(&dir, "create"))?;
        let taken = io.list(&dir).map_err(io_error(&dir, "list"))?;
        let mut target = dir.join(name);
        let mut number = 1;
        while taken.iter().any(|other| dir.join(other) == target) {
            target = with_suffix(&dir.join(name), &format!(".{number}"));
            number += 1;
        }
        io.rename(&path, &target)
            .map_err(io_error(&path, "rename"))?;
        for dir in [&*dir, self.dir] {
            io.sync_dir(dir).map_err(io_error(dir, "fsync"))?;
        }
        self.notices.push(Notice {
            detail: format!("is not served and was moved to {}: {why}", target.display()),
            path,
        });
        Ok(())
    }
}

/// Returns the number of files in quarantine.
pub(super) fn quarantined(io: &dyn Io, root: &Path) -> usize {
    io.list(&root.join(QUARANTINE))
        .map_or(0, |names| names.len())
}
