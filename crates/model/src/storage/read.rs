//! The reading half of the contract.

use super::{
    Cardinality, Context, ExemplarSeries, Grouping, Layout, Listing, ListingMark, ListingOf,
    Selector, SeriesQuery, StorageError, Tile, TimeRange, group_key_of,
};
use crate::{
    cell::{self, Cell},
    histogram::Histogram,
    labels::{LabelHash, LabelSet},
    metadata::Family,
};
use std::{borrow::Cow, ops::AddAssign, sync::Arc};

/// A store of samples.
pub trait Store: Send + Sync {
    /// Takes a snapshot of everything that may overlap `range`; the view does not see later writes.
    ///
    /// Cheap: reads lists and counts, no samples.
    ///
    /// # Errors
    /// Fails when the state cannot be read.
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError>;

    /// Takes a snapshot of what `selectors`, none of which reaches beyond `range`, select, and resolves them: what
    /// a view that nobody asks again would prepare.
    ///
    /// A store of very many origins need not look at those that nothing selects.
    ///
    /// # Errors
    /// As `view` and `View::prepare`.
    fn prepare(
        &self,
        range: TimeRange,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        self.view(range)?.prepare(selectors, ctx)
    }

    /// Returns a mark of what `of` lists for `query`, far sooner than it is listed: while the mark stays the same, so does
    /// the list, whatever the range. `None` where the store does not know.
    ///
    /// A view lists what was there when the mark was made if the mark is still the same afterwards.
    ///
    /// # Errors
    /// As `View::prepare`.
    fn listing_mark(
        &self,
        of: ListingOf<'_>,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Option<ListingMark>, StorageError> {
        let _ = (of, query, ctx);
        Ok(None)
    }

    /// Marks a moment: what is stored up to now is seen by later views. `None` where the store does not know of moments.
    fn write_mark(&self) -> Option<WriteMark> {
        None
    }

    /// Returns a time before which no samples were stored or removed since a mark, `i64::MAX` if there were none at all.
    /// `None` if the mark is too old or samples of any time were removed.
    fn unchanged_before(&self, mark: WriteMark) -> Option<i64> {
        let _ = mark;
        None
    }

    /// Returns the times of the oldest and the newest sample, or `None` for an empty store.
    fn time_range(&self) -> Option<TimeRange>;
}

/// A moment in what one store stores.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct WriteMark(pub u64);

/// A consistent state of a store.
pub trait View: Send + Sync {
    /// Resolves selectors to series; equal selectors may be resolved once.
    ///
    /// # Errors
    /// Fails over budget, when stopped, or when an index cannot be read.
    fn prepare(
        &self,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError>;

    /// Lists label names of the series the query selects, sorted, distinct.
    ///
    /// # Errors
    /// As `prepare`.
    fn label_names(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError>;

    /// Lists the values of label `name` in the series the query selects, sorted, distinct, without the empty one.
    ///
    /// # Errors
    /// As `prepare`.
    fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError>;

    /// Lists the series the query selects, sorted, distinct.
    ///
    /// # Errors
    /// As `prepare`.
    fn series(&self, query: &SeriesQuery, ctx: &Context)
    -> Result<Listing<LabelSet>, StorageError>;

    /// Counts series by metric name, label name and label pair, the largest first, at most `limit` of each.
    ///
    /// # Errors
    /// As `prepare`.
    fn cardinality(&self, limit: usize, ctx: &Context) -> Result<Cardinality, StorageError>;

    /// Lists the known families, of `metric` alone or of all, sorted by name; several entries where origins disagree.
    ///
    /// # Errors
    /// As `prepare`.
    fn metadata(&self, metric: Option<&str>, ctx: &Context) -> Result<Vec<Family>, StorageError>;

    /// Lists the exemplars of the series the query selects, by series, ascending in time.
    ///
    /// # Errors
    /// As `prepare`.
    fn exemplars(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Vec<ExemplarSeries>, StorageError> {
        let _ = (query, ctx);
        Ok(Vec::new())
    }
}

/// Upper bound on a selector's cost, known before decoding.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Estimate {
    /// Number of series.
    pub series: u64,
    /// Number of samples.
    pub samples: u64,
    /// Encoded bytes to read.
    pub bytes: u64,
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, more: Self) {
        self.series += more.series;
        self.samples += more.samples;
        self.bytes += more.bytes;
    }
}

/// Resolved selectors.
pub trait Prepared: Send + Sync {
    /// Returns the cost of all selectors together.
    fn estimate(&self) -> Estimate;

    /// Returns the batches of one selector, given its index in the list passed to `prepare`.
    ///
    /// Over all batches of a selector every identity occurs **exactly once**, and the order of batches and of the
    /// series in them is the same for the same view: summing in that order always gives the same bits.
    ///
    /// # Errors
    /// As `View::prepare`.
    fn batches(&self, selector: usize, ctx: &Context) -> Result<Vec<Arc<dyn Batch>>, StorageError>;

    /// Returns warnings known before reading that do not invalidate the answer; warnings found while reading go to
    /// the context.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The newest cell of a series at some instant.
#[derive(Clone, Debug, PartialEq)]
pub struct LastCell {
    /// Time of the sample.
    pub time_ms: i64,
    /// A float or a staleness marker; a histogram's cell when `histogram` is set.
    pub cell: f64,
    /// The histogram, if the cell is one.
    pub histogram: Option<Arc<Histogram>>,
    /// Start time of the counter, 0 if unknown.
    pub start_time_ms: i64,
}

impl LastCell {
    /// Returns what it counts for in samples: a histogram by its size.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let histogram = self.histogram.as_ref();
        histogram.map_or(1, |histogram| histogram.weight() as u64)
    }

