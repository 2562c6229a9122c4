//! Destinations of the values of one body.
//!
//! A target is a column of the schema, a hidden cell (of a line that is part of something else), or a marker.
//! **Invariant:** a cell is valid only if its presence bit is set; the first value of a cell wins.

use narthex_model::bits::BitSet;

/// The first target that is not a column.
pub(crate) const HIDDEN: u32 = 1 << 31;
/// Marks a line that is parsed and skipped: its series was dropped.
pub(crate) const SKIP: u32 = u32::MAX;
/// Marks a line of a series that would exceed the sample limit.
pub(crate) const OVER: u32 = u32::MAX - 1;

/// Marks a line of a series that did not fit.
pub(crate) const REFUSED: u32 = u32::MAX - 2;

/// Room reserved for new columns, as a fraction of the existing ones.
const SPARE: usize = 8;

/// Cells of one round.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    pub(crate) values: Vec<f64>,
    pub(crate) present: BitSet,
    pub(crate) hidden: Vec<f64>,
    pub(crate) hidden_present: BitSet,
    pub(crate) counts: Counts,
}

/// Counts of the values that are not the first of their column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) skipped: usize,
    pub(crate) repeated: usize,
    pub(crate) consumed: usize,
    pub(crate) over: usize,
    pub(crate) refused: usize,
}

impl Cells {
    /// Clears all cells for a body of a schema with `columns` columns.
    pub(crate) fn restart(&mut self, columns: usize) {
        self.present.resize(columns);
        self.present.clear();
        self.values.resize(columns, 0.0);
        // A first body grows it line by line, up to twice the size needed.
        self.values.shrink_to(columns + columns / SPARE);
        self.hidden_present.clear();
        self.counts = Counts::default();
    }

    /// Makes room for one more column.
    pub(crate) fn grow(&mut self, columns: usize) {
        self.present.resize(columns);
        self.values.resize(columns, 0.0);
    }

    /// Adds a hidden cell and returns its target.
    pub(crate) fn hide(&mut self) -> u32 {
        let at = self.hidden.len();
        self.hidden.push(0.0);
        self.hidden_present.resize(at + 1);
        HIDDEN + u32::try_from(at).expect("fewer hidden cells than lines")
    }

    /// Stores a value unless its cell has one; reports whether it is the first for a column.
    #[inline]
    pub(crate) fn insert(&mut self, target: u32, value: f64) -> bool {
        if target >= HIDDEN {
            self.insert_elsewhere(target, value);
            return false;
        }
        let at = target as usize;
        if self.present.contains(at) {
            self.counts.repeated += 1;
            return false;
        }
        self.present.insert(at);
        self.values[at] = value;
        true
    }

    #[cold]
    fn insert_elsewhere(&mut self, target: u32, value: f64) {
        match target {
            SKIP => self.counts.skipped += 1,
            OVER => self.counts.over += 1,
            REFUSED => self.counts.refused += 1,
            hidden => {
                let at = (hidden - HIDDEN) as usize;
                self.counts.consumed += 1;
                if !self.hidden_present.contains(at) {
                    self.hidden_present.insert(at);
                    self.hidden[at] = value;
                }
            }
        }
    }

    /// Returns the value of a target, if the round has one.
    pub(crate) fn get(&self, target: u32) -> Option<f64> {
        let (values, present, at) = match target {
            SKIP | OVER | REFUSED => return None,
            HIDDEN.. => (&self.hidden, &self.hidden_present, target - HIDDEN),
            _ => (&self.values, &self.present, target),
        };
        let at = at as usize;
        present.contains(at).then(|| values[at])
    }
}
