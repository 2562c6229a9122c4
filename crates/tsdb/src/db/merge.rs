//! Merging the blocks of one window of time into one, a little at a time.
//!
//! Series are merged column by column: decoded from every block that has them, combined, encoded again. Memory holds
//! the sources' indexes, the label sets of the result as numbers, one page of each source and one column.
//!
//! **Invariant:** nothing changes until one manifest names the merged block instead of its sources; every cell, start
//! time and histogram is preserved bit for bit, and of two samples of one series at one time the earlier block's wins.

mod group;
mod plan;
mod schedule;

pub(super) use schedule::Merging;

use crate::{
    block::{Block, BlockId, BlockMeta, BlockWriter, MAX_ROWS, StripCursor, StripSource},
    error::TsdbError,
    io::Io,
    label_order::{StripExtent, order_of},
};
use group::{Series, Target};
use narthex_chunks::column::decode_column;
use narthex_model::{
    Histogram, LabelSet, cell,
    storage::{Lease, StorageError},
};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Columns between two checks of the time.
const COLUMNS_PER_LOOK: usize = 16;

/// Common labels, and the strips that have them, by source and number.
type SameCommon = (LabelSet, Vec<(usize, u32)>);

/// Blocks being merged.
pub(super) struct MergeJob {
    sources: Vec<StripSource>,
    groups: VecDeque<SameCommon>,
    current: Option<Group>,
    writer: BlockWriter,
    scratch: Scratch,
    _memory: Lease,
    /// Time spent.
    pub(super) took: Duration,
}

/// Strips with the same common labels, being merged into one or several.
struct Group {
    common: LabelSet,
    inputs: Vec<StripCursor>,
    targets: VecDeque<Target>,
    /// Next series of the first target; `None` before the target was started.
    next: Option<usize>,
}

#[derive(Default)]
struct Scratch {
    cells: Vec<f64>,
    decoded: Vec<f64>,
    starts: Vec<i64>,
    histograms: Vec<Arc<Histogram>>,
}

impl MergeJob {
    /// Starts merging `blocks`, in order of precedence, into a block with id `id`.
    ///
    /// # Errors
    /// Fails when a file cannot be created. If a block's index is damaged, the block's number replaces the job.
    pub(super) fn new(
        io: Arc<dyn Io>,
        dir: &Path,
        blocks: &[Arc<Block>],
        id: BlockId,
        window_ms: i64,
        memory: Lease,
    ) -> Result<Result<Self, usize>, TsdbError> {
        let mut sources = Vec::new();
        let mut groups: Vec<(StripExtent, SameCommon)> = Vec::new();
        let mut places: HashMap<LabelSet, usize> = HashMap::new();
        for (at, block) in blocks.iter().enumerate() {
            let opened = StripSource::new(block).and_then(|source| {
                let strips = source.strips()?;
                Ok((source, strips))
            });
            let (source, strips) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    block.note(error.into()).map_err(not_damage)?;
                    return Ok(Err(at));
                }
            };
            for (strip, (extent, common)) in (0u32..).zip(strips) {
                let place = *places.entry(common.clone()).or_insert(groups.len());
                match groups.get_mut(place) {
                    Some((known, (_, strips))) => {
                        *known = known.with(extent);
                        strips.push((at, strip));
                    }
                    None => groups.push((extent, (common, vec![(at, strip)]))),
                }
            }
            sources.push(source);
        }
        groups
            .sort_by_cached_key(|(extent, (common, _))| extent.place(order_of(common), window_ms));
        let level = blocks.iter().map(|block| block.meta().level).max();
        let level = level.unwrap_or_default().saturating_add(1);
        let ids: BTreeSet<BlockId> = blocks
            .iter()
            .flat_map(|block| block.meta().sources.iter().copied())
            .collect();
        let mut writer = BlockWriter::new(io, dir, id, level, ids.into_iter().collect())?;
        if let Err(error) = add_beside(&mut writer, blocks) {
            writer.abandon();
            return Err(error);
        }
        Ok(Ok(Self {
            sources,
            groups: groups.into_iter().map(|(_, group)| group).collect(),
            current: None,
            writer,
            scratch: Scratch::default(),
            _memory: memory,
            took: Duration::ZERO,
        }))
    }

    /// Returns the blocks being merged.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.sources.iter().map(StripSource::block)
    }

    /// Works until `is_over`; returns whether everything is encoded.
    ///
    /// # Errors
    /// Fails when the block cannot be written; the job must then be abandoned.
    pub(super) fn work(&mut self, is_over: &dyn Fn() -> bool) -> Result<bool, TsdbError> {
        let started = Instant::now();
        let mut done = false;
        while !done && !is_over() {
            done = self.step()?;
        }
        self.took += started.elapsed();
        Ok(done)
    }

    /// Finishes the block; nothing refers to it before the manifest does.
    ///
    /// # Errors
    /// Fails when it cannot be made durable.
    pub(super) fn finish(self) -> Result<BlockMeta, TsdbError> {
        self.writer.finish_pending()
    }

    /// Returns the file's path until the block counts.
    pub(super) fn temporary(&self) -> &Path {
        self.writer.temporary()
    }

    /// Removes the unfinished file.
    pub(super) fn abandon(self) {
        self.writer.abandon();
    }

    /// Does one step; returns whether the job is done.
    fn step(&mut self) -> Result<bool, TsdbError> {
        let Some(group) = &mut self.current else {
            let Some((common, strips)) = self.groups.pop_front() else {
                return Ok(true);
            };
            let table = self.writer.sets();
            let cursors = strips
                .iter()
                .map(|(source, strip)| self.sources[*source].strip(*strip, table));
            let inputs = cursors.collect::<Result<Vec<_>, _>>()?;
            let targets = group::divide(&inputs, MAX_ROWS as usize).into();
            self.current = Some(Group {
                common,
                inputs,
                targets,
                next: None,
            });
            return Ok(false);
        };
        let Some(target) = group.targets.front() else {
            self.current = None;
            return Ok(false);
        };
        if group.next.is_none() {
            self.writer.begin_strip(&group.common, &target.times_ms);
        }
        let from = group.next.unwrap_or_default();
        let to = target.series.len().min(from + COLUMNS_PER_LOOK);
        for series in &target.series[from..to] {
            self.scratch
                .merge_series(target, series, &mut group.inputs)?;
            self.scratch.write_series(series.set, &mut self.writer)?;
        }
        group.next = Some(to);
        if to == target.series.len() {
            self.writer.end_strip()?;
            group.targets.pop_front();
            group.next = None;
        }
        Ok(false)
    }
}

