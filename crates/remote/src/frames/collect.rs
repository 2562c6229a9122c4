//! Samples of a request, as lists whose series are columns of the session.

use super::{
    SAMPLES,
    session::{Column, Columns},
};
use crate::{
    error::RemoteError,
    histogram::{self, Decoded},
    incoming::{FloatSample, Incoming, KeyHasher},
    place::Place,
    queue::{Item, Position, SeriesRef, Symbols, Value, Visit},
    v1::{EXEMPLAR_LABEL_BYTES, MAX_EXEMPLAR_BYTES},
    wire::malformed,
};
use narthex_model::{Exemplar, Histogram, LabelSet};
use std::collections::hash_map::Entry;

/// Stands for a column whose series has no index yet.
const NONE: u32 = u32::MAX;

/// Takes what a decoder hands on.
pub(super) struct Collect<'a, 'b> {
    columns: &'a mut Columns,
    incoming: &'a mut Incoming<'b>,
    hasher: &'a KeyHasher,
    /// The strip of the last item, and its index.
    last: Option<(u32, u32)>,
    error: Option<RemoteError>,
}

impl<'a, 'b> Collect<'a, 'b> {
    pub(super) fn new(
        columns: &'a mut Columns,
        incoming: &'a mut Incoming<'b>,
        hasher: &'a KeyHasher,
    ) -> Self {
        Self {
            columns,
            incoming,
            hasher,
            last: None,
            error: None,
        }
    }

    /// # Errors
    /// Fails if there were too many samples, or there was no memory for them.
    pub(super) fn finish(self) -> Result<(), RemoteError> {
        self.error.map_or(Ok(()), Err)
    }

    fn add_sample(&mut self, symbols: &Symbols, item: Item<'_>) -> Result<(), RemoteError> {
        let incoming = &mut *self.incoming;
        if incoming.floats.len() + incoming.histograms.len() >= SAMPLES {
            return Err(malformed("more samples than a request may have"));
        }
        incoming.allowance.lease(size_of::<FloatSample>())?;
        let series = self.index(symbols, &item);
        let Item {
            time_ms, start_ms, ..
        } = item;
        let incoming = &mut *self.incoming;
        match item.value {
            Value::Float(value) => incoming.floats.push(FloatSample {
                series,
                time_ms,
                start_ms,
                value,
            }),
            Value::Histogram(one) => {
                let buckets = one.positive_buckets.len() + one.negative_buckets.len();
                let bytes = size_of::<Histogram>() + buckets * size_of::<f64>();
                incoming.allowance.lease(bytes)?;
                let decoded = Decoded {
                    time_ms,
                    start_ms,
                    histogram: histogram::checked(*one),
                };
                incoming.push_histogram(series, decoded);
            }
            Value::Nothing => {}
        }
        for exemplar in item.exemplars {
            let numbers = symbols.set(exemplar.labels).unwrap_or_default();
            let texts: Vec<(&str, &str)> = numbers
                .iter()
                .filter_map(|number| symbols.label(*number))
                .filter_map(|(name, value)| {
                    let text = |bytes| std::str::from_utf8(bytes).ok();
                    Some((text(name)?, text(value)?))
                })
                .collect();
            let bytes = texts.iter().map(|(name, value)| name.len() + value.len());
            let bytes: usize = bytes.sum();
            if bytes > MAX_EXEMPLAR_BYTES || texts.len() > MAX_EXEMPLAR_BYTES {
                continue;
            }
            let labels = texts.len() * EXEMPLAR_LABEL_BYTES;
            incoming.allowance.lease(labels + bytes)?;
            let exemplar = Exemplar {
                labels: LabelSet::new(texts),
                value: exemplar.value,
                time_ms: Some(exemplar.time_ms),
            };
            incoming.exemplars.push((series, exemplar));
        }
        Ok(())
    }

    /// Returns the index of an item's series, which gets one when it is first met.
    #[inline]
    fn index(&mut self, symbols: &Symbols, item: &Item<'_>) -> u32 {
        let Some((strip, column)) = item.column else {
            return self.index_of_set(symbols, item.series);
        };
        let at = match self.last {
            Some((last, at)) if last == strip => at,
            _ => self.strip(strip),
        };
        let column = column as usize;
        let known = self.columns.strips[at as usize].get(column).copied();
        // A strip that is defined again has other columns.
        if let Some(index) = known
            && index != NONE
            && self.columns.series[index as usize].series == item.series
        {
            return index;
        }
        let index = self.add(symbols, item.series);
        let columns = &mut self.columns.strips[at as usize];
        if columns.len() <= column {
            columns.resize(column + 1, NONE);
        }
        columns[column] = index;
        index
    }

    fn strip(&mut self, strip: u32) -> u32 {
        let Columns {
            strips,
            strip_indices,
            ..
        } = &mut *self.columns;
        let at = *strip_indices.entry(strip).or_insert_with(|| {
            strips.push(Vec::new());
            strips.len() as u32 - 1
        });
        self.last = Some((strip, at));
        at
    }

    fn index_of_set(&mut self, symbols: &Symbols, series: SeriesRef) -> u32 {
        let (_, set) = series.sets();
        let next = self.columns.series.len() as u32;
        match self.columns.sets.entry(set) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(empty) => {
                empty.insert(next);
                self.add(symbols, series)
            }
        }
    }

    fn add(&mut self, symbols: &Symbols, series: SeriesRef) -> u32 {
        let hasher = self.hasher;
        let mut keys = Vec::new();
        series.each_label(symbols, |_, name, value| {
            keys.extend([hasher.key(name), hasher.key(value)]);
        });
        self.columns.series.push(Column {
            series,
            key: hasher.fold(keys.into_iter()),
            epoch: 0,
        });
        self.columns.places.push(Place::NOWHERE);
        self.columns.series.len() as u32 - 1
    }
}

impl Visit for Collect<'_, '_> {
    fn entry(&mut self, _: Position) {}

    fn item(&mut self, symbols: &Symbols, item: Item<'_>) {
        if self.error.is_none()
            && let Err(error) = self.add_sample(symbols, item)
        {
            self.error = Some(error);
        }
    }
}
