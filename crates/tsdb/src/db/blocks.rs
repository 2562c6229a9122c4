//! The blocks that count.
//!
//! **Invariant:** a block is listed here exactly when the manifest lists it; one that cannot be opened stays in the
//! manifest and is reported, so that nothing is removed because it could not be read once.

use super::manifest::Listed;
use crate::{
    block::{Block, BlockCache, BlockId, BlockMeta},
    damage::DamageLog,
    error::{Damage, TsdbError, io_error},
    io::Io,
};
use narthex_model::storage::TimeRange;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The directory of blocks below the data directory.
const DIR: &str = "blocks";

/// All blocks of a database.
#[derive(Debug, Default)]
pub(super) struct BlockSet {
    blocks: Vec<Arc<Block>>,
    /// Files that could not be opened.
    unreadable: Vec<Unreadable>,
}

/// A block that counts and could not be opened.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) listed: Listed,
    pub(super) damage: Damage,
    /// Length of the file.
    pub(super) bytes: u64,
}

impl Unreadable {
    /// Reports whether all of its samples, as far as anybody knows, are from before `time_ms`.
    pub(super) fn is_before(&self, time_ms: i64) -> bool {
        let id = self
            .listed
            .name
            .strip_suffix(".block")
            .and_then(BlockId::parse);
        let made_ms = id.map(BlockId::time_ms);
        let newest_ms = self.listed.range.map(|range| range.max_ms).or(made_ms);
        newest_ms.is_some_and(|newest_ms| newest_ms < time_ms)
    }

    /// Reports whether the block may have samples within `range`.
    pub(super) fn overlaps(&self, range: TimeRange) -> bool {
        self.listed.range.is_none_or(|own| own.overlaps(range))
    }
}

/// Returns the directory of blocks.
pub(super) fn dir_of(root: &Path) -> PathBuf {
    root.join(DIR)
}

impl BlockSet {
    /// Opens the blocks that are listed and removes all other files beside them.
    ///
    /// Without a list, as after the loss of the manifest, every finished block counts.
    ///
    /// # Errors
    /// Fails when the directory cannot be read or changed, or a block is of a newer version.
    pub(super) fn open(
        io: &dyn Io,
        root: &Path,
        listed: Option<&[Listed]>,
        cache: &Arc<BlockCache>,
        damage: &Arc<DamageLog>,
    ) -> Result<Self, TsdbError> {
        let dir = dir_of(root);
        io.create_dir_all(&dir).map_err(io_error(&dir, "create"))?;
        let present = io.list(&dir).map_err(io_error(&dir, "list"))?;
        let finished = |name: &&String| name.ends_with(".block");
        let counted: Vec<Listed> = match listed {
            Some(listed) => listed.to_vec(),
            None => present
                .iter()
                .filter(finished)
                .map(|name| Listed::named(name))
                .collect(),
        };
        let is_counted = |name: &&String| counted.iter().any(|listed| listed.name == **name);
        for orphan in present.iter().filter(|name| !is_counted(name)) {
            let path = dir.join(orphan);
            io.remove(&path).map_err(io_error(path, "remove"))?;
        }
        let mut set = Self::default();
        // A merged block and what it was merged from can both be there when nothing says which counts.
        let all_there_is = listed.is_none();
        for listed in counted {
            let path = dir.join(&listed.name);
            let error = match Block::open_with(io, &path, cache, damage) {
                Ok(block) => {
                    set.push(Arc::new(block));
                    continue;
                }
                Err(error @ TsdbError::Version { .. }) => return Err(error),
                Err(error) => error,
            };
            let bytes = io.open(&path).and_then(|file| file.len_bytes());
            let damage = Damage::of(error.into()).unwrap_or_else(|error| Damage {
                path,
                offset: 0,
                detail: error.to_string(),
            });
            set.unreadable.push(Unreadable {
                listed,
                damage,
                bytes: bytes.unwrap_or_default(),
            });
        }
        if all_there_is {
            set.drop_superseded();
        }
        Ok(set)
    }

    /// Leaves out blocks whose sources another one has all of, and more.
    fn drop_superseded(&mut self) {
        let sources: Vec<BTreeSet<BlockId>> = self
            .blocks
            .iter()
            .map(|block| block.meta().sources.iter().copied().collect())
            .collect();
        let is_superseded = |own: &BTreeSet<BlockId>| {
            let by = |other: &BTreeSet<BlockId>| own.len() < other.len() && own.is_subset(other);
            sources.iter().any(by)
        };
        let mut kept = sources.iter().map(|own| !is_superseded(own));
        self.blocks.retain(|_| kept.next().unwrap_or(true));
    }

    /// Adds a block behind all others: they win where it has samples at the same times.
    pub(super) fn push(&mut self, block: Arc<Block>) {
        self.blocks.push(block);
    }

    /// Puts a merged block in the place of the first of its sources, and takes those out.
    pub(super) fn replace(&mut self, sources: &[Arc<Block>], merged: Arc<Block>) {
        let is_source = |other: &Arc<Block>| sources.iter().any(|one| Arc::ptr_eq(one, other));
        let at = self.blocks.iter().position(is_source);
        self.blocks.insert(at.unwrap_or(self.blocks.len()), merged);
        self.blocks.retain(|other| !is_source(other));
    }

    /// Returns the list with a merged block in the place of its sources.
    pub(super) fn listed_with(&self, sources: &[Arc<Block>], merged: &BlockMeta) -> Vec<Listed> {
        let names: Vec<String> = sources
            .iter()
            .map(|block| block.meta().file_name())
            .collect();
        let mut listed = self.listed();
        let is_source = |listed: &Listed| names.contains(&listed.name);
        let at = listed.iter().position(is_source).unwrap_or(listed.len());
        listed.insert(at, Listed::of(merged));
        listed.retain(|listed| !is_source(listed));
        listed
    }

    /// Takes a block out of the list.
    pub(super) fn remove(&mut self, block: &Arc<Block>) {
        self.blocks.retain(|other| !Arc::ptr_eq(other, block));
    }

    /// Takes files that could not be opened out of the list, by name.
    pub(super) fn forget_unreadable(&mut self, names: &[String]) {
        self.unreadable
            .retain(|block| !names.contains(&block.listed.name));
    }

    /// Returns the blocks; on equal times the earlier one's sample counts.
    pub(super) fn all(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// Returns the blocks that may have samples within `range`, in the same order.
    pub(super) fn overlapping(&self, range: TimeRange) -> Vec<Arc<Block>> {
        self.blocks
            .iter()
            .filter(|block| range_of(block).overlaps(range))
            .cloned()
            .collect()
    }

    /// Returns what could not be opened.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.iter()
    }

    /// Returns the list for a manifest whose marks speak of none of the unreadable blocks.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let open = self.blocks.iter().map(|block| Listed::of(block.meta()));
        let lost = self.unreadable.iter().map(|block| Listed {
            given_up: true,
            ..block.listed.clone()
        });
        open.chain(lost).collect()
    }

    /// Returns the bytes of all blocks.
    pub(super) fn bytes(&self) -> u64 {
        let lost: u64 = self.unreadable.iter().map(|block| block.bytes).sum();
        let open = self.blocks.iter().map(|block| block.meta().bytes);
        open.sum::<u64>() + lost
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
