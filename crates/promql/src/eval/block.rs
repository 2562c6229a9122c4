//! Evaluated instant vectors: series × steps.
//!
//! **Invariant:** `cells.len() == series.len() * steps`, one series after the other; a histogram cell's index is
//! below `histograms.len()`; no cell is a staleness marker; `dense` is true only if every cell is a float.

use super::{
    joined::Given,
    memory::{Hold, ROW_BYTES},
};
use narthex_model::{
    Histogram, LabelHash, LabelSet, METRIC_NAME,
    cell::{self, ABSENT, Cell},
    storage::{Batch, Grouping},
};
use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

/// Labels that describe what a metric measures, which its result no longer does.
pub(crate) const META_LABELS: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

static WITHOUT_META: LazyLock<Grouping> = LazyLock::new(|| Grouping {
    without: true,
    names: META_LABELS.map(Box::from).into(),
});

/// Identity of a row.
#[derive(Clone)]
pub(crate) enum Identity {
    /// A stored series; `bare` leaves out `META_LABELS`.
    Stored {
        batch: Arc<dyn Batch>,
        index: u32,
        bare: bool,
    },
    /// A stored series without `META_LABELS`, with labels of its partner.
    Joined {
        batch: Arc<dyn Batch>,
        index: u32,
        given: Arc<Given>,
    },
    /// Labels of a computed result.
    Owned(LabelSet),
}

/// A row's labels and the fate of its name.
#[derive(Clone)]
pub(crate) struct Series {
    pub(crate) identity: Identity,
    /// Whether to drop the name from the final result.
    pub(crate) drop_name: bool,
}

impl Series {
    pub(crate) fn new(labels: LabelSet) -> Self {
        Self {
            identity: Identity::Owned(labels),
            drop_name: false,
        }
    }

    /// Returns the identity of a stored series; `bare` leaves out `META_LABELS`.
    pub(super) fn stored(batch: &Arc<dyn Batch>, index: u32, bare: bool, drop_name: bool) -> Self {
        Self {
            identity: Identity::Stored {
                batch: Arc::clone(batch),
                index,
                bare,
            },
            drop_name,
        }
    }

    pub(crate) fn labels(&self) -> LabelSet {
        match &self.identity {
            Identity::Owned(labels) => labels.clone(),
            Identity::Stored { batch, index, bare } => stored_labels(&**batch, *index, *bare),
            Identity::Joined {
                batch,
                index,
                given,
            } => given.to(&**batch, *index as usize),
        }
    }

    /// Returns the hash of the labels, without making the set.
    pub(crate) fn hash(&self) -> LabelHash {
        match &self.identity {
            Identity::Owned(labels) => labels.hash(),
            Identity::Stored { batch, index, bare } => {
                if *bare {
                    batch.group_key(*index as usize, &WITHOUT_META)
                } else {
                    batch.identity(*index as usize)
                }
            }
            Identity::Joined {
                batch,
                index,
                given,
            } => given.hash_to(&**batch, *index as usize),
        }
    }

    /// Returns those labels that have one of `names`.
    pub(crate) fn labels_only(&self, names: &[&str]) -> LabelSet {
        match &self.identity {
            Identity::Owned(labels) => labels.only(names),
            Identity::Stored { batch, index, bare } => {
                let meta = |name: &&str| *bare && META_LABELS.contains(name);
                if names.iter().any(meta) {
                    return self.labels().only(names);
                }
                batch.labels_only(*index as usize, names)
            }
            Identity::Joined { .. } => self.labels().only(names),
        }
    }

