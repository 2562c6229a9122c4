//! A column's histograms as columns of numbers: the sum, the counts, and each bucket.
//!
//! Histograms that differ in nothing but counts, sum and spans are a group, whose buckets are those of any of them. What
//! each has is kept as runs of equal spans.
//!
//! Invariant: decoding restores every histogram bit for bit.

use super::floats::{FloatEncoder, decode_floats};
use crate::bits::{Reader, put_signed, put_varint};
use crate::error::ChunkError;
use crate::histogram::state::{Layout, ascend, indexes, slots};
use crate::histogram::{get_float, get_spans, hint_bits, hint_of, put_float, put_spans};
use narthex_model::Histogram;
use narthex_model::histogram::Span;
use std::{ops::Range, sync::Arc};

/// Flags of a group; the low bits are the reset hint.
const INTEGER_COUNTS: u8 = 4;
/// The zero bucket has a width or a count.
const ZERO: u8 = 8;
const NEGATIVE: u8 = 16;
const CUSTOM: u8 = 32;
/// Each count is that of all buckets together, and left out.
const DERIVED: u8 = 64;

/// Columns before those of buckets: sums, counts, and counts of the zero bucket.
const BEFORE_BUCKETS: usize = 3;

/// Appends histograms in the order of their rows.
pub(super) fn put(histograms: &[&Histogram], encoder: &mut FloatEncoder, out: &mut Vec<u8>) {
    let mut rest = histograms;
    while let Some(first) = rest.first() {
        let (layout, may_differ) = (Layout::new(first), has_order(first));
        let joins = |h: &&&Histogram| {
            layout.has_head_of(h) && (has_same_spans(first, h) || may_differ && has_order(h))
        };
        let len = 1 + rest[1..].iter().take_while(joins).count();
        let (group, after) = rest.split_at(len);
        put_group(group, encoder, out);
        rest = after;
    }
}

fn has_order(h: &Histogram) -> bool {
    ascend(&h.positive_spans) && ascend(&h.negative_spans)
}

fn has_same_spans(a: &Histogram, b: &Histogram) -> bool {
    a.positive_spans == b.positive_spans && a.negative_spans == b.negative_spans
}

fn put_group(group: &[&Histogram], encoder: &mut FloatEncoder, out: &mut Vec<u8>) {
    let first = group[0];
    let any = |what: fn(&Histogram) -> bool| group.iter().any(|h| what(h));
    let mut flags = hint_bits(first.reset_hint);
    for (set, bit) in [
        (first.integer_counts, INTEGER_COUNTS),
        (
            any(|h| h.zero_threshold.to_bits() != 0 || h.zero_count.to_bits() != 0),
            ZERO,
        ),
        (any(|h| !h.negative_spans.is_empty()), NEGATIVE),
        (!first.custom_values.is_empty(), CUSTOM),
        (!any(|h| total(h).to_bits() != h.count.to_bits()), DERIVED),
    ] {
        flags |= if set { bit } else { 0 };
    }
    put_varint(out, group.len() as u64);
    out.push(flags);
    put_signed(out, i64::from(first.histogram_schema));
    if flags & ZERO != 0 {
        put_float(first.zero_threshold, out);
    }
    if flags & CUSTOM != 0 {
        put_varint(out, first.custom_values.len() as u64);
        first
            .custom_values
            .iter()
            .for_each(|bound| put_float(*bound, out));
    }
    let runs: Vec<&[&Histogram]> = group.chunk_by(|a, b| has_same_spans(a, b)).collect();
    put_varint(out, runs.len() as u64);
    for run in &runs {
        put_varint(out, run.len() as u64);
        put_spans(&run[0].positive_spans, out);
        if flags & NEGATIVE != 0 {
            put_spans(&run[0].negative_spans, out);
        }
    }
    put_numbers(group, &runs, flags, encoder, out);
}

