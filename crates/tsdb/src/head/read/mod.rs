//! Reading the head: the columns that a selector selects, as batches.
//!
//! **Invariant:** a batch decodes only what its pins allow, so later writes and flushes never show; columns with a
//! second source (another strip, loose samples) are in separate batches, so that only those need merging.

mod decode;
mod listing;
mod loose;
mod strip;

pub(crate) use decode::decode_segment;
pub(crate) use strip::StripBatch;

use super::{
    Head,
    index::Chosen,
    segment::Segment,
    strip::{Pin, Strip, StripState},
};
use loose::LooseBatch;
use narthex_model::{
    ColumnId, LabelSet, Matcher, Schema,
    storage::{Batch, Context, Estimate, Hints, Lease, StorageError, TimeRange},
};
use std::sync::Arc;

/// Part of the head that a view sees.
#[derive(Debug, Default)]
pub(crate) struct HeadPins {
    /// By strip number, ascending.
    pins: Vec<(u32, Pin)>,
}

/// The batches of one selector.
#[derive(Default)]
pub(crate) struct HeadBatches {
    /// Batches whose series have no other source in the head.
    pub(crate) alone: Vec<Arc<dyn Batch>>,
    /// Batches to be merged with one another.
    pub(crate) mixed: Vec<Arc<dyn Batch>>,
    pub(crate) estimate: Estimate,
    /// Memory of the batches before anything is decoded.
    pub(crate) lease: Option<Lease>,
}

/// Bytes of one selected column: its number in the index's selection, in a list that doubles, and in a batch.
const COLUMN_BYTES: usize = 4 * size_of::<u32>();
/// Bytes of a series with loose samples: a batch of its own, in a list that doubles.
const LOOSE_BYTES: usize =
    size_of::<LooseBatch>() + 2 * size_of::<usize>() + 2 * size_of::<Arc<dyn Batch>>();

/// A series of the head, in the parts that hold it.
#[derive(Clone, Debug)]
pub(crate) struct SeriesParts {
    pub(crate) common: LabelSet,
    pub(crate) local: LabelSet,
}

impl SeriesParts {
    pub(crate) fn labels(&self) -> LabelSet {
        self.common.union(&self.local)
    }
}

impl HeadPins {
    pub(crate) fn of(strips: &[Arc<Strip>]) -> Self {
        let pins = strips
            .iter()
            .map(|strip| (strip.id, strip.pin()))
            .filter(|(_, pin)| !pin.is_empty());
        Self {
            pins: pins.collect(),
        }
    }

    fn get(&self, strip: u32) -> Option<Pin> {
        let at = self.pins.binary_search_by_key(&strip, |pin| pin.0).ok()?;
        Some(self.pins[at].1)
    }
}

/// One selected strip with the part that a selector may see.
struct Visible {
    strip: Arc<Strip>,
    schema: Schema,
    /// Columns with only rows, ascending.
    rows_alone: Vec<u32>,
    /// Columns with rows and another source.
    rows_mixed: Vec<u32>,
    /// Columns with only loose samples and no other owner.
    loose_alone: Vec<u32>,
    loose_mixed: Vec<u32>,
    pin: Pin,
    /// Most rows within the range.
    rows: usize,
    range: TimeRange,
}

impl Visible {
    /// Sorts a strip's selected columns by the sources of their samples; `None` if nothing can be within `range`.
    fn new(chosen: Chosen, pin: Pin, range: TimeRange) -> Option<Self> {
        let Chosen { strip, columns } = chosen;
        let state = strip.lock();
        let segments: Vec<&Segment> = segments_within(&state, pin, range).collect();
        let loose_overlaps = loose_overlaps(&state, pin, range);
        if segments.is_empty() && !loose_overlaps {
            return None;
        }
        let mut visible = Self {
            schema: state.schema.clone(),
            rows_alone: Vec::new(),
            rows_mixed: Vec::new(),
            loose_alone: Vec::new(),
            loose_mixed: Vec::new(),
            pin,
            rows: segments
                .iter()
                .map(|segment| {
                    segment.row_at(range.max_ms.saturating_add(1)) - segment.row_at(range.min_ms)
                })
                .sum(),
            range: segments
                .iter()
                .filter_map(|segment| segment.time_range())
                .map(|(min, max)| TimeRange::new(min, max))
                .reduce(TimeRange::hull)
                .unwrap_or(TimeRange::new(0, -1)),
            strip: Arc::clone(&strip),
        };
        for column in columns {
            let in_rows = segments.iter().any(|segment| segment.has_seen(column));
            let in_loose = loose_overlaps && state.loose.has(column);
            let shared = state.shared.contains_key(&column);
            let mixed = shared || (in_rows && in_loose);
            if in_rows {
                if mixed {
                    &mut visible.rows_mixed
                } else {
                    &mut visible.rows_alone
                }
                .push(column);
            }
            if in_loose {
                if mixed {
                    &mut visible.loose_mixed
                } else {
                    &mut visible.loose_alone
                }
                .push(column);
            }
        }
        drop(state);
        Some(visible)
    }

