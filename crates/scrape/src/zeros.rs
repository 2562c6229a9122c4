//! Zeros where counters began (`--enable-feature=created-timestamp-zero-ingestion`).
//!
//! **Invariant:** a zero is older than the sample of the round that tells of it, and newer than the round before.

use narthex_model::{
    ColumnId, Frame, Histogram,
    cell::Cell,
    histogram::ResetHint,
    storage::{Binding, StorageError},
};
use std::sync::Arc;

/// How long before a target's first round its counters may have begun, as in Prometheus.
const OLDEST_MS: i64 = 3_600_000;
/// Most times of a round that get zeros, the newest: each is a row.
const MOST_ROWS: usize = 256;

/// Which counters of a target may get zeros.
#[derive(Debug, Default)]
pub(crate) struct Zeros {
    /// Time of the last round.
    last_ms: Option<i64>,
}

impl Zeros {
    /// Stores zeros for the counters that have begun since the last round. Those that are refused are not counted: a server that
    /// was restarted may have them already.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn store(
        &mut self,
        frame: &Frame,
        binding: &mut dyn Binding,
    ) -> Result<(), StorageError> {
        let time_ms = frame.time_ms();
        let last_ms = self.last_ms.replace(time_ms);
        let last_ms = last_ms.unwrap_or(time_ms.saturating_sub(OLDEST_MS));
        let begun = frame.start_times_ms().iter().copied();
        let mut begun: Vec<(i64, ColumnId)> = begun
            .filter(|(column, start_ms)| *start_ms > last_ms && *start_ms < frame.time_of(*column))
            .map(|(column, start_ms)| (start_ms, column))
            .collect();
        if begun.is_empty() {
            return Ok(());
        }
        begun.sort_unstable();
        let rows = begun.chunk_by(|a, b| a.0 == b.0).count();
        let mut zeros = Frame::new(frame.schema().clone(), time_ms);
        let too_many = rows.saturating_sub(MOST_ROWS);
        for row in begun.chunk_by(|a, b| a.0 == b.0).skip(too_many) {
            let Some((start_ms, _)) = row.first() else {
                continue;
            };
            zeros.restart(frame.schema(), *start_ms);
            for (_, column) in row {
                set_zero(frame, *column, &mut zeros);
            }
            binding.append(&zeros)?;
        }
        Ok(())
    }
}

/// Sets a column of `zeros` to what its counter of `frame` had when it began.
fn set_zero(frame: &Frame, column: ColumnId, zeros: &mut Frame) {
    if !frame.present().contains(column.index()) {
        return;
    }
    let cell = frame.values().get(column.index());
    match cell.map(|cell| Cell::decode(*cell)) {
        Some(Cell::Float(_)) => zeros.set(column, 0.0),
        Some(Cell::Histogram(at)) => {
            let histogram = frame.histograms().get(at as usize);
            if let Some(histogram) = histogram {
                zeros.set_histogram(column, Arc::new(zero_of(histogram)));
            }
        }
        _ => {}
    }
}

