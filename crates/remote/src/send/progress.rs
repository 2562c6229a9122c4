//! How far a worker has come: what was read, what each shard has acknowledged, and the cursor file they go to.
//!
//! **Invariant:** a shard's position is never past a sample of its own that was neither acknowledged nor given up.

use crate::queue::{CursorFile, PendingRange, Position, Queue};
use narthex_model::sync::Whole as _;
use std::sync::{Arc, Mutex};

/// How far a worker has come.
#[derive(Debug)]
pub(super) struct Progress {
    /// The beginning of the file that the worker ends before.
    until: Option<Position>,
    /// The place up to which entries were read.
    read: Position,
    shards: Vec<ShardProgress>,
}

#[derive(Clone, Copy, Debug)]
struct ShardProgress {
    acknowledged: Position,
    /// Requests that it was handed and has not acknowledged.
    waiting: usize,
    /// Whether samples of it were read that it was not handed yet.
    is_building: bool,
}

impl ShardProgress {
    fn is_idle(&self) -> bool {
        self.waiting == 0 && !self.is_building
    }
}

impl Progress {
    pub(super) fn new(range: &PendingRange) -> Self {
        let shard = |at: &Position| ShardProgress {
            acknowledged: *at,
            waiting: 0,
            is_building: false,
        };
        Self {
            until: range.until,
            read: range.low(),
            shards: range.shards.iter().map(shard).collect(),
        }
    }

    /// Records that entries up to `read` were read; `building` tells which shards have samples of them that they were not
    /// handed yet.
    pub(super) fn read_to(&mut self, read: Position, building: impl Iterator<Item = bool>) {
        self.read = read;
        for (shard, is_building) in self.shards.iter_mut().zip(building) {
            shard.is_building = is_building;
        }
    }

    /// Records that a shard is handed a request; `is_building` tells whether it has more samples that were read.
    pub(super) fn hand_over(&mut self, shard: usize, is_building: bool) {
        if let Some(shard) = self.shards.get_mut(shard) {
            shard.waiting += 1;
            shard.is_building = is_building;
        }
    }

    /// Records that a shard's oldest request is done with, which ends at `until`.
    fn acknowledge(&mut self, shard: usize, until: Position) {
        if let Some(shard) = self.shards.get_mut(shard) {
            shard.waiting = shard.waiting.saturating_sub(1);
            shard.acknowledged = shard.acknowledged.max(until);
        }
    }

    /// Returns the beginning of the file that the worker ends before.
    pub(super) fn until(&self) -> Option<Position> {
        self.until
    }

    /// Ends the worker before a file.
    pub(super) fn end_at(&mut self, until: Position) {
        self.until = Some(until);
    }

    /// Reports whether nothing that was read is waiting to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.shards.iter().all(ShardProgress::is_idle)
    }

    /// Returns what is left to send, as the cursor holds it.
    pub(super) fn range(&self) -> PendingRange {
        let position = |shard: &ShardProgress| {
            if shard.is_idle() {
                shard.acknowledged.max(self.read)
            } else {
                shard.acknowledged
            }
        };
        PendingRange {
            until: self.until,
            shards: self.shards.iter().map(position).collect(),
        }
    }

    /// Begins again with what is not acknowledged, with the same shards.
    pub(super) fn rewind(&mut self) {
        *self = Self::new(&self.range());
    }

    /// Goes on with another number of shards; everything that was read must be acknowledged.
    pub(super) fn reshard(&mut self, shards: usize) {
        debug_assert!(self.is_idle());
        let low = self.range().low();
        let range = PendingRange {
            until: self.until,
            shards: vec![low; shards],
        };
        *self = Self::new(&range);
    }
}

/// The cursor of a destination: the progress of its workers, and its file.
#[derive(Debug)]
pub(super) struct Cursor {
    file: CursorFile,
    /// Oldest first.
    workers: Vec<Arc<Mutex<Progress>>>,
    written: Vec<PendingRange>,
    /// Whether the last write failed, which is logged once.
    is_failing: bool,
}

impl Cursor {
    pub(super) fn new(file: CursorFile, workers: Vec<Arc<Mutex<Progress>>>) -> Self {
        Self {
            file,
            workers,
            written: Vec::new(),
            is_failing: false,
        }
    }

