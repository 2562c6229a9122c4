//! Histogram arithmetic: scaling, adding, subtracting, reducing the resolution.
//!
//! **Invariant:** operands may differ in zero threshold, resolution and custom bounds: the result has the wider
//! threshold, the lower resolution and the common bounds, and counts every observation of both exactly once.

use super::{
    Histogram, ResetHint, kahan_add,
    layout::{Slot, exponential_bound, reduced_index, slots},
};
use std::{error::Error, fmt};

/// Side effects of adding or subtracting.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Notes {
    /// One operand's hint says that its counter was reset, the other's that it was not.
    pub reset_conflict: bool,
    /// Custom bounds differed; only the common ones remain.
    pub bounds_reconciled: bool,
}

/// The error for mixing exponential and custom buckets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IncompatibleBuckets;

impl fmt::Display for IncompatibleBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot apply this operation on histograms with a mix of exponential and custom bucket schemas")
    }
}

impl Error for IncompatibleBuckets {}

/// A running sum of histograms that compensates for rounding.
#[derive(Clone, Debug)]
pub struct HistogramSum {
    /// The sum so far, uncompensated.
    pub value: Histogram,
    lost: Option<Lost>,
}

#[derive(Clone, Debug, Default)]
struct Lost {
    zero_count: f64,
    count: f64,
    sum: f64,
    positive: Vec<f64>,
    negative: Vec<f64>,
}

impl Lost {
    fn side_mut(&mut self, negative: bool) -> &mut Vec<f64> {
        match negative {
            true => &mut self.negative,
            false => &mut self.positive,
        }
    }
}

impl HistogramSum {
    /// Starts with one histogram.
    #[must_use]
    pub fn new(first: Histogram) -> Self {
        Self {
            value: first,
            lost: None,
        }
    }

    /// Adds a histogram.
    ///
    /// # Errors
    /// Fails, changing nothing, when one has exponential and the other custom buckets.
    pub fn add(&mut self, other: &Histogram) -> Result<Notes, IncompatibleBuckets> {
        let fresh = Lost {
            positive: vec![0.0; self.value.positive_buckets.len()],
            negative: vec![0.0; self.value.negative_buckets.len()],
            ..Lost::default()
        };
        combine(
            &mut self.value,
            Some(self.lost.get_or_insert(fresh)),
            other,
            false,
        )
    }

    /// Multiplies sum and compensation.
    pub fn scale(&mut self, factor: f64) {
        self.value.scale(factor);
        self.each_lost(|x| *x *= factor);
    }

    /// Divides sum and compensation.
    pub fn divide(&mut self, divisor: f64) {
        self.value.divide(divisor);
        self.each_lost(|x| *x /= divisor);
    }

    /// Returns the compensated sum.
    #[must_use]
    pub fn finish(self) -> Histogram {
        let mut value = self.value;
        if let Some(lost) = self.lost {
            value.zero_count += lost.zero_count;
            value.count += lost.count;
            value.sum += lost.sum;
            let positive = value.positive_buckets.iter_mut().zip(lost.positive);
            let negative = value.negative_buckets.iter_mut().zip(lost.negative);
            positive
                .chain(negative)
                .for_each(|(count, lost)| *count += lost);
        }
        value
    }

    fn each_lost(&mut self, change: impl Fn(&mut f64)) {
        if let Some(lost) = &mut self.lost {
            for x in [&mut lost.zero_count, &mut lost.count, &mut lost.sum] {
                change(x);
            }
            lost.positive
                .iter_mut()
                .chain(&mut lost.negative)
                .for_each(change);
        }
    }
}

impl Histogram {
    /// Multiplies all counts and the sum; a negative factor makes it a gauge.
    pub fn scale(&mut self, factor: f64) {
        self.each_count(|x| *x *= factor);
        if factor < 0.0 {
            self.reset_hint = ResetHint::Gauge;
        }
        self.integer_counts = false;
    }

    /// Divides all counts and the sum; dividing by 0 leaves no buckets.
    pub fn divide(&mut self, divisor: f64) {
        self.integer_counts = false;
        if divisor == 0.0 {
            self.positive_spans.clear();
            self.positive_buckets.clear();
            self.negative_spans.clear();
            self.negative_buckets.clear();
        }
        self.each_count(|x| *x /= divisor);
        if divisor < 0.0 {
            self.reset_hint = ResetHint::Gauge;
        }
    }

