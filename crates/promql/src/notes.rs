//! Warnings and infos of a result.
//!
//! **Invariant:** texts and positions are Prometheus'; of several notes with the same text, the last one's position
//! is kept.

use crate::{
    fmt::{float_digits, float_g, quote},
    span::Span,
};
use std::collections::HashMap;

/// Severity of a note.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Level {
    Warning,
    Info,
}

/// A remark on a query that still has a result.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    level: Level,
    text: String,
    span: Option<Span>,
    detail: Detail,
}

#[derive(Clone, Debug)]
enum Detail {
    None,
    /// Number of overlapping start times.
    Overlaps(usize),
    /// Corrections that made buckets monotonic.
    Monotonicity(Monotonicity),
}

/// Extent of the corrections to a classic histogram's buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Monotonicity {
    pub(crate) min_bucket: f64,
    pub(crate) max_bucket: f64,
    pub(crate) max_diff: f64,
}

#[derive(Clone, Debug)]
struct Collected {
    note: Note,
    samples: usize,
    min_time_ms: i64,
    max_time_ms: i64,
}

/// Notes by their text.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    by_text: HashMap<String, usize>,
    collected: Vec<Collected>,
    made: u64,
}

impl Notes {
    /// Adds a note that concerns no particular step.
    pub(crate) fn add(&mut self, note: Note) {
        self.add_at(note, 0);
    }

    /// Adds a note on the step at `time_ms`.
    pub(crate) fn add_at(&mut self, note: Note, time_ms: i64) {
        self.collect(Collected {
            note,
            samples: 1,
            min_time_ms: time_ms,
            max_time_ms: time_ms,
        });
    }

    /// Adds notes that were made after these.
    pub(crate) fn append(&mut self, later: Self) {
        later
            .collected
            .into_iter()
            .for_each(|one| self.collect(one));
    }

    /// Returns how many notes were made, equal ones included.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    fn collect(&mut self, one: Collected) {
        self.made += 1;
        let known = self.by_text.get(&one.note.text);
        if let Some(same) = known.and_then(|at| self.collected.get_mut(*at)) {
            same.join(one);
            return;
        }
        let text = one.note.text.clone();
        self.by_text.insert(text, self.collected.len());
        self.collected.push(one);
    }

    /// Returns the texts of warnings and infos, with positions in `query`.
    pub(crate) fn texts(&self, query: &str) -> (Vec<String>, Vec<String>) {
        let of = |level| {
            self.collected
                .iter()
                .filter(move |k| k.note.level == level)
                .map(|k| k.text(query))
                .collect()
        };
        (of(Level::Warning), of(Level::Info))
    }
}

impl Collected {
    /// Adds a later note with the same text.
    fn join(&mut self, later: Self) {
        self.note.span = later.note.span;
        self.samples += later.samples;
        self.min_time_ms = self.min_time_ms.min(later.min_time_ms);
        self.max_time_ms = self.max_time_ms.max(later.max_time_ms);
        match (&mut self.note.detail, later.note.detail) {
            (Detail::Overlaps(count), Detail::Overlaps(more)) => *count += more,
            (Detail::Monotonicity(m), Detail::Monotonicity(new)) => {
                m.min_bucket = m.min_bucket.min(new.min_bucket);
                m.max_bucket = m.max_bucket.max(new.max_bucket);
                m.max_diff = m.max_diff.max(new.max_diff);
            }
            _ => {}
        }
    }

    fn text(&self, query: &str) -> String {
        let text = &self.note.text;
        let Some(span) = self.note.span else {
            return text.clone();
        };
        let position = span.start_in(query);
        match &self.note.detail {
            Detail::Overlaps(count) if *count > 1 => {
                format!("{text} ({count} occurrences) ({position})")
            }
            Detail::Monotonicity(m) => format!(
                "{text}, from buckets {} to {}, with a max diff of {}, over {} samples from {} to {} ({position})",
                float_g(m.min_bucket),
                float_g(m.max_bucket),
                float_digits(m.max_diff, 2),
                self.samples,
                rfc3339(self.min_time_ms),
                rfc3339(self.max_time_ms)
            ),
            _ => format!("{text} ({position})"),
        }
    }
}

fn rfc3339(time_ms: i64) -> String {
    let date = crate::date::Date::from_unix(time_ms.div_euclid(1000));
    let (hour, minute, second) = date.clock();
    let (year, month, day) = (date.year, date.month(), date.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The operation on native histograms that a note is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HistogramOperation {
    Addition,
    Subtraction,
    Aggregation,
}

impl HistogramOperation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        }
    }
}

impl Note {
    fn new(level: Level, text: String, span: Span) -> Self {
        let prefix = match level {
            Level::Warning => "PromQL warning: ",
            Level::Info => "PromQL info: ",
        };
        Self {
            level,
            text: format!("{prefix}{text}"),
            span: Some(span),
            detail: Detail::None,
        }
    }

    fn warning(text: impl Into<String>, span: Span) -> Self {
        Self::new(Level::Warning, text.into(), span)
    }

    fn info(text: impl Into<String>, span: Span) -> Self {
        Self::new(Level::Info, text.into(), span)
    }

    /// Returns a warning of the store.
    pub(crate) fn storage(text: String) -> Self {
        Self {
            level: Level::Warning,
            text,
            span: None,
            detail: Detail::None,
        }
    }

    pub(crate) fn invalid_quantile(q: f64, span: Span) -> Self {
        let text = "quantile value should be between 0 and 1, got";
        Self::warning(format!("{text} {}", float_g(q)), span)
    }

