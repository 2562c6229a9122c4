//! Native histograms of both versions, which differ in one field.

use super::fields::{double, integer, packed, packed_doubles, short_message};
use narthex_model::{
    Histogram,
    histogram::Span,
    protobuf::{put_double, put_integer},
    varint::zigzag,
};

/// Writes the fields of a histogram message; `start_ms` is 0 in version 1.
pub(super) fn encode(out: &mut Vec<u8>, histogram: &Histogram, time_ms: i64, start_ms: i64) {
    let h = histogram;
    // A count is written even if it is 0: its field tells integers from floats.
    let count = |out: &mut Vec<u8>, whole: u64, float: u64, value: f64| {
        if h.integer_counts {
            put_integer(out, whole, value as u64);
        } else {
            put_double(out, float, value);
        }
    };
    count(out, 1, 2, h.count);
    double(out, 3, h.sum);
    integer(out, 4, zigzag(i64::from(h.histogram_schema)));
    double(out, 5, h.zero_threshold);
    count(out, 6, 7, h.zero_count);
    put_side(
        out,
        8,
        &h.negative_spans,
        &h.negative_buckets,
        h.integer_counts,
    );
    put_side(
        out,
        11,
        &h.positive_spans,
        &h.positive_buckets,
        h.integer_counts,
    );
    integer(out, 14, h.reset_hint.number().into());
    integer(out, 15, time_ms.cast_unsigned());
    packed_doubles(out, 16, &h.custom_values);
    integer(out, 17, start_ms.cast_unsigned());
}

/// Writes spans, and the buckets as differences or as they are.
fn put_side(out: &mut Vec<u8>, field: u64, spans: &[Span], buckets: &[f64], integers: bool) {
    for span in spans {
        short_message(out, field, |out| {
            integer(out, 1, zigzag(i64::from(span.offset)));
            integer(out, 2, u64::from(span.length));
        });
    }
    if !integers {
        packed_doubles(out, field + 2, buckets);
        return;
    }
    let mut before = 0;
    let deltas = buckets.iter().map(|bucket| {
        let count = *bucket as i64;
        zigzag(count.wrapping_sub(std::mem::replace(&mut before, count)))
    });
    packed(out, field + 1, deltas);
}