    fn each_count(&mut self, change: impl Fn(&mut f64)) {
        if !self.uses_custom_buckets() {
            // Without a zero bucket it stays 0, even times NaN.
            change(&mut self.zero_count);
        }
        for x in [&mut self.count, &mut self.sum] {
            change(x);
        }
        self.positive_buckets
            .iter_mut()
            .chain(&mut self.negative_buckets)
            .for_each(change);
    }

    /// Adds another histogram.
    ///
    /// # Errors
    /// Fails, changing nothing, when one has exponential and the other custom buckets.
    pub fn add(&mut self, other: &Self) -> Result<Notes, IncompatibleBuckets> {
        combine(self, None, other, false)
    }

    /// Subtracts another histogram; the reset hint follows the rules of addition.
    ///
    /// # Errors
    /// Fails, changing nothing, when one has exponential and the other custom buckets.
    pub fn subtract(&mut self, other: &Self) -> Result<Notes, IncompatibleBuckets> {
        combine(self, None, other, true)
    }

    /// Returns the histogram at a lower resolution, or a copy at its own.
    ///
    /// Custom buckets have no other resolution and are copied.
    #[must_use]
    pub fn at_schema(&self, histogram_schema: i32) -> Self {
        let mut reduced = self.clone();
        if histogram_schema >= self.histogram_schema || self.uses_custom_buckets() {
            return reduced;
        }
        for negative in [false, true] {
            let (spans, buckets) = self.side(negative);
            let slots = reduce(
                slots(spans, buckets, &[]),
                self.histogram_schema,
                histogram_schema,
            );
            reduced.set_side(negative, &slots);
        }
        reduced.histogram_schema = histogram_schema;
        reduced.reset_hint = ResetHint::Unknown;
        reduced
    }

    /// Reports whether a count or the sum is infinite.
    #[must_use]
    pub fn has_overflow(&self) -> bool {
        let all = [self.zero_count, self.count, self.sum];
        let buckets = self
            .positive_buckets
            .iter()
            .chain(&self.negative_buckets)
            .chain(&self.custom_values);
        all.iter().chain(buckets).any(|x| x.is_infinite())
    }

    /// Returns the zero count for a wider zero bucket, and its threshold, widened to the end of any populated bucket
    /// it cuts.
    pub(super) fn zero_count_within(&self, threshold: f64) -> (f64, f64) {
        let (count, threshold, _) = zero_count_within(self, threshold, None);
        (count, threshold)
    }
}

fn zero_count_within(h: &Histogram, mut threshold: f64, lost: Option<&Lost>) -> (f64, f64, f64) {
    let start_lost = lost.map_or(0.0, |l| l.zero_count);
    if threshold <= h.zero_threshold {
        return (h.zero_count, h.zero_threshold, start_lost);
    }
    let mut zero_lost = start_lost;
    'again: loop {
        // The compensation is not reset for the next round: Prometheus carries it over as well.
        let mut zero = h.zero_count;
        for negative in [false, true] {
            let (spans, buckets) = h.side(negative);
            let side_lost = lost.map_or(
                &[][..],
                |l| if negative { &l.negative } else { &l.positive },
            );
            for (index, count, count_lost) in slots(spans, buckets, side_lost) {
                let (inner, outer) = (
                    exponential_bound(index - 1, h.histogram_schema),
                    exponential_bound(index, h.histogram_schema),
                );
                if inner >= threshold {
                    break;
                }
                (zero, zero_lost) = kahan_add(count, zero, zero_lost);
                if lost.is_some() {
                    (zero, zero_lost) = kahan_add(count_lost, zero, zero_lost);
                }
                if outer > threshold {
                    if count != 0.0 {
                        threshold = outer;
                        if negative {
                            continue 'again;
                        }
                    }
                    break;
                }
            }
        }
        return (zero, threshold, zero_lost);
    }
}

