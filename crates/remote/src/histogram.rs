//! Native histograms of both versions, which differ in one field.
//!
//! **Invariant:** a decoded histogram has as many buckets as its spans say, non-negative, ordered bounds and a
//! resolution that the model supports; anything else is rejected in Prometheus' words.

use crate::{
    allowance::Allowance,
    error::RemoteError,
    message::Message,
    wire::{Field, Reader},
};
use narthex_model::{
    histogram::{CUSTOM_BUCKETS, Histogram, ResetHint, Span},
    varint::unzigzag,
};
use std::{fmt, sync::Arc};

/// A decoded histogram message.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) time_ms: i64,
    pub(crate) start_ms: i64,
    /// The histogram, or why it is invalid.
    pub(crate) histogram: Result<Arc<Histogram>, String>,
}

/// Resolutions that the model stores.
const EXPONENTIAL: std::ops::RangeInclusive<i32> = -4..=8;
/// Resolutions that can be reduced to one of those.
const FINER: std::ops::RangeInclusive<i32> = 9..=52;

const NEGATIVE_COUNT: &str = "histogram has a bucket whose observation count is negative";
const NEGATIVE_OFFSET: &str = "histogram has a span whose offset is negative";
const MISMATCH: &str = "histogram spans specify different number of buckets than provided";

/// Fields as sent.
#[derive(Default)]
struct Raw {
    h: Histogram,
    is_float: bool,
    counts: [u64; 2],
    float_counts: [f64; 2],
    deltas: [Vec<i64>; 2],
    absolute: [Vec<f64>; 2],
}

/// Decodes a histogram.
///
/// # Errors
/// Fails if the message is malformed; an invalid histogram is an outcome.
pub(crate) fn decode(
    message: &[u8],
    message_type: Message,
    allowance: &mut Allowance,
) -> Result<Decoded, RemoteError> {
    allowance.spend(size_of::<Histogram>())?;
    let mut raw = Raw::default();
    let (mut time_ms, mut start_ms) = (0, 0);
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => {
                raw.counts[0] = field.uint64()?;
                raw.is_float = false;
            }
            2 => {
                raw.float_counts[0] = field.double()?;
                raw.is_float = true;
            }
            15 => time_ms = field.int64()?,
            17 if message_type == Message::V2 => start_ms = field.int64()?,
            _ => raw.read_field(number, field, allowance)?,
        }
    }
    Ok(Decoded {
        time_ms,
        start_ms,
        histogram: raw.finish().map(Arc::new),
    })
}

/// Checks a histogram that came decoded, as those of messages are.
pub(crate) fn checked(h: Histogram) -> Result<Arc<Histogram>, String> {
    check_layout(&h, h.positive_buckets.len(), h.negative_buckets.len())?;
    check_floats(&h)?;
    if h.integer_counts {
        let buckets = h.positive_buckets.iter().chain(&h.negative_buckets);
        check_total(h.zero_count + buckets.sum::<f64>(), h.count, h.sum)?;
    }
    Ok(Arc::new(coarsened(h)))
}

