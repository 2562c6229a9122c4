//! Gauges: one cell shared by all threads, because a value that is set has no parts to sum.
//!
//! **Invariant:** reading returns exactly the last value set plus everything added since.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use crate::metric::{Raw, Scratch, Single, Spec, Value};
use crate::point::Point;
use crate::range::{ALIGNED_FROM, Range};
use crate::shards::{self, Reader, Slot, fetch_add_f64};
use crate::visit::MetricType;

/// A gauge without labels; `const`-constructible, so it can be a `static`. Set through [`GaugeValue`].
pub type Gauge = Single<GaugeValue>;

impl Gauge {
    /// Creates a gauge that starts at 0; nothing is allocated before its first use.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        // A cache line of its own: writers of two hot gauges do not slow each other.
        let value = GaugeValue::new(ALIGNED_FROM as usize);
        Self::from_parts(Spec::new(name, help, MetricType::Gauge), value)
    }
}

/// Value of a [`Gauge`] or of one series of a [`GaugeVec`](crate::GaugeVec).
pub struct GaugeValue {
    range: Range,
    cells: usize,
}

impl GaugeValue {
    const fn new(cells: usize) -> Self {
        Self {
            range: Range::new(),
            cells,
        }
    }

    /// Sets the value; the last of several threads wins.
    #[inline]
    pub fn set(&self, v: f64) {
        if let Some(slot) = self.range.slot(self.cells) {
            shards::common(slot, 1)[0].store(v.to_bits(), Relaxed);
        }
    }

    /// Adds a number; no addition is lost.
    #[inline]
    pub fn add(&self, v: f64) {
        if let Some(slot) = self.range.slot(self.cells) {
            fetch_add_f64(&shards::common(slot, 1)[0], v);
        }
    }

    /// Subtracts a number.
    #[inline]
    pub fn sub(&self, v: f64) {
        self.add(-v);
    }

    /// Adds 1.
    #[inline]
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// Subtracts 1.
    #[inline]
    pub fn dec(&self) {
        self.add(-1.0);
    }

    /// Returns the value; it stays readable while switched off.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.range.peek_any().map_or(0.0, read)
    }
}

fn read(slot: Slot) -> f64 {
    f64::from_bits(shards::common(slot, 1)[0].load(Relaxed))
}

impl Value for GaugeValue {
    const IS_NUMBER: bool = true;

    fn create(_: &Spec) -> Self {
        Self::new(1)
    }

    fn range(&self) -> &Range {
        &self.range
    }

    fn read<'s>(&self, _: &'s mut Scratch<'_>) -> Option<Point<'s>> {
        let slot = self.range.peek()?;
        Some(Point::Gauge(slot.map_or(0.0, read)))
    }

    #[inline]
    fn number(&self, _: &Reader) -> Option<f64> {
        Some(self.range.peek()?.map_or(0.0, read))
    }

    fn raw<'s>(&self, _: &'s mut Scratch<'_>) -> Option<Raw<'s>> {
        let slot = self.range.peek()?;
        Some(Raw::Gauge(slot.map_or(0.0, read)))
    }
}

impl Drop for GaugeValue {
    fn drop(&mut self) {
        self.range.release(self.cells);
    }
}

impl fmt::Debug for GaugeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GaugeValue").field(&self.get()).finish()
    }
}