/// Adds `other` to `h` (or subtracts it), accumulating the rounding error in `lost` if given.
fn combine(
    h: &mut Histogram,
    mut lost: Option<&mut Lost>,
    other: &Histogram,
    negate: bool,
) -> Result<Notes, IncompatibleBuckets> {
    if h.uses_custom_buckets() != other.uses_custom_buckets() {
        return Err(IncompatibleBuckets);
    }
    let mut notes = Notes {
        reset_conflict: adjust_hint(h, other),
        bounds_reconciled: false,
    };
    h.integer_counts &= other.integer_counts && !negate;
    let sign = if negate { -1.0 } else { 1.0 };
    let mut nothing = Lost::default();
    let custom = h.uses_custom_buckets();
    if !custom {
        let (zero, zero_lost) = reconcile_zero(h, lost.as_deref_mut(), other);
        let l = lost.as_deref_mut().unwrap_or(&mut nothing);
        (h.zero_count, l.zero_count) = kahan_add(sign * zero, h.zero_count, l.zero_count);
        if lost.is_some() {
            let l = lost.as_deref_mut().unwrap_or(&mut nothing);
            (h.zero_count, l.zero_count) = kahan_add(zero_lost, h.zero_count, l.zero_count);
        }
    }
    let compensates = lost.is_some();
    let l = lost.unwrap_or(&mut nothing);
    (h.count, l.count) = kahan_add(sign * other.count, h.count, l.count);
    (h.sum, l.sum) = kahan_add(sign * other.sum, h.sum, l.sum);
    if custom && h.custom_values != other.custom_values {
        notes.bounds_reconciled = true;
        combine_custom(h, l, other, sign);
        return Ok(notes);
    }
    let to = h.histogram_schema.min(other.histogram_schema);
    for negative in [false, true] {
        let side_lost = l.side_mut(negative);
        let (spans, buckets) = h.side(negative);
        let mine = reduce(slots(spans, buckets, side_lost), h.histogram_schema, to);
        let (spans, buckets) = other.side(negative);
        let mut theirs = reduce(slots(spans, buckets, &[]), other.histogram_schema, to);
        if !custom {
            let inside = theirs
                .iter()
                .take_while(|slot| exponential_bound(slot.0, to) <= h.zero_threshold)
                .count();
            theirs.drain(..inside);
        }
        if !compensates {
            // A plain sum has no use for what its parts lost.
            theirs.iter_mut().for_each(|slot| slot.2 = 0.0);
        }
        let merged = merge(mine, &theirs, sign);
        h.set_side(negative, &merged);
        *side_lost = merged.iter().map(|slot| slot.2).collect();
    }
    h.histogram_schema = to;
    Ok(notes)
}

/// Adds buckets between other custom bounds; only bounds that both have remain.
fn combine_custom(h: &mut Histogram, l: &mut Lost, other: &Histogram, sign: f64) {
    let common = common_bounds(&h.custom_values, &other.custom_values);
    let mut mapped = vec![(0.0, 0.0); common.len() + 1];
    map_to(
        &common,
        slots(&h.positive_spans, &h.positive_buckets, &l.positive),
        &h.custom_values,
        1.0,
        &mut mapped,
    );
    let theirs = slots(&other.positive_spans, &other.positive_buckets, &[]);
    map_to(&common, theirs, &other.custom_values, sign, &mut mapped);
    let kept: Vec<Slot> = (0i32..)
        .zip(mapped)
        .map(|(i, (x, c))| (i, x, c))
        .filter(|slot| slot.1 != 0.0 || slot.2 != 0.0)
        .collect();
    h.set_side(false, &kept);
    l.positive = kept.iter().map(|slot| slot.2).collect();
    h.custom_values = common;
}

/// Widens `h`'s zero bucket until it contains `other`'s, and returns `other`'s count in it.
fn reconcile_zero(h: &mut Histogram, mut lost: Option<&mut Lost>, other: &Histogram) -> (f64, f64) {
    let (mut zero, mut threshold, mut zero_lost) = (other.zero_count, other.zero_threshold, 0.0);
    while threshold != h.zero_threshold {
        if h.zero_threshold > threshold {
            (zero, threshold, zero_lost) = zero_count_within(other, h.zero_threshold, None);
        }
        if threshold > h.zero_threshold {
            let (mine, widened, mine_lost) = zero_count_within(h, threshold, lost.as_deref());
            (h.zero_count, h.zero_threshold) = (mine, widened);
            if let Some(l) = lost.as_deref_mut() {
                l.zero_count = mine_lost;
            }
            drop_inside_zero(h, lost.as_deref_mut());
        }
        if threshold.is_nan() || h.zero_threshold.is_nan() {
            break;
        }
    }
    (zero, zero_lost)
}