    pub(crate) fn invalid_integral_strategy(strategy: f64, span: Span) -> Self {
        let text = "strategy should be 0, 1, or 2 (default), using 2, got";
        Self::warning(format!("{text} {}", float_g(strategy)), span)
    }

    pub(crate) fn invalid_ratio(ratio: f64, capped: f64, span: Span) -> Self {
        let (text, ratio) = (
            "ratio value should be between -1 and 1, got",
            float_g(ratio),
        );
        let capped = float_g(capped);
        Self::warning(format!("{text} {ratio}, capping to {capped}"), span)
    }

    pub(crate) fn bad_bucket_label(name: &str, label: &str, span: Span) -> Self {
        let text = "bucket label \"le\" is missing or has a malformed value of";
        let of_metric = for_metric(name);
        Self::warning(format!("{text} {}{of_metric}", quote(label)), span)
    }

    pub(crate) fn mixed_floats_histograms(name: &str, span: Span) -> Self {
        let text = "encountered a mix of histograms and floats for metric name";
        Self::warning(format!("{text} {}", quote(name)), span)
    }

    pub(crate) fn mixed_in_aggregation(span: Span) -> Self {
        let text = "encountered a mix of histograms and floats for aggregation";
        Self::warning(text, span)
    }

    pub(crate) fn mixed_classic_native(name: &str, span: Span) -> Self {
        let text = "vector contains a mix of classic and native histograms";
        Self::warning(text.to_owned() + &for_metric(name), span)
    }

    pub(crate) fn histogram_not_counter(name: &str, span: Span) -> Self {
        let text = "this native histogram metric is not a counter:";
        Self::warning(format!("{text} {}", quote(name)), span)
    }

    pub(crate) fn histogram_not_gauge(name: &str, span: Span) -> Self {
        let text = "this native histogram metric is not a gauge:";
        Self::warning(format!("{text} {}", quote(name)), span)
    }

    pub(crate) fn mixed_exponential_custom(name: &str, span: Span) -> Self {
        let text = "vector contains a mix of histograms with exponential and custom buckets schemas for metric name";
        Self::warning(format!("{text} {}", quote(name)), span)
    }

    pub(crate) fn incompatible_buckets(op: &str, span: Span) -> Self {
        let text = "incompatible bucket layout encountered for binary operator";
        Self::warning(format!("{text} {op}"), span)
    }

    pub(crate) fn sort_in_range_query(span: Span) -> Self {
        let text =
            "sort is ineffective for range queries since results are always ordered by labels";
        Self::warning(text, span)
    }

    pub(crate) fn reset_conflict(operation: HistogramOperation, span: Span) -> Self {
        let text = "conflicting counter resets during histogram";
        Self::warning(format!("{text} {}", operation.as_str()), span)
    }

    pub(crate) fn start_time_overlap(name: &str, span: Span) -> Self {
        let text = "sample has start time that overlaps with previous sample timestamp for metric";
        Self {
            detail: Detail::Overlaps(1),
            ..Self::warning(format!("{text} {}", quote(name)), span)
        }
    }

    pub(crate) fn possible_non_counter(name: &str, span: Span) -> Self {
        let text =
            "metric might not be a counter, name does not end in _total/_sum/_count/_bucket:";
        Self::info(format!("{text} {}", quote(name)), span)
    }

    pub(crate) fn possible_non_counter_type(name: &str, type_label: &str, span: Span) -> Self {
        let text = "metric might not be a counter, __type__ label is not set to \"counter\" or \"histogram\", got";
        let (name, type_label) = (quote(name), quote(type_label));
        Self::info(format!("{text} {type_label}: {name}"), span)
    }

    pub(crate) fn forced_monotonicity(name: &str, m: Monotonicity, span: Span) -> Self {
        let text = "input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)";
        Self {
            detail: Detail::Monotonicity(m),
            ..Self::info(text.to_owned() + &for_metric(name), span)
        }
    }

    pub(crate) fn incompatible_types(op: &str, left: &str, right: &str, span: Span) -> Self {
        let text = "incompatible sample types encountered for binary operator";
        Self::info(format!("{text} {}: {left} {op} {right}", quote(op)), span)
    }

    pub(crate) fn histogram_ignored_in_aggregation(op: &str, span: Span) -> Self {
        Self::info(format!("ignored histogram in {op} aggregation"), span)
    }

    pub(crate) fn histogram_ignored_in_range(name: &str, span: Span) -> Self {
        let text =
            "ignored histograms in a range containing both floats and histograms for metric name";
        Self::info(format!("{text} {}", quote(name)), span)
    }

    pub(crate) fn quantile_of_nan(name: &str, span: Span) -> Self {
        let text = "input to histogram_quantile has NaN observations, result is NaN";
        Self::info(text.to_owned() + &for_metric(name), span)
    }

    pub(crate) fn quantile_skewed_by_nan(name: &str, span: Span) -> Self {
        let text = "input to histogram_quantile has NaN observations, result is skewed higher";
        Self::info(text.to_owned() + &for_metric(name), span)
    }

    pub(crate) fn fraction_without_nan(name: &str, span: Span) -> Self {
        let text = "input to histogram_fraction has NaN observations, which are excluded from all fractions";
        Self::info(text.to_owned() + &for_metric(name), span)
    }

    pub(crate) fn bounds_reconciled(operation: HistogramOperation, span: Span) -> Self {
        let text = "mismatched custom buckets were reconciled during";
        Self::info(format!("{text} {}", operation.as_str()), span)
    }
}

fn for_metric(name: &str) -> String {
    if name.is_empty() {
        String::new()
    } else {
        format!(" for metric name {}", quote(name))
    }
}
