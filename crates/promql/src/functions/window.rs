//! The windows that functions over ranges work on, with their context.
//!
//! **Invariant:** floats and histograms of a window each ascend in time; at least one of the two is not empty.

use super::{
    FunctionId,
    starts::{is_start_reset, overlaps},
};
use crate::{ast::Extension, eval::Series, notes::Note, span::Span};
use narthex_model::{Histogram, cell::Cell};
use std::{ops::Range, sync::Arc};

/// Properties of a call, the same for all windows.
#[derive(Debug)]
pub(crate) struct OverCall {
    pub(crate) function: FunctionId,
    pub(crate) range_ms: i64,
    pub(crate) range_seconds: f64,
    /// How far `anchored` and `smoothed` look beyond the range.
    pub(crate) lookback_ms: i64,
    pub(crate) extension: Extension,
    /// Whether all series have the same metric name.
    pub(crate) one_name: bool,
    /// Whether that is known to be a counter's.
    pub(crate) counter_name: bool,
    /// Position of the range.
    pub(crate) span: Span,
    /// Position of the first argument.
    pub(crate) first_span: Span,
    /// Position of the argument behind the range, if there is one.
    pub(crate) second_span: Span,
}

/// One series' samples of one kind.
#[derive(Debug)]
pub(crate) struct Track<T> {
    rows: Vec<usize>,
    times_ms: Vec<i64>,
    values: Vec<T>,
    starts_ms: Vec<i64>,
}

impl<T> Default for Track<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            times_ms: Vec::new(),
            values: Vec::new(),
            starts_ms: Vec::new(),
        }
    }
}

impl<T> Track<T> {
    pub(crate) fn push(&mut self, row: usize, time_ms: i64, value: T, start_ms: Option<i64>) {
        self.rows.push(row);
        self.times_ms.push(time_ms);
        self.values.push(value);
        self.starts_ms.extend(start_ms);
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.times_ms.clear();
        self.values.clear();
        self.starts_ms.clear();
    }

    fn within(&self, rows: &Range<usize>) -> View<'_, T> {
        let from = self.rows.partition_point(|row| *row < rows.start);
        let to = self.rows.partition_point(|row| *row < rows.end);
        View {
            times_ms: &self.times_ms[from..to],
            values: &self.values[from..to],
            starts_ms: self.starts_ms.get(from..to).unwrap_or_default(),
        }
    }
}

/// One series' samples.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) floats: Track<f64>,
    pub(crate) histograms: Track<Arc<Histogram>>,
}

impl Samples {
    /// Takes the samples of a series in place of those of another; of histograms what `of` makes of them.
    pub(crate) fn gather(
        &mut self,
        (times_ms, starts_ms): (&[i64], &[i64]),
        cells: &[f64],
        histograms: &[Arc<Histogram>],
        mut of: impl FnMut(&Arc<Histogram>) -> Arc<Histogram>,
    ) {
        self.floats.clear();
        self.histograms.clear();
        for (row, value) in cells.iter().enumerate() {
            let (time_ms, start_ms) = (times_ms[row], starts_ms.get(row).copied());
            match Cell::decode(*value) {
                Cell::Absent | Cell::Stale => {}
                Cell::Float(x) => self.floats.push(row, time_ms, x, start_ms),
                Cell::Histogram(index) => {
                    if let Some(histogram) = histograms.get(index as usize) {
                        self.histograms.push(row, time_ms, of(histogram), start_ms);
                    }
                }
            }
        }
    }

    pub(crate) fn window(&self, rows: &Range<usize>) -> Window<'_> {
        Window {
            floats: self.floats.within(rows),
            histograms: self.histograms.within(rows),
        }
    }
}

/// Samples of one kind within a window.
#[derive(Debug)]
pub(crate) struct View<'a, T> {
    pub(crate) times_ms: &'a [i64],
    pub(crate) values: &'a [T],
    /// Start time of each sample's counter, 0 if unknown; empty when none is known.
    pub(crate) starts_ms: &'a [i64],
}

