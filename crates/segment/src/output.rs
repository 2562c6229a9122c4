//! Columns of the merged series in one schema, and the frame of a round.
//!
//! **Invariant:** a series keeps its columns until it is removed or the schema is compacted; a round without either edits
//! nothing.

use crate::{
    family::{Family, SUMMARY_HEAD, Shape},
    quantile::{Window, quantile},
};
use narthex_model::{ColumnId, Frame, LabelSet, METRIC_NAME, Schema, SchemaEdit, bits::BitSet};
use std::sync::Arc;

/// Retired columns that are tolerated before a new schema, which every sink would have to bind again.
const TOLERATED_RETIRED: usize = 1024;

/// Schema and frame of all merged series.
#[derive(Debug)]
pub(crate) struct Output {
    schema: Schema,
    edit: Option<SchemaEdit>,
    frame: Frame,
    previous: BitSet,
    recent: Vec<u64>,
}

impl Output {
    pub(crate) fn new(common: LabelSet) -> Self {
        let schema = Schema::new(common);
        Self {
            frame: Frame::new(schema.clone(), 0),
            schema,
            edit: None,
            previous: BitSet::default(),
            recent: Vec::new(),
        }
    }

    pub(crate) fn common(&self) -> &LabelSet {
        self.schema.common()
    }

    /// Returns the last frame.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Adds the columns of a series; returns the first.
    pub(crate) fn add(&mut self, family: &Family, set: &LabelSet) -> ColumnId {
        add_to(self.edit(), family, set)
    }

    /// Ends the columns of a series.
    pub(crate) fn remove(&mut self, family: &Family, first: ColumnId) {
        let edit = self.edit();
        for column in columns(family, first) {
            edit.retire(column);
        }
    }

    /// Reports whether so many columns are retired that `compact` should be called.
    pub(crate) fn is_sparse(&self) -> bool {
        let retired = self.schema.len() - self.schema.live();
        self.edit.is_none() && retired > TOLERATED_RETIRED.max(self.schema.live())
    }

    /// Starts a schema with only these series, and gives them their new columns.
    pub(crate) fn compact<'a>(
        &mut self,
        series: impl Iterator<Item = (&'a Arc<Family>, &'a LabelSet, &'a mut ColumnId)>,
    ) {
        let mut edit = Schema::new(self.common().clone()).edit();
        let mut previous = Vec::new();
        for (family, set, first) in series {
            let moved = add_to(&mut edit, family, set);
            let pairs = columns(family, *first).zip(columns(family, moved));
            let was_present = pairs.filter(|(old, _)| self.previous.contains(old.index()));
            previous.extend(was_present.map(|(_, new)| new));
            *first = moved;
        }
        self.schema = edit.finish();
        self.previous = BitSet::new(self.schema.len());
        for column in previous {
            self.previous.insert(column.index());
        }
    }

    /// Starts the frame of a round, after all series were added.
    pub(crate) fn begin(&mut self, now_ms: i64) {
        if let Some(edit) = self.edit.take() {
            self.schema = edit.finish();
        }
        self.frame.restart(&self.schema, now_ms);
    }

    /// Sets the samples of a series.
    pub(crate) fn set(
        &mut self,
        family: &Family,
        first: ColumnId,
        cells: &[u64],
        window: Option<&mut Window>,
    ) {
        let float = |at: usize| f64::from_bits(cells.get(at).copied().unwrap_or_default());
        let now_ms = self.frame.time_ms();
        let mut columns = columns(family, first);
        let mut put = |value: f64| {
            if let Some(column) = columns.next() {
                self.frame.set(column, value);
            }
        };
        match &family.shape {
            Shape::Counter | Shape::Gauge(_) => put(float(0)),
            Shape::WholeCounter => put(cells.first().copied().unwrap_or_default() as f64),
            Shape::Histogram(_) => {
                let mut count = 0_u64;
                for bucket in cells.iter().skip(1) {
                    count = count.saturating_add(*bucket);
                    put(count as f64);
                }
                put(float(0));
                put(count as f64);
            }
            Shape::Summary(summary) => {
                let counts = cells.get(SUMMARY_HEAD..).unwrap_or_default();
                if let Some(window) = window {
                    let age = (summary.max_age_ms, summary.steps);
                    window.advance(now_ms, age, counts, &mut self.recent);
                }
                for q in &summary.quantiles {
                    put(quantile(summary.buckets, &self.recent, *q));
                }
                put(float(0));
                let count = |sum: u64, count: &u64| sum.saturating_add(*count);
                put(cells.iter().skip(1).fold(0, count) as f64);
            }
        }
    }

    /// Ends the round; series that had a sample in the last round and have none in this one become stale events.
    pub(crate) fn finish(&mut self) -> &Frame {
        self.frame.mark_absent(&self.previous);
        self.previous.clone_from(self.frame.present());
        &self.frame
    }

    fn edit(&mut self) -> &mut SchemaEdit {
        self.edit.get_or_insert_with(|| self.schema.edit())
    }
}

/// Returns the columns of a series, which follow each other.
fn columns(family: &Family, first: ColumnId) -> impl Iterator<Item = ColumnId> + use<> {
    let len = u32::try_from(family.shape.samples()).expect("a series has few samples");
    (first.0..first.0 + len).map(ColumnId)
}

fn add_to(edit: &mut SchemaEdit, family: &Family, set: &LabelSet) -> ColumnId {
    let id = edit.family(narthex_model::Family {
        name: (*family.name).into(),
        metric_type: family.shape.kind().metric_type(),
        unit: (*family.unit).into(),
        help: (*family.help).into(),
    });
    let named = |suffix: &str| set.with(METRIC_NAME, &format!("{}{suffix}", family.name));
    let sets = match &family.shape {
        Shape::Counter | Shape::WholeCounter | Shape::Gauge(_) => vec![set.clone()],
        Shape::Histogram(bounds) => {
            let bucket = named("_bucket");
            let bounds = bounds.iter().copied().chain([f64::INFINITY]);
            let buckets = bounds.map(|bound| bucket.with("le", &number(bound)));
            buckets.chain([named("_sum"), named("_count")]).collect()
        }
        Shape::Summary(summary) => {
            let quantiles = summary.quantiles.iter();
            let quantiles = quantiles.map(|q| set.with("quantile", &number(*q)));
            quantiles.chain([named("_sum"), named("_count")]).collect()
        }
    };
    let ids: Vec<ColumnId> = sets.iter().map(|set| edit.push(set, id)).collect();
    ids.first().copied().expect("every series has a sample")
}

/// Returns a bound or a quantile as a scraped page's are stored: whole numbers end in `.0`.
fn number(value: f64) -> String {
    let mut text = Vec::new();
    narthex_client::write_number(&mut text, value);
    if text
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'-')
    {
        text.extend_from_slice(b".0");
    }
    String::from_utf8_lossy(&text).into_owned()
}
