//! Writers of a queue: one for each binding, and one for samples that come one by one.
//!
//! **Invariant:** labels are resolved when a schema is bound, not when a round is written.

use super::{
    Labelling, Parts, Queue, QueueError,
    files::{Appended, Entry},
    format::tag,
    shape::Shape,
    strip::{Scratch, Strip, put_value},
};
use narthex_model::{
    Frame, LabelSet, Schema, storage::SeriesSample, varint::put_signed, varint::put_varint,
};
use std::{collections::HashMap, sync::Arc};

/// Writes the rounds of one binding.
#[derive(Debug)]
pub(crate) struct QueueWriter {
    queue: Arc<Queue>,
    labelling: Arc<Labelling>,
    parts: Parts,
    shape: Shape,
    strip: Strip,
    /// Number of the file that the strip is in; 0 for none.
    file: u64,
    scratch: Scratch,
}

impl QueueWriter {
    pub(crate) fn new(
        queue: Arc<Queue>,
        labelling: Arc<Labelling>,
        parts: Parts,
        schema: &Schema,
    ) -> Self {
        Self {
            shape: Shape::new(schema, &labelling),
            queue,
            labelling,
            parts,
            strip: Strip::default(),
            file: 0,
            scratch: Scratch::default(),
        }
    }

    /// Follows the schema to another version or lineage.
    pub(crate) fn rebind(&mut self, schema: &Schema) {
        if !self.shape.follow(schema, &self.labelling) {
            self.shape = Shape::new(schema, &self.labelling);
            self.file = 0;
        }
    }

    /// Appends a round of the bound schema.
    ///
    /// # Errors
    /// Fails if the queue cannot be written; the round is not in it then.
    pub(crate) fn append(&mut self, frame: &Frame) -> Result<Appended, QueueError> {
        debug_assert!(frame.schema().same(&self.shape.schema));
        let Self {
            shape,
            strip,
            file,
            scratch,
            parts,
            ..
        } = self;
        let appended = self.queue.append(|entry| {
            if *file != entry.file {
                *strip = Strip::default();
                *file = entry.file;
            }
            strip
                .encode(shape, frame, *parts, entry, scratch)
                .map_err(|error| QueueError::Encode {
                    detail: error.to_string(),
                })
        });
        if appended.is_err() {
            // What the strip knows is not in the file.
            self.file = 0;
        }
        appended
    }
}

/// Series whose labels under this destination are remembered at most.
const RESOLVED_SERIES: usize = 100_000;

/// Writes samples of any series.
#[derive(Debug)]
pub(crate) struct SampleWriter {
    queue: Arc<Queue>,
    labelling: Arc<Labelling>,
    parts: Parts,
    /// Labels as they are sent, by those that come; `None` for series that are not sent.
    resolved: HashMap<LabelSet, Option<LabelSet>>,
}

impl SampleWriter {
    pub(crate) fn new(queue: Arc<Queue>, labelling: Arc<Labelling>, parts: Parts) -> Self {
        Self {
            queue,
            labelling,
            parts,
            resolved: HashMap::new(),
        }
    }

    /// Appends samples.
    ///
    /// # Errors
    /// Fails if the queue cannot be written; none of them is in it then.
    pub(crate) fn append(&mut self, samples: &[SeriesSample]) -> Result<Appended, QueueError> {
        if self.resolved.len() > RESOLVED_SERIES {
            self.resolved.clear();
        }
        let Self {
            labelling,
            resolved,
            parts,
            ..
        } = self;
        self.queue.append(|entry| {
            let kept: Vec<(&SeriesSample, LabelSet)> = samples
                .iter()
                .filter(|sample| sample.histogram.is_none() || parts.histograms)
                .filter_map(|sample| {
                    let labels = match resolved.get(&sample.labels) {
                        Some(known) => known.clone(),
                        None => {
                            let labels = labelling.apply(&sample.labels);
                            resolved.insert(sample.labels.clone(), labels.clone());
                            labels
                        }
                    };
                    Some((sample, labels?))
                })
                .collect();
            Ok(put_series(&kept, *parts, entry))
        })
    }
}

/// Writes samples with their labels; returns their number.
fn put_series(samples: &[(&SeriesSample, LabelSet)], parts: Parts, entry: &mut Entry<'_>) -> u64 {
    if samples.is_empty() {
        return 0;
    }
    let out = &mut *entry.records;
    let sets: Vec<u32> = samples
        .iter()
        .map(|(_, labels)| entry.dictionary.set(labels, out))
        .collect();
    out.push(tag::SERIES);
    put_varint(out, samples.len() as u64);
    let mut before_ms = 0_i64;
    for ((sample, _), set) in samples.iter().zip(sets) {
        put_varint(out, u64::from(set));
        put_signed(out, sample.time_ms.wrapping_sub(before_ms));
        before_ms = sample.time_ms;
        let start_ms = if parts.start_times {
            sample.start_time_ms
        } else {
            0
        };
        put_value(sample.cell, sample.histogram.as_deref(), start_ms, out);
    }
    samples.len() as u64
}
