//! The series of a family, whatever the type of its label set is.
//!
//! **Invariant:** at most `cap` series plus the overflow series exist; a combination of label values has one series.
//! Label values always come in the number that the family declares.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use super::{DEFAULT_SERIES_CAP, OVERFLOW};
use crate::clock::unix_ms;
use crate::encode::{put_labels, write_labels};
use crate::index::{Index, Item, Leaf};
use crate::metric::{FamilyVisit, RawVisitor, Scratch, Spec, Value};
use crate::point::SeriesVisitor;
use crate::shards::Reader;
use crate::texts::Texts;
use crate::visit::{SampleLabels, Values, pack, unpack};

/// Distance between the series being read and the one being prefetched.
const PREFETCH_AHEAD: usize = 8;

/// A family without the type of its label set.
pub(super) struct Core<V> {
    pub(super) spec: Spec,
    pub(super) cap: usize,
    off: AtomicBool,
    /// 1 while the overflow series exists, which does not count against the cap.
    overflow_series: AtomicUsize,
    pub(super) overflows: AtomicU64,
    pub(super) index: Index<Series<V>>,
}

impl<V> Core<V> {
    pub(super) const fn new(spec: Spec) -> Self {
        Self {
            spec,
            cap: DEFAULT_SERIES_CAP,
            off: AtomicBool::new(false),
            overflow_series: AtomicUsize::new(0),
            overflows: AtomicU64::new(0),
            index: Index::new(),
        }
    }
}

impl<V: Value> Core<V> {
    /// Returns the series with these label values; creates it if needed.
    #[inline(always)]
    pub(super) fn with(&self, values: &[&str]) -> Arc<Series<V>> {
        let hash = hash_of(values);
        let found = self.index.get(hash, |series| series.is(values));
        found.unwrap_or_else(|| self.insert(hash, values))
    }

    /// Calls `f` with the series, without touching its reference count.
    #[inline(always)]
    pub(super) fn update<R>(&self, values: &[&str], f: impl Fn(&V) -> R) -> R {
        let hash = hash_of(values);
        let found = self
            .index
            .with(hash, |series| series.is(values), |series| f(&series.value));
        found.unwrap_or_else(|| f(&self.insert(hash, values).value))
    }

    pub(super) fn remove(&self, values: &[&str]) -> bool {
        let removed = self
            .index
            .remove(hash_of(values), |series| series.is(values));
        if removed && values.iter().all(|value| *value == OVERFLOW) {
            self.overflow_series.store(0, Relaxed);
        }
        removed
    }

    pub(super) fn set_enabled(&self, enabled: bool) {
        self.index.for_each(
            || self.off.store(!enabled, Relaxed),
            |series| series.value.range().set_enabled(enabled),
        );
    }

    pub(super) fn is_enabled(&self) -> bool {
        !self.off.load(Relaxed)
    }

    pub(super) fn visit(&self, reader: &Reader, visitor: &mut dyn SeriesVisitor) {
        let mut family = FamilyVisit::new(reader, self.spec, visitor);
        // No lock is held from here on: series can be added while a slow visitor is running.
        let mut numbers = Vec::new();
        for leaf in self.index.sorted().iter() {
            let is_plain = |series: &Arc<Series<V>>| !series.value.has_exemplar();
            let wants = family.wants;
            let are_numbers = V::IS_NUMBER
                && wants.numbers
                && (!wants.exemplars || leaf.items.iter().all(is_plain));
            if are_numbers {
                numbers.clear();
                for (i, series) in leaf.items.iter().enumerate() {
                    prefetch_value(leaf, i);
                    numbers.push(series.value.number(reader));
                }
                family.numbers(leaf.derived.lines(&self.spec, leaf), &numbers);
            } else {
                self.visit_leaf(leaf, &mut family);
            }
        }
    }

    fn visit_leaf(&self, leaf: &Leaf<Series<V>>, family: &mut FamilyVisit<'_>) {
        let (spec, wants) = (&self.spec, family.wants);
        let lines = wants.lines.then(|| leaf.derived.lines(spec, leaf));
        let messages = wants.messages.then(|| leaf.derived.messages(spec, leaf));
        let mut lines = lines.into_iter().flat_map(Texts::iter);
        let mut messages = messages.into_iter().flat_map(Texts::iter);
        for (i, series) in leaf.items.iter().enumerate() {
            prefetch_value(leaf, i);
            let labels = SampleLabels {
                rendered: lines.next().map_or(b"", |line| labels_of(spec, line)),
                encoded: messages.next().unwrap_or_default(),
                ..series.labels(spec)
            };
            family.series(&series.value, labels, series.created_ms);
        }
    }