    pub(super) fn workers(&self) -> &[Arc<Mutex<Progress>>] {
        &self.workers
    }

    /// Adds the progress of a worker behind all others.
    pub(super) fn add(&mut self, worker: Arc<Mutex<Progress>>) {
        self.workers.push(worker);
    }

    /// Removes the progress of a worker that has sent everything up to its end.
    pub(super) fn remove(&mut self, worker: &Arc<Mutex<Progress>>) {
        self.workers.retain(|one| !Arc::ptr_eq(one, worker));
    }

    /// Records that a request is done with and saves the cursor.
    pub(super) fn acknowledge(
        &mut self,
        worker: &Mutex<Progress>,
        shard: usize,
        until: Position,
        queue: &Queue,
    ) {
        worker.lock().whole().acknowledge(shard, until);
        self.save(queue);
    }

    /// Writes what changed and removes the files that are not needed; returns how many samples are left to send.
    pub(super) fn save(&mut self, queue: &Queue) -> u64 {
        let ranges: Vec<PendingRange> = self
            .workers
            .iter()
            .map(|worker| worker.lock().whole().range())
            .collect();
        let left = samples_left(&ranges, queue);
        if ranges == self.written {
            return left;
        }
        if let Err(error) = self.file.write(&ranges) {
            if !std::mem::replace(&mut self.is_failing, true) {
                tracing::error!(%error, "A remote write cursor cannot be written: after a restart samples are sent again.");
            }
            return left;
        }
        self.is_failing = false;
        let done = queue.status().samples.saturating_sub(left);
        queue.release(done, |file| {
            ranges.iter().any(|range| {
                file >= range.low().file && range.until.is_none_or(|until| file < until.file)
            })
        });
        self.written = ranges;
        left
    }
}

/// Returns how many samples of the queue lie in the ranges; what was given up lies in none.
fn samples_left(ranges: &[PendingRange], queue: &Queue) -> u64 {
    let status = queue.status();
    let end = |range: &PendingRange| range.until.map_or(status.samples, |until| until.sample);
    let begin = |range: &PendingRange| range.low().sample.max(status.gone_samples);
    let left = |range: &PendingRange| end(range).saturating_sub(begin(range));
    ranges.iter().map(left).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sample: u64) -> Position {
        Position {
            file: 1,
            offset: 32 + sample,
            index: 0,
            sample,
        }
    }

    fn samples(progress: &Progress) -> Vec<u64> {
        let range = progress.range();
        range.shards.iter().map(|at| at.sample).collect()
    }

    #[test]
    fn shards_move_on_with_what_they_have_done() {
        let mut progress = Progress::new(&PendingRange {
            until: None,
            shards: vec![at(0), at(0)],
        });
        progress.read_to(at(10), [true, false].into_iter());
        assert_eq!(
            samples(&progress),
            [0, 10],
            "one has samples, the other nothing"
        );
        progress.hand_over(0, false);
        progress.read_to(at(20), [true, false].into_iter());
        progress.acknowledge(0, at(7));
        assert_eq!(samples(&progress), [7, 20]);
        progress.hand_over(0, true);
        progress.acknowledge(0, at(12));
        assert_eq!(
            samples(&progress),
            [12, 20],
            "there is more of what was read"
        );
        progress.hand_over(0, false);
        progress.acknowledge(0, at(15));
        assert_eq!(samples(&progress), [20, 20]);
        assert!(progress.is_idle());
        progress.reshard(3);
        assert_eq!(samples(&progress), [20, 20, 20]);
    }

    #[test]
    fn what_is_not_acknowledged_is_read_again() {
        let mut progress = Progress::new(&PendingRange {
            until: None,
            shards: vec![at(0), at(5)],
        });
        progress.read_to(at(10), [true, true].into_iter());
        progress.hand_over(0, false);
        progress.hand_over(1, false);
        progress.acknowledge(1, at(9));
        progress.rewind();
        assert_eq!(samples(&progress), [0, 10]);
        assert!(progress.is_idle(), "nothing was read again yet");
    }
}