    /// Returns the newest cell of a tile's series.
    #[must_use]
    pub fn newest_of(tile: &Tile, series: usize) -> Option<Self> {
        let newest = |row: &usize| !cell::is_absent(tile.get(*row, series));
        let row = (0..tile.times_ms.len()).rev().find(newest)?;
        let value = tile.get(row, series);
        let histogram = match Cell::decode(value) {
            Cell::Histogram(index) => tile.histograms.get(index as usize).cloned(),
            _ => None,
        };
        let start_ms = tile.start_times_ms.get(tile.at(row, series));
        Some(Self {
            time_ms: tile.times_ms[row],
            cell: value,
            histogram,
            start_time_ms: start_ms.copied().unwrap_or_default(),
        })
    }
}

/// Names a list of series of one strip.
#[derive(Clone, Debug)]
pub struct SeriesKey {
    /// Number of the strip.
    pub strip: u32,
    /// Columns of the strip, a list that never changes: no other is in its place while somebody has it.
    pub columns: Arc<[u32]>,
}

impl PartialEq for SeriesKey {
    fn eq(&self, other: &Self) -> bool {
        self.strip == other.strip && Arc::ptr_eq(&self.columns, &other.columns)
    }
}

/// Series that share one time axis (or one single series).
///
/// Series are numbered from 0. Methods may be called from several threads at once.
pub trait Batch: Send + Sync {
    /// Returns the number of series.
    fn len(&self) -> usize;

    /// Reports whether there is no series.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Builds the label set of a series.
    fn labels(&self, series: usize) -> LabelSet;

    /// Returns those labels of a series that have one of `names`.
    fn labels_only(&self, series: usize, names: &[&str]) -> LabelSet {
        self.labels(series).only(names)
    }

    /// Returns labels that every series has, where they are known without looking at the series.
    ///
    /// No series has another label of the same name: batches that differ in the value of one have no series in common.
    fn common(&self) -> Option<&LabelSet> {
        None
    }

    /// Returns the labels that a series has besides those that `common` returns, where the store keeps them apart.
    fn local(&self, _series: usize) -> Option<&LabelSet> {
        None
    }

    /// Returns [`LabelSet::names_key`] of the labels that `common` returns.
    fn common_names(&self) -> Option<u64> {
        self.common().map(LabelSet::names_key)
    }

    /// Returns a hash of the texts of the labels that `common` returns, which is the same in every process, where the store
    /// keeps one.
    fn common_order(&self) -> Option<u64> {
        None
    }

    /// Returns a key of the batch's series: every batch of the store with this key has the same series in the same order,
    /// so that what was found out about their labels may be kept. `None` where the store does not know one.
    fn series_key(&self) -> Option<SeriesKey> {
        None
    }

    /// Returns the value of one label of a series, `None` where the series lacks it.
    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        self.labels(series)
            .get(name)
            .map(|value| Cow::Owned(value.to_owned()))
    }

    /// Returns the hash of the label set of a series.
    fn identity(&self, series: usize) -> LabelHash {
        self.labels(series).hash()
    }

    /// Returns the hash of the labels that `grouping` keeps of a series.
    fn group_key(&self, series: usize, grouping: &Grouping) -> LabelHash {
        match (self.common(), self.local(series)) {
            (Some(common), Some(local)) => group_key_of([local, common], grouping),
            _ => group_key_of([&self.labels(series)], grouping),
        }
    }

    /// Returns an interval that contains all samples of the batch.
    fn time_range(&self) -> TimeRange;

    /// Returns an upper bound on the samples of one series within `range`, which is also the number of a tile's rows.
    fn rows(&self, range: TimeRange) -> usize;

    /// Decodes the cells of `series`, in that order, within `range`, into `tile`.
    ///
    /// The tile gets one row for each instant of the shared axis within `range`, even where no chosen series has a
    /// sample; the caller has leased the memory (`rows(range) * series.len() * 8` bytes). Start times are filled when
    /// the selector's hints ask for them. Damaged cells become absent, with a warning in `ctx`.
    ///
    /// # Errors
    /// Fails when stopped or when bytes cannot be read; the tile's contents are then unspecified.
    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError>;

    /// Reports whether the newest cell within `range` of every series is known to be a staleness marker.
    ///
    /// A store that has found that out may say so, to spare later queries the same search; `false` says nothing.
    fn has_ended(&self, _range: TimeRange) -> bool {
        false
    }

    /// Finds the newest cell within `range` for each of `series`, pushing one entry for each onto `out`.
    ///
    /// A staleness marker counts as a cell: it is returned, and hides older samples.
    ///
    /// # Errors
    /// As `read`.
    fn last(
        &self,
        series: &[u32],
        range: TimeRange,
        out: &mut Vec<Option<LastCell>>,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let mut tile = Tile::default();
        self.read(series, range, Layout::SeriesMajor, &mut tile, ctx)?;
        out.extend((0..tile.series).map(|at| LastCell::newest_of(&tile, at)));
        Ok(())
    }
}
