//! Counters: an integer and a float part per thread, summed when read.
//!
//! **Invariant:** a counter never falls: negative and NaN additions are ignored.

use std::fmt;

use crate::exemplar::Exemplars;
use crate::metric::{Raw, Scratch, Single, Spec, Value};
use crate::point::Point;
use crate::range::Range;
use crate::shards;
use crate::visit::MetricType;

/// Cells: the integer part, the float part.
const CELLS: usize = 2;

/// A counter without labels; `const`-constructible, so it can be a `static`. Counts through [`CounterValue`].
pub type Counter = Single<CounterValue>;

impl Counter {
    /// Creates a counter that starts at 0; nothing is allocated before its first use.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self::from_parts(
            Spec::new(name, help, MetricType::Counter),
            CounterValue::new(),
        )
    }
}

/// Value of a [`Counter`] or of one series of a [`CounterVec`](crate::CounterVec).
pub struct CounterValue {
    range: Range,
    exemplars: Exemplars,
}

impl CounterValue {
    const fn new() -> Self {
        Self {
            range: Range::new(),
            exemplars: Exemplars::new(),
        }
    }

    /// Adds 1.
    #[inline]
    pub fn inc(&self) {
        self.inc_by(1);
    }

    /// Adds a whole number. The sum of all whole numbers wraps at 2^64, and is exposed exactly up to 2^53.
    #[inline]
    pub fn inc_by(&self, n: u64) {
        if let Some(slot) = self.range.slot(CELLS) {
            shards::write(slot, CELLS, |cells| {
                cells.add(0, n);
            });
        }
    }

    /// Adds a number; ignored if it is negative or NaN.
    #[inline]
    pub fn add(&self, v: f64) {
        if v >= 0.0
            && let Some(slot) = self.range.slot(CELLS)
        {
            shards::write(slot, CELLS, |cells| cells.add_f64(1, v));
        }
    }

    /// Adds a number and keeps it as the exemplar, in place of the one before.
    ///
    /// Labels of more than [`EXEMPLAR_MAX_CHARS`](crate::EXEMPLAR_MAX_CHARS) characters, invalid names or none at all
    /// add the number alone. Exemplars appear in OpenMetrics and protobuf.
    pub fn add_with_exemplar<N: AsRef<str>, V: AsRef<str>>(
        &self,
        v: f64,
        labels: impl IntoIterator<Item = (N, V)>,
    ) {
        self.add(v);
        if v >= 0.0 && self.range.is_enabled() {
            self.exemplars.set(1, 0, v, labels);
        }
    }

    /// Adds 1, and keeps it as an exemplar if the last one was exposed since: `labels` runs once per exposition.
    #[inline]
    pub fn inc_sampled<L, N, V>(&self, labels: impl FnOnce() -> L)
    where
        L: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        self.inc();
        if self.exemplars.wants(0) && self.range.is_enabled() {
            self.exemplars.set(1, 0, 1.0, labels());
        }
    }

    /// Returns the sum over all threads; it stays readable while switched off.
    ///
    /// Concurrent additions of other threads may or may not be included.
    #[must_use]
    pub fn get(&self) -> f64 {
        match self.range.peek_any() {
            Some(slot) => read(&shards::Reader::new(), slot),
            None => 0.0,
        }
    }
}

#[inline]
fn read(reader: &shards::Reader, slot: shards::Slot) -> f64 {
    const { assert!(CELLS == 2) };
    let (whole, float) = reader.sum_pair(slot);
    whole as f64 + float
}

impl Value for CounterValue {
    const IS_NUMBER: bool = true;

    fn create(_: &Spec) -> Self {
        Self::new()
    }

    fn range(&self) -> &Range {
        &self.range
    }

    fn read<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Point<'s>> {
        let slot = self.range.peek()?;
        if scratch.wants_exemplars {
            self.exemplars.read(&mut scratch.exemplars);
        }
        Some(Point::Counter {
            value: slot.map_or(0.0, |slot| read(scratch.reader, slot)),
            exemplar: scratch.exemplars.first().and_then(Option::as_deref),
        })
    }

    #[inline]
    fn number(&self, reader: &shards::Reader) -> Option<f64> {
        let slot = self.range.peek()?;
        Some(slot.map_or(0.0, |slot| read(reader, slot)))
    }

    #[inline]
    fn has_exemplar(&self) -> bool {
        self.exemplars.exist()
    }

    fn raw<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Raw<'s>> {
        let slot = self.range.peek()?;
        let value = slot.map_or(0.0, |slot| read(scratch.reader, slot));
        Some(Raw::Counter(value))
    }
}

impl Drop for CounterValue {
    fn drop(&mut self) {
        self.range.release(CELLS);
    }
}

impl fmt::Debug for CounterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CounterValue").field(&self.get()).finish()
    }
}
