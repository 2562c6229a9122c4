//! The times of a strip's rows: usually a start, an interval and a few bits of jitter.
//!
//! Invariant: any `i64` sequence round-trips; its order does not matter.

use crate::bits::Reader;
use crate::column::{IntEncoder, decode_ints};
use crate::error::ChunkError;

/// Appends `times_ms`; appends nothing when they are empty.
pub fn encode_times(times_ms: &[i64], out: &mut Vec<u8>) {
    if !times_ms.is_empty() {
        IntEncoder::default().encode(times_ms, 0, out);
    }
}

/// Decodes `out.len()` times.
///
/// # Errors
/// Fails on bytes that are too short, too long or not the times of `out.len()` rows; `out` is then undefined.
pub fn decode_times(bytes: &[u8], out: &mut [i64]) -> Result<(), ChunkError> {
    let mut r = Reader::new(bytes);
    if !out.is_empty() {
        let head = r.byte()?;
        let all = 0..out.len();
        decode_ints(head, &mut r, out.len(), &all, |at, times| {
            out[at..at + times.len()].copy_from_slice(times);
        })?;
    }
    if r.rest().is_empty() {
        Ok(())
    } else {
        Err(ChunkError::Trailing { offset: r.offset() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(times: &[i64]) -> usize {
        let mut bytes = vec![];
        encode_times(times, &mut bytes);
        let mut back = vec![0; times.len()];
        decode_times(&bytes, &mut back).expect("own bytes");
        assert_eq!(back, times);
        bytes.len()
    }

    #[test]
    fn regular_rows_cost_next_to_nothing() {
        let regular: Vec<i64> = (0..240).map(|r| 1_700_000_000_000 + r * 15_000).collect();
        assert!(round_trip(&regular) <= 16);
        let mut jitter: Vec<i64> = regular
            .iter()
            .enumerate()
            .map(|(r, t)| t + (r as i64 * 7) % 4)
            .collect();
        assert!(round_trip(&jitter) <= 240);
        jitter[100] += 60_000;
        assert!(round_trip(&jitter) <= 250);
        assert_eq!(round_trip(&[]), 0);
        round_trip(&[5]);
        round_trip(&[i64::MIN, i64::MAX, 0, -1, i64::MIN, i64::MIN]);
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let mut bytes = vec![];
        encode_times(&[1, 5, 6, 900], &mut bytes);
        let mut out = [0; 4];
        assert!(decode_times(&bytes[..bytes.len() - 1], &mut out).is_err());
        bytes.push(0);
        assert!(decode_times(&bytes, &mut out).is_err());
        assert!(decode_times(&bytes, &mut []).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_integers_come_back(times in prop::collection::vec(any::<i64>(), 0..200)) {
            round_trip(&times);
        }

        #[test]
        fn clustered_integers_come_back(times in prop::collection::vec(prop_oneof![-5i64..5, Just(1 << 40), Just(i64::MAX)], 0..200)) {
            round_trip(&times);
        }
    }
}
