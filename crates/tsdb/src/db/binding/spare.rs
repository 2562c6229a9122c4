//! Frames of parts, reused by all bindings: a binding needs them only while it appends.
//!
//! **Invariant:** a spare frame holds memory and no labels.

use narthex_model::{Frame, LabelSet, Schema, sync::Whole as _};
use std::sync::Mutex;

/// Most sets of frames kept: as many bindings append at a time.
const MOST_SETS: usize = 8;
/// Most columns of a set that is kept.
const MOST_COLUMNS: usize = 1 << 16;

/// Frames that nobody uses.
#[derive(Debug)]
pub(in crate::db) struct SpareFrames {
    sets: Mutex<Vec<Vec<Frame>>>,
    empty: Schema,
}

impl Default for SpareFrames {
    fn default() -> Self {
        Self {
            sets: Mutex::default(),
            empty: Schema::new(LabelSet::empty()),
        }
    }
}

impl SpareFrames {
    /// Returns some frames, possibly none.
    pub(super) fn take_frames(&self) -> Vec<Frame> {
        self.sets.lock().whole().pop().unwrap_or_default()
    }

    /// Takes frames back.
    pub(super) fn give_back(&self, mut frames: Vec<Frame>) {
        let columns: usize = frames.iter().map(|frame| frame.values().len()).sum();
        if frames.is_empty() || columns > MOST_COLUMNS {
            return;
        }
        frames
            .iter_mut()
            .for_each(|frame| frame.restart(&self.empty, 0));
        let mut sets = self.sets.lock().whole();
        if sets.len() < MOST_SETS {
            sets.push(frames);
        }
    }
}
