//! Staleness markers of rounds that could not be stored.
//!
//! A source reports the end of a series only once. If the disk is full at that moment, the round is lost, like any
//! unacknowledged one; the end must not be, or the series would stay visible for another five minutes, or resume as if
//! it had never ended.
//!
//! **Invariant:** a marker keeps the time of its round; it is written as soon as the WAL accepts writes again.

use super::Inner;
use crate::error::TsdbError;
use narthex_model::sync::Whole as _;
use narthex_model::{ColumnId, Frame, cell, storage::SeriesSample};
use std::sync::{Mutex, MutexGuard};

/// Most markers kept, so that a disk that stays full does not fill the memory too.
const MOST: usize = 1 << 20;
/// Markers written at once.
const AT_ONCE: usize = 1 << 14;

/// Markers that wait for the WAL.
#[derive(Debug, Default)]
pub(super) struct PendingStale(Mutex<Vec<SeriesSample>>);

impl PendingStale {
    /// Keeps the markers of a round that was not stored.
    pub(super) fn keep(&self, frame: &Frame) {
        let mut waiting = self.lock();
        let room = MOST - waiting.len();
        let marker = |column: &ColumnId| {
            let labels = frame.schema().labels(*column);
            SeriesSample::float(labels, frame.time_of(*column), cell::STALE)
        };
        waiting.extend(frame.stale().iter().take(room).map(marker));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SeriesSample>> {
        self.0.lock().whole()
    }
}

impl Inner {
    /// Writes the waiting markers.
    ///
    /// # Errors
    /// Fails when the WAL still rejects writes; the markers keep waiting.
    pub(super) fn write_pending_stale(&self) -> Result<(), TsdbError> {
        loop {
            let mut waiting = self.pending_stale.lock();
            let at = waiting.len().min(AT_ONCE);
            let rest = waiting.split_off(at);
            let now = std::mem::replace(&mut *waiting, rest);
            drop(waiting);
            if now.is_empty() {
                return Ok(());
            }
            if let Err(error) = self.append_out_of_order(&now) {
                self.pending_stale.lock().splice(..0, now);
                return Err(error);
            }
        }
    }
}
