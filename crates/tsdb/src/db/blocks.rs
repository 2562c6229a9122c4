//! The live blocks of a database.
//!
//! **Invariant:** a block is listed here exactly when the manifest lists it; one that cannot be opened stays in the
//! manifest and is reported, so that a single failed read never removes it.

use super::{
    adopt::{Adoption, Found, Notice},
    manifest::Listed,
};
use crate::{
    block::{Block, BlockCache, BlockId, BlockMeta, FilePool, GONE, PENDING, with_suffix},
    damage::DamageLog,
    error::{Damage, TsdbError, io_error},
    io::{Io, is_exhausted},
    metrics::Metrics,
};
use narthex_model::storage::TimeRange;
use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Directory of blocks below the data directory.
const DIR: &str = "blocks";

/// All blocks of a database.
#[derive(Debug, Default)]
pub(super) struct BlockSet {
    blocks: Vec<Arc<Block>>,
    /// Blocks that could not be opened.
    unreadable: Vec<Unreadable>,
}

/// A live block that could not be opened.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) listed: Listed,
    pub(super) damage: Damage,
    /// Length of the file.
    pub(super) bytes: u64,
}

impl Unreadable {
    /// Reports whether all of its samples, as far as known, are from before `time_ms`.
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

/// Result of opening the blocks.
pub(super) struct Opened {
    pub(super) set: BlockSet,
    /// Whether some blocks are not listed, or listed ones are gone.
    pub(super) is_changed: bool,
    /// Listed blocks that were marked as gone before the manifest could be written.
    pub(super) gone: Vec<PathBuf>,
    pub(super) notices: Vec<Notice>,
}

/// Directory of the blocks, with everything needed to read them.
pub(super) struct BlockDir<'a> {
    pub(super) io: &'a dyn Io,
    pub(super) root: &'a Path,
    pub(super) pool: &'a Arc<FilePool>,
    pub(super) cache: &'a Arc<BlockCache>,
    pub(super) damage: &'a Arc<DamageLog>,
    pub(super) metrics: &'a Metrics,
}

impl BlockSet {
    /// Opens the listed blocks and adopts, or moves away, the others beside them.
    ///
    /// Without a list, as after the loss of the manifest, every block with a proper name counts.
    ///
    /// # Errors
    /// Fails when the directory cannot be read or changed, a block is of a newer version, or descriptors run out:
    /// their lack does not make a block unreadable.
    pub(super) fn open(
        block_dir: &BlockDir<'_>,
        listed: Option<&[Listed]>,
    ) -> Result<Opened, TsdbError> {
        let BlockDir { io, root, .. } = *block_dir;
        let dir = dir_of(root);
        io.create_dir_all(&dir).map_err(io_error(&dir, "create"))?;
        let names = io.list(&dir).map_err(io_error(&dir, "list"))?;
        let mut found = Found::sort(names);
        let mut set = Self::default();
        let (mut gone, mut is_changed) = (Vec::new(), false);
        let named = || found.blocks.iter().map(|name| Listed::named(name));
        for listed in listed.map_or_else(|| named().collect(), <[Listed]>::to_vec) {
            let name = &listed.name;
            let path = dir.join(name);
            if found.gone.contains(name) && !found.blocks.contains(name) {
                gone.push(path);
                is_changed = true;
                continue;
            }
            if found.pending.remove(name) && !found.blocks.contains(name) {
                // The process ended before the block got its final name.
                let temporary = with_suffix(&path, PENDING);
                io.rename(&temporary, &path)
                    .map_err(io_error(temporary, "rename"))?;
                io.sync_dir(&dir).map_err(io_error(&dir, "fsync"))?;
            }
            found.blocks.remove(name);
            set.open_one(block_dir, listed, path)?;
        }
        let leftover = |names: &BTreeSet<String>, suffix: &str| {
            let paths = names
                .iter()
                .map(|name| with_suffix(&dir.join(name), suffix));
            let mut paths =
                paths.filter(|path| !gone.iter().any(|gone| with_suffix(gone, GONE) == *path));
            paths.try_for_each(|path| io.remove(&path).map_err(io_error(path, "remove")))
        };
        leftover(&found.pending, PENDING)?;
        leftover(&found.gone, GONE)?;
        let mut adoption = Adoption {
            io,
            root,
            dir: &dir,
            pool: block_dir.pool,
            cache: block_dir.cache,
            damage: block_dir.damage,
            metrics: block_dir.metrics,
            notices: Vec::new(),
        };
        if listed.is_none() {
            // Without a list, a merged block and its sources can both be present.
            for name in set.drop_superseded() {
                adoption.quarantine(&name, "another block was made from it")?;
            }
        } else {
            // The largest first: it contains the blocks it was made from.
            is_changed |= set.adopt(&mut adoption, &found.blocks)?;
        }
        for name in &found.strange {
            adoption.quarantine(name, "its name is no block's")?;
        }
        let quarantined = super::adopt::quarantined(io, root);
        block_dir.metrics.quarantined.set(quarantined as f64);
        Ok(Opened {
            set,
            is_changed,
            gone,
            notices: adoption.notices,
        })
    }