    /// Returns the memory of a row's identity in bytes; the labels themselves are shared.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.identity {
            Identity::Stored { .. } | Identity::Joined { .. } => ROW_BYTES,
            Identity::Owned(labels) => ROW_BYTES + labels.heap_bytes(),
        }
    }

    pub(crate) fn metric_name(&self) -> String {
        match &self.identity {
            Identity::Owned(labels) => labels.metric_name().to_owned(),
            Identity::Stored { bare: true, .. } | Identity::Joined { .. } => String::new(),
            Identity::Stored { batch, index, .. } => batch
                .label(*index as usize, METRIC_NAME)
                .map(Cow::into_owned)
                .unwrap_or_default(),
        }
    }

    /// Returns the hash of the labels that a grouping keeps.
    pub(crate) fn group_key(&self, keys: &GroupKeys) -> LabelHash {
        match &self.identity {
            Identity::Stored { batch, index, bare } => {
                batch.group_key(*index as usize, keys.grouping(*bare))
            }
            Identity::Joined {
                batch,
                index,
                given,
            } => given.group_key_to(&**batch, *index as usize, &keys.bare),
            Identity::Owned(labels) => narthex_model::storage::group_key_of([labels], &keys.whole),
        }
    }

    /// Drops the name: at once, or marked for the end of the query.
    pub(crate) fn forget_name(&mut self, delayed: bool) {
        if delayed {
            self.drop_name = true;
            return;
        }
        match &mut self.identity {
            Identity::Stored { bare, .. } => *bare = true,
            Identity::Joined { .. } => {}
            Identity::Owned(labels) => *labels = labels.without(&META_LABELS),
        }
    }
}

/// Returns the labels of a stored series; `bare` leaves out `META_LABELS`.
pub(super) fn stored_labels(batch: &dyn Batch, index: u32, bare: bool) -> LabelSet {
    let labels = batch.labels(index as usize);
    match bare {
        true => labels.without(&META_LABELS),
        false => labels,
    }
}

/// A grouping, for series as stored and for series without their names.
#[derive(Debug)]
pub(crate) struct GroupKeys {
    whole: Grouping,
    /// The grouping without `META_LABELS`.
    bare: Grouping,
}

impl GroupKeys {
    /// Returns the grouping of an aggregation, which tells no series apart by their types and units alone.
    pub(crate) fn of_aggregation(grouping: Grouping) -> Self {
        let mut keys = Self::new(grouping);
        if keys.whole.without {
            keys.whole = keys.bare.clone();
        }
        keys
    }

    pub(crate) fn new(whole: Grouping) -> Self {
        let mut names = whole.names.clone();
        if whole.without {
            names.extend(META_LABELS.map(Box::from));
            names.sort_unstable();
            names.dedup();
        } else {
            names.retain(|name| !META_LABELS.contains(&&**name));
        }
        let bare = Grouping {
            without: whole.without,
            names,
        };
        Self { whole, bare }
    }

    /// Returns the grouping of stored series, with their names or without.
    pub(crate) fn grouping(&self, bare: bool) -> &Grouping {
        if bare { &self.bare } else { &self.whole }
    }
}

/// The sample of a row at a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sample<'a> {
    Absent,
    Float(f64),
    Histogram(&'a Arc<Histogram>),
}

impl<'a> Sample<'a> {
    /// Returns the sample of a cell, whose histogram is among `histograms`.
    pub(crate) fn of(value: f64, histograms: &'a [Arc<Histogram>]) -> Self {
        match Cell::decode(value) {
            Cell::Histogram(index) => match histograms.get(index as usize) {
                Some(histogram) => Self::Histogram(histogram),
                None => Self::Absent,
            },
            Cell::Absent | Cell::Stale => Self::Absent,
            Cell::Float(x) => Self::Float(x),
        }
    }

    /// Returns the sample as a value of its own, if there is one.
    pub(super) fn value(self) -> Option<Value> {
        match self {
            Self::Absent => None,
            Self::Float(x) => Some(Value::Float(x)),
            Self::Histogram(h) => Some(Value::Histogram(Arc::clone(h))),
        }
    }

    /// Returns what the sample counts for in samples: a histogram by its size.
    pub(super) fn weight(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Float(_) => 1,
            Self::Histogram(h) => h.weight() as u64,
        }
    }
}

/// An owned sample.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Float(f64),
    Histogram(Arc<Histogram>),
}

/// A set of series over the steps of a query.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) steps: usize,
    pub(crate) series: Vec<Series>,
    pub(crate) cells: Vec<f64>,
    pub(crate) histograms: Vec<Arc<Histogram>>,
    pub(crate) dense: bool,
    pub(crate) hold: Hold,
}

