//! Which series `limit_ratio` samples.
//!
//! **Invariant:** the choice depends on the labels alone and is the one Prometheus makes: the 64-bit xxHash of the
//! labels, each name and value preceded by its length.

use narthex_model::LabelSet;

/// Returns a place in `0.0..1.0` for a label set.
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
    xxh64(&bytes) as f64 / u64::MAX as f64
}

/// Reports whether a ratio samples the series at `offset`; a negative ratio samples those its complement does not.
pub(crate) fn is_within(ratio: f64, offset: f64) -> bool {
    if ratio >= 0.0 {
        offset < ratio
    } else {
        offset >= 1.0 + ratio
    }
}

/// One byte, or 255 and three bytes, little-endian.
fn push_length(bytes: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 255 => bytes.push(short),
        _ => {
            bytes.push(255);
            bytes.extend_from_slice(&length.to_le_bytes()[..3]);
        }
    }
}

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// xxHash, 64 bits, seed 0 (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>).
fn xxh64(bytes: &[u8]) -> u64 {
    let round = |acc: u64, lane: u64| {
        acc.wrapping_add(lane.wrapping_mul(P2))
            .rotate_left(31)
            .wrapping_mul(P1)
    };
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
    let mut stripes = bytes.chunks_exact(32);
    let mut hash = if bytes.len() >= 32 {
        let mut acc = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];
        for stripe in &mut stripes {
            for (acc, lane) in acc.iter_mut().zip(stripe.chunks_exact(8)) {
                *acc = round(*acc, word(lane));
            }
        }
        let [a, b, c, d] = acc;
        let mixed = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        acc.iter().fold(mixed, |h, acc| {
            (h ^ round(0, *acc)).wrapping_mul(P1).wrapping_add(P4)
        })
    } else {
        P5
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let mut lanes = stripes.remainder().chunks_exact(8);
    for lane in &mut lanes {
        hash = (hash ^ round(0, word(lane)))
            .rotate_left(27)
            .wrapping_mul(P1)
            .wrapping_add(P4);
    }
    let mut rest = lanes.remainder();
    if let Some((four, tail)) = rest.split_first_chunk::<4>() {
        let lane = u64::from(u32::from_le_bytes(*four)).wrapping_mul(P1);
        hash = (hash ^ lane)
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3);
        rest = tail;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5))
            .rotate_left(11)
            .wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_xxhash() {
        assert_eq!(xxh64(b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"as"), 0x1c33_0fb2_d66b_e179);
        assert_eq!(xxh64(b"asd"), 0x631c_37ce_72a9_7393);
        assert_eq!(xxh64(b"asdf"), 0x4158_72f5_99ce_a71e);
        let long = b"Call me Ishmael. Some years ago--never mind how long precisely-";
        assert_eq!(xxh64(long), 0x02a2_e854_70d6_fd96);
    }

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
