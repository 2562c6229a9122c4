//! The blocks that count.
//!
//! **Invariant:** a block is listed here exactly when the manifest lists it; one that cannot be opened stays in the
//! manifest and is reported, so that nothing is removed because it could not be read once.

use crate::{
    block::{Block, BlockCache},
    error::{Damage, TsdbError, io_error},
    io::Io,
};
use narthex_model::storage::TimeRange;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The directory of blocks below the data directory.
const DIR: &str = "blocks";

/// All blocks of a database.
#[derive(Debug, Default)]
pub(super) struct BlockSet {
    blocks: Vec<Arc<Block>>,
    /// Files that could not be opened, with the reason.
    unreadable: Vec<(String, Damage)>,
}

/// Returns the directory of blocks.
pub(super) fn dir_of(root: &Path) -> PathBuf {
    root.join(DIR)
}

impl BlockSet {
    /// Opens the blocks called `names` and removes all other files beside them.
    ///
    /// Without a list, as after the loss of the manifest, every finished block counts.
    ///
    /// # Errors
    /// Fails when the directory cannot be read or changed, or a block is of a newer version.
    pub(super) fn open(
        io: &dyn Io,
        root: &Path,
        names: Option<&[String]>,
        cache: &Arc<BlockCache>,
    ) -> Result<Self, TsdbError> {
        let dir = dir_of(root);
        io.create_dir_all(&dir).map_err(io_error(&dir, "create"))?;
        let present = io.list(&dir).map_err(io_error(&dir, "list"))?;
        let finished = |name: &&String| name.ends_with(".block");
        let counted: Vec<String> = match names {
            Some(names) => names.to_vec(),
            None => present.iter().filter(finished).cloned().collect(),
        };
        for orphan in present.iter().filter(|name| !counted.contains(name)) {
            let path = dir.join(orphan);
            io.remove(&path).map_err(io_error(path, "remove"))?;
        }
        let mut set = Self::default();
        for name in counted {
            let path = dir.join(&name);
            match Block::open(io, &path, cache) {
                Ok(block) => set.push(Arc::new(block)),
                Err(error @ TsdbError::Version { .. }) => return Err(error),
                Err(TsdbError::Corrupt {
                    path,
                    offset,
                    detail,
                }) => {
                    set.unreadable.push((
                        name,
                        Damage {
                            path,
                            offset,
                            detail,
                        },
                    ));
                }
                Err(error) => set.unreadable.push((
                    name,
                    Damage {
                        path,
                        offset: 0,
                        detail: error.to_string(),
                    },
                )),
            }
        }
        Ok(set)
    }

    /// Adds a block, keeping them ordered by name, which is by age.
    pub(super) fn push(&mut self, block: Arc<Block>) {
        let at = self
            .blocks
            .partition_point(|other| other.meta().id < block.meta().id);
        self.blocks.insert(at, block);
    }

    /// Takes a block out of the list.
    pub(super) fn remove(&mut self, block: &Arc<Block>) {
        self.blocks.retain(|other| !Arc::ptr_eq(other, block));
    }

    /// Returns the blocks, oldest first.
    pub(super) fn all(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// Returns the blocks that may have samples within `range`, oldest first.
    pub(super) fn overlapping(&self, range: TimeRange) -> Vec<Arc<Block>> {
        self.blocks
            .iter()
            .filter(|block| range_of(block).overlaps(range))
            .cloned()
            .collect()
    }

    /// Returns what could not be opened.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Damage> {
        self.unreadable.iter().map(|(_, damage)| damage)
    }

    /// Returns the names for the manifest.
    pub(super) fn names(&self) -> Vec<String> {
        let open = self.blocks.iter().map(|block| block.meta().file_name());
        open.chain(self.unreadable.iter().map(|(name, _)| name.clone()))
            .collect()
    }

    /// Returns the bytes of all blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.meta().bytes).sum()
    }

    /// Returns an interval around all samples.
    pub(super) fn time_range(&self) -> Option<TimeRange> {
        self.blocks
            .iter()
            .map(|block| range_of(block))
            .reduce(TimeRange::hull)
    }
}

/// Returns the times of a block's oldest and newest sample.
pub(super) fn range_of(block: &Block) -> TimeRange {
    TimeRange::new(block.meta().min_time_ms, block.meta().max_time_ms)
}