/// Drops buckets inside the zero bucket, and empty ones.
fn drop_inside_zero(h: &mut Histogram, lost: Option<&mut Lost>) {
    let mut nothing = Lost::default();
    let l = lost.unwrap_or(&mut nothing);
    for negative in [false, true] {
        let side_lost = l.side_mut(negative);
        let (spans, buckets) = h.side(negative);
        let outside =
            |slot: &Slot| exponential_bound(slot.0 - 1, h.histogram_schema) >= h.zero_threshold;
        let kept: Vec<Slot> = slots(spans, buckets, side_lost)
            .filter(|slot| outside(slot) && (slot.1 != 0.0 || slot.2 != 0.0))
            .collect();
        h.set_side(negative, &kept);
        *side_lost = kept.iter().map(|slot| slot.2).collect();
    }
}

fn adjust_hint(h: &mut Histogram, other: &Histogram) -> bool {
    let conflict = match (h.reset_hint, other.reset_hint) {
        (mine, theirs) if mine == theirs => return false,
        (ResetHint::Gauge, _) => return false,
        (_, ResetHint::Gauge) => {
            h.reset_hint = ResetHint::Gauge;
            return false;
        }
        (ResetHint::Unknown, _) | (_, ResetHint::Unknown) => false,
        _ => true,
    };
    h.reset_hint = ResetHint::Unknown;
    conflict
}

fn reduce(slots: impl Iterator<Item = Slot>, from: i32, to: i32) -> Vec<Slot> {
    if from == to {
        return slots.collect();
    }
    let mut reduced: Vec<Slot> = Vec::new();
    for (index, count, lost) in slots {
        let index = reduced_index(index, from, to);
        match reduced.last_mut() {
            Some(last) if last.0 == index => {
                (last.1, last.2) = kahan_add(count, last.1, last.2);
                (last.1, last.2) = kahan_add(lost, last.1, last.2);
            }
            _ => reduced.push((index, count, lost)),
        }
    }
    reduced
}

fn merge(mine: Vec<Slot>, theirs: &[Slot], sign: f64) -> Vec<Slot> {
    if theirs.is_empty() {
        return mine;
    }
    let mut merged = Vec::with_capacity(mine.len() + theirs.len());
    let mut theirs = theirs
        .iter()
        .map(|slot| (slot.0, sign * slot.1, sign * slot.2))
        .peekable();
    for mut slot in mine {
        while let Some(new) = theirs.next_if(|other| other.0 < slot.0) {
            merged.push(new);
        }
        if let Some(other) = theirs.next_if(|other| other.0 == slot.0) {
            (slot.1, slot.2) = kahan_add(other.1, slot.1, slot.2);
            if other.2 != 0.0 {
                (slot.1, slot.2) = kahan_add(other.2, slot.1, slot.2);
            }
        }
        merged.push(slot);
    }
    merged.extend(theirs);
    merged
}

fn common_bounds(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut b = b.iter().peekable();
    let is_common = |bound: &&f64| {
        while b.next_if(|other| *other < *bound).is_some() {}
        b.next_if(|other| *other == *bound).is_some()
    };
    a.iter().filter(is_common).copied().collect()
}

/// Adds buckets to those of a coarser layout.
fn map_to(
    common: &[f64],
    buckets: impl Iterator<Item = Slot>,
    bounds: &[f64],
    sign: f64,
    into: &mut [(f64, f64)],
) {
    for (index, count, lost) in buckets {
        let bound = usize::try_from(index)
            .ok()
            .and_then(|i| bounds.get(i))
            .copied()
            .unwrap_or(f64::INFINITY);
        let at = common.partition_point(|c| *c < bound);
        if let Some((x, c)) = into.get_mut(at) {
            (*x, *c) = kahan_add(sign * count, *x, *c);
            if lost != 0.0 {
                (*x, *c) = kahan_add(lost, *x, *c);
            }
        }
    }
}