/// Appends each number of a group's histograms as a column.
fn put_numbers(
    group: &[&Histogram],
    runs: &[&[&Histogram]],
    flags: u8,
    encoder: &mut FloatEncoder,
    out: &mut Vec<u8>,
) {
    let mut column: Vec<f64> = Vec::with_capacity(group.len());
    let mut put = |column: &mut Vec<f64>| {
        encoder.encode(column, out);
        column.clear();
    };
    column.extend(group.iter().map(|h| h.sum));
    put(&mut column);
    if flags & DERIVED == 0 {
        column.extend(group.iter().map(|h| h.count));
        put(&mut column);
    }
    if flags & ZERO != 0 {
        column.extend(group.iter().map(|h| h.zero_count));
        put(&mut column);
    }
    type Side = (fn(&Histogram) -> &[Span], fn(&Histogram) -> &[f64]);
    let sides: [Side; 2] = [
        (|h| &h.positive_spans, |h| &h.positive_buckets),
        (|h| &h.negative_spans, |h| &h.negative_buckets),
    ];
    for (spans, buckets) in sides {
        let union = Union::new(runs.iter().map(|run| spans(run[0])));
        let places: Vec<Vec<usize>> = runs.iter().map(|run| union.places(spans(run[0]))).collect();
        for slot in 0..union.len {
            for (run, places) in runs.iter().zip(&places) {
                let own = places.binary_search(&slot).ok();
                column.extend(run.iter().map(|h| own.map_or(0.0, |own| buckets(h)[own])));
            }
            put(&mut column);
        }
    }
}

/// Returns the number of observations in all buckets.
fn total(h: &Histogram) -> f64 {
    let buckets = h.positive_buckets.iter().chain(&h.negative_buckets);
    h.zero_count + buckets.sum::<f64>()
}

/// The buckets that any of some spans has.
struct Union {
    /// Their indexes, ascending; empty when all spans are equal, and buckets are known by their places.
    indexes: Vec<i64>,
    len: usize,
}

impl Union {
    fn new<'s>(mut spans: impl Iterator<Item = &'s [Span]> + Clone) -> Self {
        let all = spans.clone();
        let first = spans.next().unwrap_or_default();
        let mut union = Self {
            indexes: Vec::new(),
            len: slots(first),
        };
        if spans.any(|other| other != first) {
            union.indexes = all.flat_map(indexes).collect();
            union.indexes.sort_unstable();
            union.indexes.dedup();
            union.len = union.indexes.len();
        }
        union
    }

    /// Returns where the buckets of one of the spans are, ascending.
    fn places(&self, spans: &[Span]) -> Vec<usize> {
        if self.indexes.is_empty() {
            return (0..self.len).collect();
        }
        let mut rest = self.indexes.iter().enumerate();
        let place = |index| rest.find(|(_, own)| **own == index).map(|(place, _)| place);
        indexes(spans).map_while(place).collect()
    }
}

/// The numbers of a group's histograms, column by column.
struct Numbers {
    all: Vec<f64>,
    rows: usize,
}

impl Numbers {
    fn read(&mut self, r: &mut Reader<'_>) -> Result<(), ChunkError> {
        let from = self.all.len();
        self.all.resize(from + self.rows, 0.0);
        decode_floats(r.byte()?, r, &(0..self.rows), &mut self.all[from..])
    }

    fn skip(&mut self) {
        self.all.resize(self.all.len() + self.rows, 0.0);
    }

    fn get(&self, column: usize, row: usize) -> f64 {
        self.all[column * self.rows + row]
    }
}

/// Reads `count` histograms; those of which `wanted` says no are not made, and something else is in their place.
pub(super) fn read(
    r: &mut Reader<'_>,
    count: usize,
    wanted: impl Fn(usize) -> bool,
    histograms: &mut Vec<Arc<Histogram>>,
) -> Result<(), ChunkError> {
    let first = histograms.len();
    while histograms.len() < first + count {
        let begin = histograms.len() - first;
        let rows = r.count(count - begin, "histogram count")?;
        if rows == 0 {
            return Err(r.malformed("histogram count"));
        }
        read_group(r, rows, |row| wanted(begin + row), histograms)?;
    }
    Ok(())
}