impl Raw {
    fn read_field(
        &mut self,
        number: u32,
        field: Field<'_>,
        allowance: &mut Allowance,
    ) -> Result<(), RemoteError> {
        let h = &mut self.h;
        match number {
            // A delta takes as little as a byte, but as much memory as a count.
            9 | 12 => allowance.spend(field.elements() * 2 * size_of::<f64>())?,
            8 | 11 => allowance.spend(size_of::<Span>())?,
            _ => {}
        }
        match number {
            3 => h.sum = field.double()?,
            4 => h.histogram_schema = field.sint32()?,
            5 => h.zero_threshold = field.double()?,
            6 => self.counts[1] = field.uint64()?,
            7 => self.float_counts[1] = field.double()?,
            8 => h.negative_spans.push(span(field.bytes()?)?),
            9 => field.each_varint(|delta| self.deltas[1].push(unzigzag(delta)))?,
            10 => field.each_double(|count| self.absolute[1].push(count))?,
            11 => h.positive_spans.push(span(field.bytes()?)?),
            12 => field.each_varint(|delta| self.deltas[0].push(unzigzag(delta)))?,
            13 => field.each_double(|count| self.absolute[0].push(count))?,
            14 => {
                let number = usize::try_from(field.uint64()?).ok();
                let hint = number.and_then(|number| ResetHint::ALL.get(number));
                h.reset_hint = hint.copied().unwrap_or_default();
            }
            16 => field.each_double(|bound| h.custom_values.push(bound))?,
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Histogram, String> {
        self.h.integer_counts = !self.is_float;
        if self.is_float {
            [self.h.count, self.h.zero_count] = self.float_counts;
            [self.h.positive_buckets, self.h.negative_buckets] = std::mem::take(&mut self.absolute);
        } else {
            #[expect(clippy::cast_precision_loss, reason = "queries count in floats")]
            {
                [self.h.count, self.h.zero_count] = self.counts.map(|count| count as f64);
            }
        }
        check_layout(&self.h, self.buckets(0), self.buckets(1))?;
        if self.is_float {
            check_floats(&self.h)?;
        } else {
            self.add_up()?;
        }
        Ok(coarsened(self.h))
    }

    fn buckets(&self, side: usize) -> usize {
        if self.is_float {
            [&self.h.positive_buckets, &self.h.negative_buckets][side].len()
        } else {
            self.deltas[side].len()
        }
    }

    /// Converts the deltas of integer buckets into counts, which have to add up.
    fn add_up(&mut self) -> Result<(), String> {
        let mut total = self.counts[1];
        for (side, name) in [(1, "negative side: "), (0, "positive side: ")] {
            let mut count = 0_i64;
            let mut buckets = Vec::with_capacity(self.deltas[side].len());
            for (at, delta) in self.deltas[side].iter().enumerate() {
                count = count.wrapping_add(*delta);
                if count < 0 {
                    return Err(format!(
                        "{name}bucket number {} has observation count of {count}: {NEGATIVE_COUNT}",
                        at + 1
                    ));
                }
                total = total.wrapping_add(count.unsigned_abs());
                #[expect(clippy::cast_precision_loss, reason = "queries count in floats")]
                buckets.push(count as f64);
            }
            if side == 1 {
                self.h.negative_buckets = buckets;
            } else {
                self.h.positive_buckets = buckets;
            }
        }
        check_total(total, self.counts[0], self.h.sum)
    }
}

/// Checks the number of observations in all buckets against the count.
fn check_total<N: PartialOrd + fmt::Display>(total: N, count: N, sum: f64) -> Result<(), String> {
    let found = || format!("{total} observations found in buckets, but the Count field is {count}");
    if sum.is_nan() && total > count {
        return Err(format!(
            "{}: histogram's observation count should be at least the number of observations found in the buckets",
            found()
        ));
    }
    if !sum.is_nan() && total != count {
        return Err(format!(
            "{}: histogram's observation count should equal the number of observations found in the buckets (in absence of NaN)",
            found()
        ));
    }
    Ok(())
}

/// Returns a histogram at the finest schema that is stored, if it is finer.
fn coarsened(h: Histogram) -> Histogram {
    if !FINER.contains(&h.histogram_schema) {
        return h;
    }
    let mut coarser = h.at_schema(*EXPONENTIAL.end());
    coarser.reset_hint = h.reset_hint;
    coarser
}

fn span(message: &[u8]) -> Result<Span, RemoteError> {
    let mut span = Span::default();
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => span.offset = field.sint32()?,
            2 => span.length = field.uint32()?,
            _ => {}
        }
    }
    Ok(span)
}