impl Block {
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }

    /// Returns the same rows without their hold.
    pub(crate) fn copy(&self) -> Self {
        Self {
            steps: self.steps,
            series: self.series.clone(),
            cells: self.cells.clone(),
            histograms: self.histograms.clone(),
            dense: self.dense,
            hold: Hold::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.series.len()
    }

    pub(crate) fn row(&self, series: usize) -> &[f64] {
        &self.cells[series * self.steps..(series + 1) * self.steps]
    }

    pub(crate) fn row_mut(&mut self, series: usize) -> &mut [f64] {
        &mut self.cells[series * self.steps..(series + 1) * self.steps]
    }

    pub(crate) fn sample(&self, series: usize, step: usize) -> Sample<'_> {
        self.resolve(self.cells[series * self.steps + step])
    }

    pub(crate) fn resolve(&self, value: f64) -> Sample<'_> {
        Sample::of(value, &self.histograms)
    }

    /// Adds an empty row and returns its index.
    pub(crate) fn add_row(&mut self, series: Series) -> usize {
        self.series.push(series);
        self.cells.resize(self.cells.len() + self.steps, ABSENT);
        self.dense = false;
        self.series.len() - 1
    }

    pub(crate) fn set(&mut self, series: usize, step: usize, value: Value) {
        let cell = match value {
            Value::Float(x) => cell::canonical(x),
            Value::Histogram(histogram) => self.add_histogram(histogram),
        };
        self.cells[series * self.steps + step] = cell;
    }

    /// Stores a histogram and returns the cell that refers to it.
    pub(crate) fn add_histogram(&mut self, histogram: Arc<Histogram>) -> f64 {
        cell::push_histogram(&mut self.histograms, histogram)
    }

    pub(crate) fn is_row_empty(&self, series: usize) -> bool {
        self.row(series).iter().all(|cell| cell::is_absent(*cell))
    }

    /// Drops empty rows.
    pub(crate) fn drop_empty_rows(&mut self) {
        let keep: Vec<bool> = (0..self.len()).map(|row| !self.is_row_empty(row)).collect();
        if keep.iter().all(|keep| *keep) {
            return;
        }
        self.keep_rows(&keep);
    }

    pub(crate) fn keep_rows(&mut self, keep: &[bool]) {
        let (steps, mut to) = (self.steps, 0);
        for (from, _) in keep.iter().enumerate().filter(|(_, keep)| **keep) {
            self.cells
                .copy_within(from * steps..(from + 1) * steps, to * steps);
            self.series.swap(from, to);
            to += 1;
        }
        self.series.truncate(to);
        self.cells.truncate(to * steps);
    }

    /// Appends another block's rows.
    pub(crate) fn append(&mut self, mut other: Self) {
        debug_assert_eq!(self.steps, other.steps);
        if self.series.is_empty() {
            *self = other;
            return;
        }
        let base = self.histograms.len();
        if !other.histograms.is_empty() {
            for value in &mut other.cells {
                *value = cell::rebased(*value, base).unwrap_or(ABSENT);
            }
        }
        self.histograms.append(&mut other.histograms);
        self.series.append(&mut other.series);
        self.cells.append(&mut other.cells);
        self.dense &= other.dense;
        self.hold.join(other.hold);
    }

    /// Returns the memory of the block in bytes, including histograms shared with other blocks.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let histograms = self.histograms.iter();
        let histograms: usize = histograms.map(|h| size_of_val(h) + h.heap_bytes()).sum();
        let series: usize = self.series.iter().map(Series::heap_bytes).sum();
        (size_of_val(&*self.cells) + histograms + series) as u64
    }

    /// Counts samples, with histograms by their weight.
    pub(crate) fn weight(&self) -> u64 {
        if self.dense {
            return self.cells.len() as u64;
        }
        let weights = self.cells.iter().map(|x| self.resolve(*x).weight());
        weights.sum()
    }

    /// Applies `f` to every float; histograms are dropped.
    pub(crate) fn map_floats(&mut self, f: impl Fn(f64) -> f64) {
        if self.dense {
            self.cells.iter_mut().for_each(|x| *x = f(*x));
        } else {
            for value in &mut self.cells {
                *value = if cell::is_float(*value) {
                    cell::canonical(f(*value))
                } else {
                    ABSENT
                };
            }
            self.histograms.clear();
        }
    }
}