// Deriving these would require the same traits of `T`.
impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<'a, T> View<'a, T> {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the start time of the counter of sample `at`, 0 if unknown.
    pub(crate) fn start_ms(&self, at: usize) -> i64 {
        self.starts_ms.get(at).copied().unwrap_or_default()
    }

    /// Returns a sample, whose value is `of` what the view has.
    pub(super) fn timed(&self, at: usize, of: impl Fn(&'a T) -> Point<'a>) -> Timed<'a> {
        Timed {
            time_ms: self.times_ms[at],
            start_ms: self.start_ms(at),
            value: of(&self.values[at]),
        }
    }

    /// Decides from start times whether the counter was reset between sample `at` and the one before.
    pub(super) fn restarts_at(&self, at: usize) -> bool {
        is_start_reset(
            self.start_ms(at - 1),
            self.times_ms[at - 1],
            self.start_ms(at),
            self.times_ms[at],
        )
    }

    /// Decides whether the start time of sample `at` precedes the one before without being that one's own.
    pub(super) fn overlaps_at(&self, at: usize) -> bool {
        overlaps(
            self.start_ms(at - 1),
            self.times_ms[at - 1],
            self.start_ms(at),
        )
    }

    pub(crate) fn from(self, at: usize) -> View<'a, T> {
        View {
            times_ms: &self.times_ms[at..],
            values: &self.values[at..],
            starts_ms: self.starts_ms.get(at..).unwrap_or_default(),
        }
    }
}

impl<T> Default for View<'_, T> {
    fn default() -> Self {
        View {
            times_ms: &[],
            values: &[],
            starts_ms: &[],
        }
    }
}

/// A sample of a window, with when its counter started; 0 if that is unknown.
#[derive(Clone, Copy)]
pub(super) struct Timed<'a> {
    pub(super) time_ms: i64,
    pub(super) start_ms: i64,
    pub(super) value: Point<'a>,
}

/// The value of a sample.
#[derive(Clone, Copy)]
pub(super) enum Point<'a> {
    Float(f64),
    Histogram(&'a Arc<Histogram>),
}

impl Timed<'_> {
    /// Decides from start times whether the counter was reset since the sample before.
    pub(super) fn restarts_after(&self, before: &Self) -> bool {
        is_start_reset(before.start_ms, before.time_ms, self.start_ms, self.time_ms)
    }
}

/// Source of the windows of one series.
#[derive(Clone, Copy)]
pub(crate) enum Row<'a> {
    /// A float in every row.
    Floats {
        times_ms: &'a [i64],
        cells: &'a [f64],
    },
    /// Anything else.
    Mixed(&'a Samples),
}

impl<'a> Row<'a> {
    pub(crate) fn window(self, rows: &Range<usize>) -> Window<'a> {
        match self {
            Self::Mixed(samples) => samples.window(rows),
            Self::Floats { times_ms, cells } => Window {
                floats: View {
                    times_ms: &times_ms[rows.clone()],
                    values: &cells[rows.clone()],
                    starts_ms: &[],
                },
                histograms: View::default(),
            },
        }
    }
}

/// The samples of one series in one window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    pub(crate) floats: View<'a, f64>,
    pub(crate) histograms: View<'a, Arc<Histogram>>,
}

impl Window<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.floats.is_empty() && self.histograms.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.floats.len() + self.histograms.len()
    }

    /// Returns the work of applying a function to the window, in samples read: at most that of sorting them.
    pub(crate) fn work(&self) -> usize {
        let histograms = self.histograms.values.first().map_or(0, |h| h.weight());
        8 * self.floats.len() + 8 * histograms * self.histograms.len() + 4
    }

    pub(crate) fn is_mixed(&self) -> bool {
        !self.floats.is_empty() && !self.histograms.is_empty()
    }
}

/// Position of a window.
pub(crate) struct Place<'a> {
    /// The step's time.
    pub(crate) time_ms: i64,
    /// The last instant of the range.
    pub(crate) end_ms: i64,
    /// The scalar arguments at this step.
    pub(crate) args: &'a [f64],
    pub(crate) series: &'a Series,
}

impl Place<'_> {
    pub(crate) fn metric_name(&self) -> String {
        self.series.metric_name()
    }

    pub(crate) fn arg(&self, at: usize) -> f64 {
        self.args
            .get(at)
            .copied()
            .unwrap_or(narthex_model::cell::NAN)
    }
}

pub(crate) type NoteSink<'n> = dyn FnMut(Note) + 'n;