    pub(super) fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor) {
        let mut scratch = Scratch::new(reader, &self.spec, false);
        for leaf in self.index.sorted().iter() {
            let lines = leaf.derived.lines(&self.spec, leaf).iter();
            for (series, line) in leaf.items.iter().zip(lines) {
                if let Some(raw) = series.value.raw(&mut scratch) {
                    visitor.series(&self.spec, labels_of(&self.spec, line), &raw);
                }
            }
        }
    }

    #[cold]
    fn insert(&self, hash: u64, values: &[&str]) -> Arc<Series<V>> {
        let made = self.index.get_or_insert(
            hash,
            |series| series.is(values),
            |live| {
                let full = live >= self.cap.saturating_add(self.overflow_series.load(Relaxed));
                (!full).then(|| self.make(values))
            },
        );
        made.unwrap_or_else(|| self.overflow())
    }

    fn overflow(&self) -> Arc<Series<V>> {
        self.overflows.fetch_add(1, Relaxed);
        let values = &*vec![OVERFLOW; self.spec.labels.len()];
        let made = self.index.get_or_insert(
            hash_of(values),
            |series| series.is(values),
            |_| {
                self.overflow_series.store(1, Relaxed);
                Some(self.make(values))
            },
        );
        made.expect("the overflow series is never refused")
    }

    fn make(&self, values: &[&str]) -> Arc<Series<V>> {
        let value = V::create(&self.spec);
        value.range().set_enabled(!self.off.load(Relaxed));
        Arc::new(Series::new(values, value))
    }
}

/// What formats derive from the labels of a leaf's series.
#[derive(Default)]
pub(super) struct Renderings {
    lines: OnceLock<Texts>,
    messages: OnceLock<Texts>,
}

impl Renderings {
    /// Returns the lines up to the number, as counters and gauges have them.
    fn lines<V>(&self, spec: &Spec, leaf: &Leaf<Series<V>>) -> &Texts {
        self.lines.get_or_init(|| {
            Texts::new(&leaf.items, |out, series| {
                out.extend_from_slice(spec.name.as_bytes());
                write_labels(out, series.labels(spec));
                out.push(b' ');
            })
        })
    }

    /// Returns the labels as protobuf fields.
    fn messages<V>(&self, spec: &Spec, leaf: &Leaf<Series<V>>) -> &Texts {
        self.messages.get_or_init(|| {
            Texts::new(&leaf.items, |out, series| {
                put_labels(out, series.labels(spec));
            })
        })
    }
}

/// Returns the labels of a line up to the number.
fn labels_of<'a>(spec: &Spec, line: &'a [u8]) -> &'a [u8] {
    &line[spec.name.len()..line.len() - 1]
}

/// A series with its label values.
pub(super) struct Series<V> {
    pub(super) value: V,
    created_ms: u64,
    /// The label values, packed.
    values: Box<[u8]>,
    count: u32,
}

impl<V> Series<V> {
    pub(super) fn new(values: &[&str], value: V) -> Self {
        let mut packed = Vec::new();
        pack(&mut packed, values);
        Self {
            value,
            created_ms: unix_ms(),
            values: packed.into_boxed_slice(),
            count: u32::try_from(values.len()).expect("less than 4 billion labels"),
        }
    }

    #[inline(always)]
    pub(super) fn is(&self, values: &[&str]) -> bool {
        let is = |i: usize| unpack(&self.values, values.len(), i) == values[i].as_bytes();
        (0..values.len()).all(is)
    }

    fn labels(&self, spec: &Spec) -> SampleLabels<'_> {
        SampleLabels {
            names: spec.labels,
            values: Values::Packed(&self.values),
            ..SampleLabels::NONE
        }
    }
}

impl<V> Item for Series<V> {
    type Derived = Renderings;

    /// Compares by the first label's value, then the second's, and so on.
    fn order(&self, other: &Self) -> Ordering {
        let count = self.count as usize;
        let (own, others) = (&*self.values, &*other.values);
        (0..count)
            .map(|i| unpack(own, count, i).cmp(unpack(others, count, i)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// Prefetches the value of a series that is read soon: series are scattered in memory.
#[inline(always)]
fn prefetch_value<V>(leaf: &Leaf<Series<V>>, at: usize) {
    if let Some(soon) = leaf.items.get(at + PREFETCH_AHEAD) {
        prefetch(&raw const soon.value);
    }
}

/// Prefetches a cache line.
#[inline(always)]
fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing the program sees, from any address; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Hashes label values eight bytes at a time with folded multiplications, from a seed of this process.
#[inline(always)]
pub(super) fn hash_of(values: &[&str]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = seed();
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        wide as u64 ^ (wide >> 64) as u64
    };
    for value in values {
        let bytes = value.as_bytes();
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word), ODD);
        }
        // Including the length makes ("ab", "c") and ("a", "bc") differ.
        hash = fold(hash ^ last_word(bytes, rest), ODD ^ bytes.len() as u64);
    }
    hash
}

/// Returns a word with the bytes of `rest`, the last 0 to 7 of `bytes`; it may contain others too.
#[inline(always)]
fn last_word(bytes: &[u8], rest: &[u8]) -> u64 {
    if let Some(word) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    match (rest.first_chunk::<4>(), rest.last_chunk::<4>(), rest) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        (_, _, [first, .., last]) => {
            let middle = rest[rest.len() / 2];
            u64::from(*first) << 16 | u64::from(middle) << 8 | u64::from(*last)
        }
        (_, _, [only]) => u64::from(*only),
        _ => 0,
    }
}

/// Returns a random number, fixed for this process: an attacker who chooses label values cannot choose collisions.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0) | 1)
}

#[cfg(test)]
mod tests;