/// Returns a histogram without observations, of the same kind.
fn zero_of(histogram: &Histogram) -> Histogram {
    Histogram {
        histogram_schema: histogram.histogram_schema,
        reset_hint: ResetHint::Reset,
        integer_counts: histogram.integer_counts,
        zero_threshold: histogram.zero_threshold,
        custom_values: histogram.custom_values.clone(),
        ..Histogram::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::{
        Family, LabelSet, METRIC_NAME, MatchOp, Matcher, MemStore, Schema,
        conformance::{Sampled, dump},
        storage::{Sink as _, TimeRange},
    };
    use std::collections::BTreeMap;

    const HOUR_MS: i64 = 3_600_000;

    struct Run {
        schema: Schema,
        store: MemStore,
        binding: Box<dyn Binding>,
        zeros: Zeros,
    }

    impl Run {
        fn new(series: usize) -> Self {
            let mut edit = Schema::new(LabelSet::empty()).edit();
            let family = edit.family(Family::default());
            for at in 0..series {
                let name = format!("c{at:03}");
                edit.push(&LabelSet::new([(METRIC_NAME, &*name)]), family);
            }
            let (schema, store) = (edit.finish(), MemStore::new());
            let binding = store.bind(&schema).unwrap();
            Self {
                schema,
                store,
                binding,
                zeros: Zeros::default(),
            }
        }

        /// Stores a round of counters, by column and start time.
        fn round(&mut self, time_ms: i64, counters: &[(u32, i64)]) {
            let mut frame = Frame::new(self.schema.clone(), time_ms);
            for (column, start_ms) in counters {
                frame.set(ColumnId(*column), 7.0);
                frame.set_start_time(ColumnId(*column), *start_ms);
            }
            self.zeros.store(&frame, &mut *self.binding).unwrap();
            frame.forget_start_times();
            self.binding.append(&frame).unwrap();
        }

        /// Returns the stored samples by series.
        fn stored(&self) -> BTreeMap<String, Vec<(i64, f64)>> {
            let all = Matcher::new(MatchOp::Regex, METRIC_NAME, ".+").unwrap();
            let series = dump(&self.store, &[all], TimeRange::ALL).into_iter();
            let values = |samples: Vec<(i64, Sampled, i64)>| {
                let value = |(time_ms, sampled, start_ms)| match sampled {
                    Sampled::Float(bits) if start_ms == 0 => (time_ms, f64::from_bits(bits)),
                    other => panic!("{other:?}"),
                };
                samples.into_iter().map(value).collect()
            };
            series
                .map(|(labels, samples)| {
                    (labels.get(METRIC_NAME).unwrap().to_owned(), values(samples))
                })
                .collect()
        }
    }

    #[test]
    fn counters_have_a_zero_where_they_began() {
        let mut run = Run::new(3);
        let begin = 10 * HOUR_MS;
        // One began long ago, as did what it counted before this server knew of it.
        run.round(
            begin,
            &[(0, begin - 2 * HOUR_MS), (1, begin - 5000), (2, begin)],
        );
        run.round(
            begin + 1000,
            &[(0, begin - 2 * HOUR_MS), (1, begin - 5000), (2, begin)],
        );
        // Two begin anew, at different times.
        let (first, second) = (begin + 1200, begin + 1700);
        run.round(begin + 2000, &[(0, second), (1, first), (2, begin)]);
        run.round(begin + 3000, &[(0, second), (1, first), (2, begin)]);
        let rounds =
            [begin, begin + 1000, begin + 2000, begin + 3000].map(|time_ms| (time_ms, 7.0));
        let with_zeros = |zeros: &[i64]| {
            let mut all = rounds.to_vec();
            all.extend(zeros.iter().map(|time_ms| (*time_ms, 0.0)));
            all.sort_by_key(|(time_ms, _)| *time_ms);
            all
        };
        let stored = run.stored();
        assert_eq!(stored["c000"], with_zeros(&[second]));
        assert_eq!(stored["c001"], with_zeros(&[begin - 5000, first]));
        assert_eq!(stored["c002"], with_zeros(&[]));
    }

    #[test]
    fn the_newest_of_many_beginnings_get_zeros() {
        let count = MOST_ROWS as u32 + 20;
        let mut run = Run::new(count as usize);
        let begin = 10 * HOUR_MS;
        let counters: Vec<(u32, i64)> = (0..count)
            .map(|at| (at, begin - 1 - i64::from(at)))
            .collect();
        run.round(begin, &counters);
        let stored = run.stored();
        let with_zero = stored.values().filter(|samples| samples.len() == 2).count();
        assert_eq!(with_zero, MOST_ROWS);
        assert_eq!(stored["c000"], [(begin - 1, 0.0), (begin, 7.0)]);
    }
}
