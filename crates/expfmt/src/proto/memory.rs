//! Memory of an origin's messages: families by their heads, metrics by their encoded labels.
//!
//! **Invariant:** everything here is a hint: without it a body yields the same result, only slower.

use crate::hash::hash;
use narthex_model::MetricType;
use std::{collections::HashMap, ops::Range};

/// A walk's findings about the body's order.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The order of this body, if it differs from the expected one by more than absences.
    pub(super) order: Option<Order>,
    /// Metrics in the body.
    pub(super) metrics: usize,
}

/// Look-up tables are dropped after this many rounds without anything unexpected.
const STABLE_ROUNDS: u8 = 8;

/// Families and metrics in order of appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// Heads and labels, as encoded.
    bytes: Vec<u8>,
    pub(super) families: Vec<Family>,
    pub(super) entries: Vec<Entry>,
    targets: Vec<u32>,
    bounds: Vec<u64>,
}

/// A family: everything before its first metric.
#[derive(Clone, Debug)]
pub(super) struct Family {
    head: Range<u32>,
    /// Hash of its name and type.
    pub(super) key: u64,
    pub(super) kind: MetricType,
    pub(super) entries: Range<u32>,
}

/// A metric: its labels, the shape of its value, and the targets of its samples.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    labels: Range<u32>,
    targets: Range<u32>,
    bounds: Range<u32>,
    native: bool,
}

/// Identity of a metric within its family, in a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) labels: &'a [u8],
    pub(super) native: bool,
    /// Bits of quantiles or bucket bounds.
    pub(super) bounds: &'a [u64],
}

fn range(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

fn offset(len: usize) -> u32 {
    u32::try_from(len).expect("bodies are below 4 GiB")
}

impl Order {
    pub(super) fn head(&self, family: &Family) -> &[u8] {
        &self.bytes[range(&family.head)]
    }

    pub(super) fn targets(&self, entry: &Entry) -> &[u32] {
        &self.targets[range(&entry.targets)]
    }

    /// Reports whether a metric has the shape an entry expects.
    #[inline]
    pub(super) fn fits(&self, entry: &Entry, shape: Shape<'_>) -> bool {
        self.bytes[range(&entry.labels)] == *shape.labels
            && entry.native == shape.native
            && self.bounds[range(&entry.bounds)] == *shape.bounds
    }

    /// Returns the part of the order before a position: `families` families, the last one's entries up to `entries`.
    pub(super) fn prefix(&self, families: usize, entries: usize) -> Self {
        let mut prefix = Self {
            families: self.families[..families].to_vec(),
            entries: self.entries[..entries].to_vec(),
            ..Self::default()
        };
        if let Some(last) = prefix.families.last_mut() {
            last.entries.end = offset(entries);
        }
        let last = prefix.entries.last();
        prefix.targets =
            self.targets[..last.map_or(0, |entry| entry.targets.end as usize)].to_vec();
        prefix.bounds = self.bounds[..last.map_or(0, |entry| entry.bounds.end as usize)].to_vec();
        let labels_end = last.map_or(0, |entry| entry.labels.end);
        let heads_end = prefix.families.last().map_or(0, |family| family.head.end);
        prefix.bytes = self.bytes[..labels_end.max(heads_end) as usize].to_vec();
        prefix
    }

    pub(super) fn push_family(&mut self, head: &[u8], key: u64, kind: MetricType) {
        let from = offset(self.bytes.len());
        self.bytes.extend_from_slice(head);
        let entries = offset(self.entries.len());
        self.families.push(Family {
            head: from..offset(self.bytes.len()),
            key,
            kind,
            entries: entries..entries,
        });
    }

    pub(super) fn push_entry(&mut self, shape: Shape<'_>, targets: &[u32]) {
        let push = |len: usize, more: usize| offset(len)..offset(len + more);
        self.entries.push(Entry {
            labels: push(self.bytes.len(), shape.labels.len()),
            targets: push(self.targets.len(), targets.len()),
            bounds: push(self.bounds.len(), shape.bounds.len()),
            native: shape.native,
        });
        self.bytes.extend_from_slice(shape.labels);
        self.targets.extend_from_slice(targets);
        self.bounds.extend_from_slice(shape.bounds);
        if let Some(family) = self.families.last_mut() {
            family.entries.end = offset(self.entries.len());
        }
    }

    fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.families.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.targets.shrink_to_fit();
        self.bounds.shrink_to_fit();
    }
}

/// Index for families and metrics out of order.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) families: HashMap<u64, u32>,
    metrics: HashMap<(u64, u64), u32>,
}

impl Index {
    pub(super) fn new(order: &Order) -> Self {
        let mut index = Self::default();
        for (at, family) in (0u32..).zip(&order.families) {
            index.families.insert(hash(order.head(family)), at);
            for entry in family.entries.clone() {
                let labels = &order.bytes[range(&order.entries[entry as usize].labels)];
                index.metrics.insert((family.key, hash(labels)), entry);
            }
        }
        index
    }

    /// Returns the entry of a metric by its family's key and its labels.
    pub(super) fn metric(&self, family: u64, labels: &[u8]) -> Option<usize> {
        self.metrics
            .get(&(family, hash(labels)))
            .map(|at| *at as usize)
    }
}

/// The expected order of an origin's messages, with an index for those out of order.
#[derive(Debug, Default)]
pub(crate) struct MessageMemory {
    pub(super) order: Order,
    pub(super) index: Option<Index>,
    stable_rounds: u8,
}

impl MessageMemory {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Reports whether rounds were as expected for so long that look-up tables are not worth their memory.
    pub(crate) fn is_stable(&self) -> bool {
        self.stable_rounds >= STABLE_ROUNDS
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let order = &self.order;
        order.bytes.capacity()
            + order.families.capacity() * size_of::<Family>()
            + order.entries.capacity() * size_of::<Entry>()
            + order.targets.capacity() * 4
            + order.bounds.capacity() * 8
    }

    /// Adopts the order that a walk built, if the body was not as expected.
    pub(crate) fn remember(&mut self, walked: Walked) {
        if let Some(mut order) = walked.order {
            order.shrink();
            self.order = order;
            self.index = None;
            self.stable_rounds = 0;
            return;
        }
        self.stable_rounds = self.stable_rounds.saturating_add(1);
        if self.is_stable() {
            self.index = None;
        }
        if self.order.entries.len() > 2 * walked.metrics + 64 {
            self.clear();
        }
    }
}