fn check_layout(h: &Histogram, positive: usize, negative: usize) -> Result<(), String> {
    if h.histogram_schema == CUSTOM_BUCKETS {
        let custom = |detail: String| format!("custom buckets: {detail}");
        check_bounds(h, positive).map_err(custom)?;
        let wrong = if h.zero_count != 0.0 {
            "must have zero count of 0"
        } else if h.zero_threshold != 0.0 {
            "must have zero threshold of 0"
        } else if !h.negative_spans.is_empty() {
            "must not have negative spans"
        } else if negative > 0 {
            "must not have negative buckets"
        } else {
            return Ok(());
        };
        return Err(custom(wrong.to_owned()));
    }
    if !EXPONENTIAL.contains(&h.histogram_schema) && !FINER.contains(&h.histogram_schema) {
        return Err(format!(
            "histogram has an invalid schema, which must be between -4 and 8 for exponential buckets, or -53 for custom buckets, got schema {}",
            h.histogram_schema
        ));
    }
    check_spans(&h.positive_spans, positive, 1)
        .map_err(|detail| format!("positive side: {detail}"))?;
    check_spans(&h.negative_spans, negative, 1)
        .map_err(|detail| format!("negative side: {detail}"))?;
    if !h.custom_values.is_empty() {
        return Err("histogram with exponential schema must not have custom bounds".to_owned());
    }
    Ok(())
}

/// Checks spans, the first `free` of which may begin anywhere.
fn check_spans(spans: &[Span], buckets: usize, free: usize) -> Result<(), String> {
    if let Some((at, span)) =
        (spans.iter().enumerate().skip(free)).find(|(_, span)| span.offset < 0)
    {
        return Err(format!(
            "span number {} with offset {}: {NEGATIVE_OFFSET}",
            at + 1,
            span.offset
        ));
    }
    let needed: u64 = spans.iter().map(|span| u64::from(span.length)).sum();
    if needed != buckets as u64 {
        return Err(format!(
            "spans need {needed} buckets, have {buckets} buckets: {MISMATCH}"
        ));
    }
    Ok(())
}

fn check_bounds(h: &Histogram, buckets: usize) -> Result<(), String> {
    let bounds = &h.custom_values;
    for (at, bound) in bounds.iter().enumerate() {
        if bound.is_nan() {
            return Err("histogram custom bounds must not be NaN".to_owned());
        }
        if let Some(previous) = at.checked_sub(1).and_then(|at| bounds.get(at))
            && bound <= previous
        {
            return Err(format!(
                "previous bound is {previous:.6} and current is {bound:.6}: histogram custom bounds must be in strictly increasing order"
            ));
        }
    }
    if bounds.last() == Some(&f64::INFINITY) {
        return Err(
            "last +Inf bound must not be explicitly defined: histogram custom bounds must be finite"
                .to_owned(),
        );
    }
    check_spans(&h.positive_spans, buckets, 0)?;
    let reach: i64 = h
        .positive_spans
        .iter()
        .map(|span| i64::from(span.length) + i64::from(span.offset))
        .sum();
    if bounds.len() as i64 + 1 < reach {
        return Err(format!(
            "only {} custom bounds defined which is insufficient to cover total span length of {reach}: histogram custom bounds are too few",
            bounds.len()
        ));
    }
    Ok(())
}

fn check_floats(h: &Histogram) -> Result<(), String> {
    let side = |name: &str, buckets: &[f64]| match buckets
        .iter()
        .enumerate()
        .find(|(_, count)| **count < 0.0)
    {
        Some((at, count)) => Err(format!(
            "{name} side: bucket number {} has observation count of {count}: {NEGATIVE_COUNT}",
            at + 1
        )),
        None => Ok(()),
    };
    side("negative", &h.negative_buckets)?;
    if h.zero_count < 0.0 {
        return Err(format!(
            "zero bucket has observation count of {}: {NEGATIVE_COUNT}",
            h.zero_count
        ));
    }
    if h.count < 0.0 {
        return Err(format!(
            "observation count is  {}: histogram's observation count is negative",
            h.count
        ));
    }
    side("positive", &h.positive_buckets)
}