    /// Returns the columns, those with both rows and loose samples twice.
    fn columns(&self) -> impl Iterator<Item = u32> + '_ {
        let all = [
            &self.rows_alone,
            &self.rows_mixed,
            &self.loose_alone,
            &self.loose_mixed,
        ];
        all.into_iter().flatten().copied()
    }

    fn series(&self) -> impl Iterator<Item = SeriesParts> + '_ {
        self.columns().map(|column| SeriesParts {
            common: self.strip.common.clone(),
            local: self.schema.column(ColumnId(column)).set.clone(),
        })
    }
}

/// Returns the segments that a pin shows and that may have rows within `range`.
fn segments_within(
    state: &StripState,
    pin: Pin,
    range: TimeRange,
) -> impl Iterator<Item = &Segment> {
    let open = state.open.published();
    let all = state.sealed.iter().map(|segment| &**segment).chain([open]);
    all.filter(move |segment| segment.first_row < pin.rows.1 && segment.end_row() > pin.rows.0)
        .filter(move |segment| {
            segment
                .time_range()
                .is_some_and(|(min, max)| TimeRange::new(min, max).overlaps(range))
        })
}

fn loose_overlaps(state: &StripState, pin: Pin, range: TimeRange) -> bool {
    pin.loose.0 < pin.loose.1
        && state
            .loose
            .time_range()
            .is_some_and(|(min, max)| TimeRange::new(min, max).overlaps(range))
}

/// Decides whether a strip may have samples within `range` that its pin shows.
fn overlaps(state: &StripState, pin: Pin, range: TimeRange) -> bool {
    loose_overlaps(state, pin, range) || segments_within(state, pin, range).next().is_some()
}

impl Head {
    fn visible(
        &self,
        pins: &HeadPins,
        matchers: &[Matcher],
        range: TimeRange,
        ctx: &Context,
        lease: &mut Lease,
    ) -> Result<Vec<Visible>, StorageError> {
        ctx.stop.check()?;
        let index = self.index();
        let chosen = index.select(matchers, &ctx.stop, COLUMN_BYTES, lease)?;
        drop(index);
        let mut visible = Vec::new();
        for chosen in chosen {
            ctx.stop.check()?;
            if let Some(pin) = pins.get(chosen.strip.id) {
                visible.extend(Visible::new(chosen, pin, range));
            }
        }
        Ok(visible)
    }

    /// Resolves a selector.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub(crate) fn batches(
        &self,
        pins: &HeadPins,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &Hints,
        ctx: &Context,
    ) -> Result<HeadBatches, StorageError> {
        let mut batches = HeadBatches::default();
        let mut lease = ctx.budget.lease(0)?;
        for visible in self.visible(pins, matchers, range, ctx, &mut lease)? {
            let rows = [(&visible.rows_alone, false), (&visible.rows_mixed, true)];
            for (columns, mixed) in rows.into_iter().filter(|(columns, _)| !columns.is_empty()) {
                batches.count(columns.len(), visible.rows);
                let batch = StripBatch::new(
                    Arc::clone(&visible.strip),
                    visible.schema.clone(),
                    columns.clone(),
                    visible.pin.rows,
                    visible.range,
                    hints.start_times,
                );
                batches.push(Arc::new(batch), mixed);
            }
            let loose = [(&visible.loose_alone, false), (&visible.loose_mixed, true)];
            for (columns, mixed) in loose {
                lease.grow((columns.len() * LOOSE_BYTES) as u64)?;
                for column in columns {
                    let batch = LooseBatch::new(
                        Arc::clone(&visible.strip),
                        visible.schema.column(ColumnId(*column)).set.clone(),
                        *column,
                        visible.pin.loose,
                        hints.start_times,
                    );
                    batches.count(1, batch.rows(range));
                    batches.push(Arc::new(batch), mixed);
                }
            }
        }
        batches.lease = Some(lease);
        Ok(batches)
    }

    /// Visits the series that match any of the alternatives and may have a sample within `range`, possibly repeatedly.
    ///
    /// # Errors
    /// Fails over budget, when stopped, and with the first error of `visit`.
    pub(crate) fn visit_series(
        &self,
        pins: &HeadPins,
        any_of: &[Vec<Matcher>],
        range: TimeRange,
        ctx: &Context,
        visit: &mut dyn FnMut(SeriesParts) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let every = [Vec::new()];
        let any_of = if any_of.is_empty() {
            &every[..]
        } else {
            any_of
        };
        for matchers in any_of {
            let mut lease = ctx.budget.lease(0)?;
            for visible in self.visible(pins, matchers, range, ctx, &mut lease)? {
                visible.series().try_for_each(&mut *visit)?;
            }
        }
        Ok(())
    }
}

impl HeadBatches {
    fn count(&mut self, series: usize, rows: usize) {
        self.estimate.series += series as u64;
        self.estimate.samples += (series * rows) as u64;
        self.estimate.bytes += (series * rows * size_of::<f64>()) as u64;
    }

    fn push(&mut self, batch: Arc<dyn Batch>, mixed: bool) {
        if mixed {
            &mut self.mixed
        } else {
            &mut self.alone
        }
        .push(batch);
    }
}