    fn open_one(
        &mut self,
        block_dir: &BlockDir<'_>,
        listed: Listed,
        path: PathBuf,
    ) -> Result<(), TsdbError> {
        let error = match Block::open_in(block_dir.pool, &path, block_dir.cache, block_dir.damage) {
            Ok(block) => {
                self.push(Arc::new(block));
                return Ok(());
            }
            Err(error @ TsdbError::Version { .. }) => return Err(error),
            Err(TsdbError::Io {
                path,
                operation,
                source,
            }) if is_exhausted(&source) => {
                return Err(io_error(path, operation)(source));
            }
            Err(error) => error,
        };
        let bytes = block_dir.io.open(&path).and_then(|file| file.len_bytes());
        let damage = Damage::from_error(error.into()).unwrap_or_else(|error| Damage {
            path,
            offset: 0,
            detail: error.to_string(),
        });
        self.unreadable.push(Unreadable {
            listed,
            damage,
            bytes: bytes.unwrap_or_default(),
        });
        Ok(())
    }

    /// Adopts blocks that are not listed; returns whether there were any.
    fn adopt(
        &mut self,
        adoption: &mut Adoption<'_>,
        names: &BTreeSet<String>,
    ) -> Result<bool, TsdbError> {
        let sources = self.blocks.iter().flat_map(|block| &block.meta().sources);
        let mut known: HashSet<BlockId> = sources.copied().collect();
        let mut is_changed = false;
        // Newest first: merged blocks have later names than their sources.
        for name in names.iter().rev() {
            let Some(block) = adoption.judge(name, &known)? else {
                continue;
            };
            known.extend(block.meta().sources.iter().copied());
            let id = block.meta().id;
            let at = self.blocks.iter().position(|other| other.meta().id > id);
            self.blocks.insert(at.unwrap_or(self.blocks.len()), block);
            is_changed = true;
        }
        // A lost block is not missing if a block made from it is present.
        self.unreadable.retain(|lost| {
            let name = lost.listed.name.strip_suffix(".block");
            let id = name.and_then(BlockId::parse);
            lost.bytes > 0 || id.is_none_or(|id| !known.contains(&id))
        });
        Ok(is_changed)
    }

    /// Removes blocks whose sources are a proper subset of another's; returns their names.
    fn drop_superseded(&mut self) -> Vec<String> {
        let sources: Vec<BTreeSet<BlockId>> = self
            .blocks
            .iter()
            .map(|block| block.meta().sources.iter().copied().collect())
            .collect();
        let is_superseded = |own: &BTreeSet<BlockId>| {
            let by = |other: &BTreeSet<BlockId>| own.len() < other.len() && own.is_subset(other);
            sources.iter().any(by)
        };
        let mut superseded = sources.iter().map(is_superseded);
        let mut dropped = Vec::new();
        self.blocks.retain(|block| {
            let is_dropped = superseded.next().unwrap_or_default();
            dropped.extend(is_dropped.then(|| block.meta().file_name()));
            !is_dropped
        });
        dropped
    }

    /// Adds a block after all others, which win on equal times.
    pub(super) fn push(&mut self, block: Arc<Block>) {
        self.blocks.push(block);
    }

    /// Puts a merged block in place of its first source and removes the sources.
    pub(super) fn replace(&mut self, sources: &[Arc<Block>], merged: Arc<Block>) {
        let is_source = |other: &Arc<Block>| sources.iter().any(|one| Arc::ptr_eq(one, other));
        let at = self.blocks.iter().position(is_source);
        self.blocks.insert(at.unwrap_or(self.blocks.len()), merged);
        self.blocks.retain(|other| !is_source(other));
    }

    /// Returns the list with a merged block in place of its sources.
    pub(super) fn listed_with(&self, sources: &[Arc<Block>], merged: &BlockMeta) -> Vec<Listed> {
        let names: Vec<String> = sources
            .iter()
            .map(|block| block.meta().file_name())
            .collect();
        let mut listed = self.listed();
        let is_source = |listed: &Listed| names.contains(&listed.name);
        let at = listed.iter().position(is_source).unwrap_or(listed.len());
        listed.insert(at, Listed::new(merged));
        listed.retain(|listed| !is_source(listed));
        listed
    }

    /// Removes a block from the list.
    pub(super) fn remove(&mut self, block: &Arc<Block>) {
        self.blocks.retain(|other| !Arc::ptr_eq(other, block));
    }

    /// Removes unreadable files from the list by name.
    pub(super) fn forget_unreadable(&mut self, names: &[String]) {
        self.unreadable
            .retain(|block| !names.contains(&block.listed.name));
    }

    /// Returns the blocks; on equal times the earlier one's sample wins.
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

    /// Returns the blocks that could not be opened.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.iter()
    }

    /// Returns the list for a manifest whose marks do not rely on the unreadable blocks.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let open = self.blocks.iter().map(|block| Listed::new(block.meta()));
        let lost = self.unreadable.iter().map(|block| Listed {
            given_up: true,
            ..block.listed.clone()
        });
        open.chain(lost).collect()
    }

    /// Returns the total size of all blocks, bytes.
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