fn read_group(
    r: &mut Reader<'_>,
    rows: usize,
    wanted: impl Fn(usize) -> bool,
    histograms: &mut Vec<Arc<Histogram>>,
) -> Result<(), ChunkError> {
    let flags = r.byte()?;
    if flags & 0x80 != 0 {
        return Err(r.malformed("histogram flags"));
    }
    let bad_schema = r.malformed("histogram schema");
    let mut head = Histogram {
        histogram_schema: i32::try_from(r.signed()?).map_err(|_| bad_schema)?,
        reset_hint: hint_of(flags),
        integer_counts: flags & INTEGER_COUNTS != 0,
        ..Histogram::default()
    };
    if flags & ZERO != 0 {
        head.zero_threshold = get_float(r)?;
    }
    if flags & CUSTOM != 0 {
        for _ in 0..r.count(r.rest().len() / 8, "custom value count")? {
            head.custom_values.push(get_float(r)?);
        }
    }
    let runs = read_runs(r, rows, flags & NEGATIVE != 0)?;
    let side = |at: usize| Union::new(runs.iter().map(move |run| run.spans[at].as_slice()));
    let unions = [side(0), side(1)];
    // A column takes two bytes at least.
    if unions[0].len + unions[1].len > r.rest().len() / 2 {
        return Err(r.malformed("histogram spans"));
    }
    let mut numbers = Numbers {
        all: Vec::with_capacity((BEFORE_BUCKETS + unions[0].len + unions[1].len) * rows),
        rows,
    };
    numbers.read(r)?;
    for flag in [DERIVED, ZERO] {
        match (flag, flags & flag) {
            (DERIVED, 0) | (ZERO, ZERO) => numbers.read(r)?,
            _ => numbers.skip(),
        }
    }
    for _ in 0..unions[0].len + unions[1].len {
        numbers.read(r)?;
    }
    let nothing = Arc::new(Histogram::default());
    for run in runs {
        let places = [0, 1].map(|at| unions[at].places(&run.spans[at]));
        for row in run.rows {
            if !wanted(row) {
                histograms.push(Arc::clone(&nothing));
                continue;
            }
            let buckets = |places: &[usize], before: usize| {
                let number = |place: &usize| numbers.get(BEFORE_BUCKETS + before + place, row);
                places.iter().map(number).collect()
            };
            let mut h = Histogram {
                sum: numbers.get(0, row),
                count: numbers.get(1, row),
                zero_count: numbers.get(2, row),
                positive_spans: run.spans[0].clone(),
                negative_spans: run.spans[1].clone(),
                positive_buckets: buckets(&places[0], 0),
                negative_buckets: buckets(&places[1], unions[0].len),
                ..head.clone()
            };
            if flags & DERIVED != 0 {
                h.count = total(&h);
            }
            histograms.push(Arc::new(h));
        }
    }
    Ok(())
}

/// Histograms, by their places in a group, with equal spans, of which the positive ones are first.
struct Run {
    rows: Range<usize>,
    spans: [Vec<Span>; 2],
}

fn read_runs(r: &mut Reader<'_>, rows: usize, negative: bool) -> Result<Vec<Run>, ChunkError> {
    let count = r.count(rows, "span runs")?;
    let (mut runs, mut begin) = (Vec::with_capacity(count), 0);
    for _ in 0..count {
        let len = r.count(rows - begin, "span run")?;
        let mut spans = [get_spans(r, r.rest().len())?, Vec::new()];
        if negative {
            spans[1] = get_spans(r, r.rest().len())?;
        }
        if count > 1 && !spans.iter().all(|spans| ascend(spans)) {
            return Err(r.malformed("histogram spans"));
        }
        runs.push(Run {
            rows: begin..begin + len,
            spans,
        });
        begin += len;
    }
    match begin == rows {
        true => Ok(runs),
        false => Err(r.malformed("span runs")),
    }
}
