//! Sampling for `limit_ratio`.
//!
//! **Invariant:** the choice depends on the labels alone and equals Prometheus': the 64-bit xxHash of the labels,
//! each name and value preceded by its length.

use narthex_model::LabelSet;
use xxhash_rust::xxh64::xxh64;

/// Returns the offset of a label set in `0.0..1.0`.
#[expect(
    clippy::cast_precision_loss,
    reason = "a place needs no more than 53 bits"
)]
pub(crate) fn offset(labels: &LabelSet) -> f64 {
    let mut bytes = Vec::with_capacity(256);
    for label in labels {
        for text in [label.name(), label.value()] {
            push_length(&mut bytes, text.len());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    xxh64(&bytes, 0) as f64 / u64::MAX as f64
}

/// Reports whether a ratio samples the series at `offset`; a negative ratio samples the complement.
pub(crate) fn is_within(ratio: f64, offset: f64) -> bool {
    if ratio >= 0.0 {
        offset < ratio
    } else {
        offset >= 1.0 + ratio
    }
}

/// Appends a length as one byte, or as 255 and three bytes, little-endian.
fn push_length(bytes: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 255 => bytes.push(short),
        _ => {
            bytes.push(255);
            bytes.extend_from_slice(&length.to_le_bytes()[..3]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_and_its_complement_sample_everything_once() {
        for offset in [0.0, 0.3, 0.7, 0.999] {
            for ratio in [0.0, 0.25, 0.5, 1.0] {
                let complement = if ratio == 1.0 { -0.0 } else { ratio - 1.0 };
                let both = u8::from(is_within(ratio, offset))
                    + u8::from(complement < 0.0 && is_within(complement, offset));
                assert_eq!(both, 1, "{ratio} {offset}");
            }
        }
    }
}
