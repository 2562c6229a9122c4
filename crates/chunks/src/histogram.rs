//! Native histograms as bytes: by themselves, and as changes of the one before.
//!
//! By themselves: spans, then counts: zigzag varint differences when all are integers, raw bits otherwise.
//!
//! Invariant: decoding restores every field bit for bit, and every decoded bucket belongs to a slot of a span.

pub(crate) mod change;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod walk;

pub use state::HistogramState;

use narthex_model::Histogram;
use narthex_model::histogram::{ResetHint, Span};

use crate::bits::{Reader, put_signed, put_varint};
use crate::decimal::{from_int, to_int};
use crate::error::ChunkError;

const VERSION: u8 = 1;

const HINT_MASK: u8 = 3;
const INTEGER_COUNTS: u8 = 4;
/// Counts are varints, whether or not they were reported as integers.
const VARINTS: u8 = 8;
const ZERO: u8 = 16;
const NEGATIVE: u8 = 32;
const CUSTOM: u8 = 64;

/// Appends `histogram`.
pub fn encode_histogram(histogram: &Histogram, out: &mut Vec<u8>) {
    let h = histogram;
    let varints = counts(h).all(|c| to_int(c, 0).is_some());
    let zero = h.zero_threshold.to_bits() != 0 || h.zero_count.to_bits() != 0;
    let mut flags = hint_bits(h.reset_hint);
    for (set, bit) in [
        (h.integer_counts, INTEGER_COUNTS),
        (varints, VARINTS),
        (zero, ZERO),
        (!h.negative_spans.is_empty(), NEGATIVE),
        (!h.custom_values.is_empty(), CUSTOM),
    ] {
        flags |= if set { bit } else { 0 };
    }
    out.push(VERSION);
    out.push(flags);
    put_signed(out, i64::from(h.histogram_schema));
    put_float(h.sum, out);
    let mut counts = CountWriter { varints, before: 0 };
    counts.write(h.count, out);
    if zero {
        put_float(h.zero_threshold, out);
        counts.before = 0;
        counts.write(h.zero_count, out);
    }
    put_side(&h.positive_spans, &h.positive_buckets, varints, out);
    if flags & NEGATIVE != 0 {
        put_side(&h.negative_spans, &h.negative_buckets, varints, out);
    }
    if flags & CUSTOM != 0 {
        put_varint(out, h.custom_values.len() as u64);
        h.custom_values.iter().for_each(|v| put_float(*v, out));
    }
}

/// Decodes a histogram that fills `bytes`.
///
/// # Errors
/// Fails on bytes that are too short, too long or of another version.
pub fn decode_histogram(bytes: &[u8]) -> Result<Histogram, ChunkError> {
    let mut r = Reader::new(bytes);
    if r.byte()? != VERSION {
        return Err(ChunkError::Malformed {
            what: "histogram version",
            offset: 0,
        });
    }
    let flags = r.byte()?;
    if flags & 0x80 != 0 {
        return Err(r.malformed("histogram flags"));
    }
    let malformed = r.malformed("histogram schema");
    let histogram_schema = i32::try_from(r.signed()?).map_err(|_| malformed)?;
    let varints = flags & VARINTS != 0;
    let mut h = Histogram {
        histogram_schema,
        reset_hint: hint_of(flags),
        integer_counts: flags & INTEGER_COUNTS != 0,
        sum: get_float(&mut r)?,
        count: get_count(&mut r, varints, &mut 0)?,
        ..Histogram::default()
    };
    if flags & ZERO != 0 {
        h.zero_threshold = get_float(&mut r)?;
        h.zero_count = get_count(&mut r, varints, &mut 0)?;
    }
    (h.positive_spans, h.positive_buckets) = get_side(&mut r, varints)?;
    if flags & NEGATIVE != 0 {
        (h.negative_spans, h.negative_buckets) = get_side(&mut r, varints)?;
    }
    if flags & CUSTOM != 0 {
        let count = r.count(r.rest().len() / 8, "custom value count")?;
        for _ in 0..count {
            h.custom_values.push(get_float(&mut r)?);
        }
    }
    r.end()?;
    Ok(h)
}

fn counts(h: &Histogram) -> impl Iterator<Item = f64> {
    let buckets = h
        .positive_buckets
        .iter()
        .chain(&h.negative_buckets)
        .copied();
    [h.count, h.zero_count].into_iter().chain(buckets)
}

pub(crate) fn hint_bits(hint: ResetHint) -> u8 {
    match hint {
        ResetHint::Unknown => 0,
        ResetHint::Reset => 1,
        ResetHint::NotReset => 2,
        ResetHint::Gauge => 3,
    }
}

pub(crate) fn hint_of(flags: u8) -> ResetHint {
    match flags & HINT_MASK {
        0 => ResetHint::Unknown,
        1 => ResetHint::Reset,
        2 => ResetHint::NotReset,
        _ => ResetHint::Gauge,
    }
}

struct CountWriter {
    varints: bool,
    before: i64,
}

impl CountWriter {
    fn write(&mut self, count: f64, out: &mut Vec<u8>) {
        match to_int(count, 0).filter(|_| self.varints) {
            Some(int) => {
                put_signed(out, int - self.before);
                self.before = int;
            }
            None => put_float(count, out),
        }
    }
}

