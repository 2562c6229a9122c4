//! Lines in groups that share a timestamp, as the lines of a container on a page of cAdvisor do.
//!
//! A container is looked at from time to time, whenever the page is asked for. So its lines have the time of the last look,
//! and where none came since the last scrape, the page repeats them, values included.
//!
//! **Invariant:** the stamps of a group never go back, and lines with the same stamp have the same value.

use crate::load::fleet::OLDEST_STAMP_MS;
use narthex_testkit::rng::SplitMix64;

/// Lines of a container.
const LINES: usize = 60;
/// One in this many groups repeats its lines, if they are new.
const REPEATS: u64 = 4;

/// Groups of a page's lines; each family has lines of all groups.
#[derive(Debug)]
pub(super) struct Groups {
    /// Of each group, and whether it is new in this round.
    stamps_ms: Vec<(i64, bool)>,
    /// Of each line, as of its stamp.
    values: Vec<f64>,
    rng: SplitMix64,
}

impl Groups {
    /// Returns the groups of target `index`, before its first round.
    pub(super) fn new(index: usize, values: &[f64]) -> Self {
        Self {
            stamps_ms: vec![(i64::MIN, false); values.len().div_ceil(LINES)],
            values: values.to_vec(),
            rng: SplitMix64::new(!(index as u64)),
        }
    }

    /// Advances to the round at `now_ms`, in which lines looked at have these values.
    pub(super) fn step(&mut self, now_ms: i64, values: &[f64]) {
        for (stamp_ms, is_new) in &mut self.stamps_ms {
            *is_new = !*is_new || !self.rng.one_in(REPEATS);
            let age_ms = self.rng.below(OLDEST_STAMP_MS) as i64;
            if *is_new {
                *stamp_ms = (now_ms - age_ms).max(stamp_ms.saturating_add(1));
            }
        }
        let groups = self.stamps_ms.len();
        for (line, (value, fresh)) in self.values.iter_mut().zip(values).enumerate() {
            if self.stamps_ms[line % groups].1 {
                *value = *fresh;
            }
        }
    }

    /// Returns each line's value.
    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns a line's timestamp.
    pub(super) fn stamp_ms(&self, line: usize) -> i64 {
        self.stamps_ms[line % self.stamps_ms.len()].0
    }
}