/// Adds the sources' families and exemplars.
fn add_beside(writer: &mut BlockWriter, blocks: &[Arc<Block>]) -> Result<(), TsdbError> {
    for block in blocks {
        match block.families() {
            Ok(families) => writer.add_families(&families),
            Err(error) => block.note(error.into()).map_err(not_damage)?,
        }
        match block.exemplars() {
            Ok(all) => all.into_iter().for_each(|one| writer.add_exemplar(one)),
            Err(error) => block.note(error.into()).map_err(not_damage)?,
        }
    }
    Ok(())
}

/// Passes on read errors other than damage: data that the disk fails to return now must not be lost for ever.
fn not_damage(error: StorageError) -> TsdbError {
    match error {
        StorageError::Io {
            path,
            operation,
            source,
        } => TsdbError::Io {
            path,
            operation,
            source,
        },
        other => TsdbError::Internal {
            operation: "merge blocks",
            cause: other.to_string(),
        },
    }
}

impl Scratch {
    /// Combines the cells of a series from all its sources; the first source's win.
    fn merge_series(
        &mut self,
        target: &Target,
        series: &Series,
        inputs: &mut [StripCursor],
    ) -> Result<(), TsdbError> {
        self.cells.clear();
        self.cells.resize(target.times_ms.len(), cell::ABSENT);
        self.starts.clear();
        self.histograms.clear();
        for own in target.columns_of(series).iter().rev() {
            let input = own.input as usize;
            let rows = target.inputs.iter().find(|rows| rows.0 == input);
            let (_, rows) = rows.expect("a target knows the inputs of its series");
            let cursor = &mut inputs[input];
            if let Err(error) = self.merge_column(rows, cursor, own.column) {
                // Damage is reported, and disappears with its block.
                cursor.block().note(error.into()).map_err(not_damage)?;
            }
            cursor.leave(own.column);
        }
        Ok(())
    }

    fn merge_column(
        &mut self,
        rows: &[u32],
        cursor: &mut StripCursor,
        column: u32,
    ) -> Result<(), TsdbError> {
        let Some(found) = cursor.column(column)? else {
            return Ok(());
        };
        let mut histograms = Vec::new();
        self.decoded.clear();
        self.decoded.resize(rows.len(), cell::ABSENT);
        let decoded = decode_column(found.chunk, &mut self.decoded, &mut histograms);
        if let Err(what) = decoded {
            return Err(cursor.bad_chunk(column, &what));
        }
        if !found.starts.is_empty() {
            self.starts.resize(self.cells.len(), 0);
        }
        let mut starts = found.starts.iter().peekable();
        let mut start_ms = 0;
        let base = self.histograms.len();
        self.histograms.append(&mut histograms);
        for (row, value) in self.decoded.iter().enumerate() {
            while let Some((_, next_ms)) = starts.next_if(|start| start.0 as usize <= row) {
                start_ms = *next_ms;
            }
            let to = rows[row] as usize;
            let Some(value) = cell::rebased(*value, base) else {
                continue;
            };
            self.cells[to] = value;
            if let Some(start) = self.starts.get_mut(to) {
                *start = start_ms;
            }
        }
        Ok(())
    }

    /// Writes the series.
    fn write_series(&self, set: u32, writer: &mut BlockWriter) -> Result<(), TsdbError> {
        let mut start_times = Vec::new();
        let mut before_ms = 0;
        for (row, start_ms) in (0u32..).zip(&self.starts) {
            let present = !cell::is_absent(self.cells[row as usize]);
            if present && *start_ms != before_ms {
                start_times.push((row, *start_ms));
                before_ms = *start_ms;
            }
        }
        writer.add_column_of(set, &start_times, &self.cells, &self.histograms)
    }
}