fn put_side(spans: &[Span], buckets: &[f64], varints: bool, out: &mut Vec<u8>) {
    put_spans(spans, out);
    let mut counts = CountWriter { varints, before: 0 };
    buckets.iter().for_each(|b| counts.write(*b, out));
}

fn get_side(r: &mut Reader<'_>, varints: bool) -> Result<(Vec<Span>, Vec<f64>), ChunkError> {
    // A bucket takes at least a byte.
    let spans = get_spans(r, r.rest().len())?;
    let mut before = 0;
    let buckets = (0..state::slots(&spans))
        .map(|_| get_count(r, varints, &mut before))
        .collect::<Result<_, _>>()?;
    Ok((spans, buckets))
}

pub(crate) fn put_spans(spans: &[Span], out: &mut Vec<u8>) {
    put_varint(out, spans.len() as u64);
    for span in spans {
        put_signed(out, i64::from(span.offset));
        put_varint(out, u64::from(span.length));
    }
}

/// Reads spans of at most `most` buckets each.
pub(crate) fn get_spans(r: &mut Reader<'_>, most: usize) -> Result<Vec<Span>, ChunkError> {
    // A span takes at least two bytes, so counts beyond the remaining bytes are refused.
    let count = r.count(r.rest().len() / 2, "span count")?;
    let mut spans = Vec::with_capacity(count);
    for _ in 0..count {
        let malformed = r.malformed("span");
        let offset = i32::try_from(r.signed()?).map_err(|_| malformed)?;
        let length = r.count(most, "span length")?;
        spans.push(Span {
            offset,
            length: length as u32,
        });
    }
    Ok(spans)
}

pub(crate) fn put_float(v: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&v.to_bits().to_le_bytes());
}

pub(crate) fn get_float(r: &mut Reader<'_>) -> Result<f64, ChunkError> {
    r.u64_le().map(f64::from_bits)
}

fn get_count(r: &mut Reader<'_>, varints: bool, before: &mut i64) -> Result<f64, ChunkError> {
    if !varints {
        return get_float(r);
    }
    *before = before.wrapping_add(r.signed()?);
    Ok(from_int(*before, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans(lengths: &[u32]) -> (Vec<Span>, usize) {
        let spans: Vec<Span> = lengths
            .iter()
            .enumerate()
            .map(|(i, l)| Span {
                offset: i as i32 * 7 - 3,
                length: *l,
            })
            .collect();
        (spans, lengths.iter().sum::<u32>() as usize)
    }

    fn bits(h: &Histogram) -> Vec<u64> {
        let all = counts(h)
            .chain([h.sum, h.zero_threshold])
            .chain(h.custom_values.iter().copied());
        all.map(f64::to_bits).collect()
    }

    fn round_trip(h: &Histogram) -> usize {
        let mut bytes = vec![];
        encode_histogram(h, &mut bytes);
        let back = decode_histogram(&bytes).expect("own bytes");
        assert_eq!(bits(&back), bits(h));
        assert_eq!(format!("{back:?}"), format!("{h:?}"));
        for len in 0..bytes.len() {
            assert!(decode_histogram(&bytes[..len]).is_err());
        }
        bytes.push(0);
        assert!(decode_histogram(&bytes).is_err());
        bytes.len() - 1
    }

    fn count() -> impl Strategy<Value = f64> {
        prop_oneof![4 => (0u32..1000).prop_map(f64::from), 1 => any::<f64>(), 1 => Just(-0.0)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_histogram_comes_back(
            schema in prop_oneof![-4i32..9, Just(-53), any::<i32>()],
            hint in 0u8..4,
            integer_counts: bool,
            lengths in prop::collection::vec(0u32..6, 0..5),
            negative in prop::collection::vec(0u32..6, 0..3),
            mixed: bool,
            seeds in prop::collection::vec(count(), 60),
            custom in prop::collection::vec(any::<f64>(), 0..5),
        ) {
            let seeds: Vec<f64> = if mixed { seeds } else { seeds.iter().map(|s| s.abs().min(1e9).floor()).collect() };
            let (positive_spans, p) = spans(&lengths);
            let (negative_spans, n) = spans(&negative);
            let h = Histogram {
                histogram_schema: schema,
                reset_hint: hint_of(hint),
                integer_counts,
                zero_threshold: seeds[50],
                zero_count: seeds[51],
                count: seeds[52],
                sum: seeds[53],
                positive_spans,
                negative_spans,
                positive_buckets: seeds[..p].to_vec(),
                negative_buckets: seeds[30..30 + n].to_vec(),
                custom_values: custom,
            };
            round_trip(&h);
        }
    }

    #[test]
    fn a_usual_one_is_small_and_an_empty_one_smaller() {
        let (positive_spans, slots) = spans(&[3, 9, 2]);
        let h = Histogram {
            histogram_schema: 3,
            count: 120.0,
            sum: 3.25,
            integer_counts: true,
            positive_spans,
            positive_buckets: (0..slots).map(|b| (b * 3 % 17) as f64).collect(),
            ..Histogram::default()
        };
        assert!(round_trip(&h) <= 34, "{}", round_trip(&h));
        assert_eq!(round_trip(&Histogram::default()), 13);
    }

    #[test]
    fn claimed_sizes_allocate_nothing() {
        // A span that claims 2^60 buckets.
        let mut bytes = vec![VERSION, VARINTS, 0];
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&[
            0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f,
        ]);
        assert!(decode_histogram(&bytes).is_err());
        assert!(decode_histogram(&[9, 0]).is_err());
    }
}
