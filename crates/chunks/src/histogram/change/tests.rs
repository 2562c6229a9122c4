//! Changes of histograms lead there and back, are small, and refuse what is foreign.

use super::*;
use crate::histogram::walk::{Walk, bits};
use crate::row::tests::Rng;
use proptest::prelude::*;

fn shown(state: Option<&HistogramState>) -> Option<String> {
    state.map(|state| bits(&state.to_histogram()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_lead_there_and_back(seed: u64) {
        let (mut rng, mut walk) = (Rng(seed), Walk::default());
        let mut encoder = None;
        let mut changes = vec![];
        for _ in 0..40 {
            let now = (encoder.is_none() || rng.below(9) > 0).then(|| walk.next(&mut rng));
            let before = encoder.clone();
            let mut bytes = vec![];
            put_change(&mut encoder, now.as_ref(), &mut bytes);
            prop_assert_eq!(shown(encoder.as_ref()), now.as_ref().map(bits));
            prop_assert_eq!(exists::<false>(&bytes), now.is_some());
            prop_assert_eq!(exists::<true>(&bytes), before.is_some());
            changes.push((before, bytes, encoder.clone()));
        }
        for (before, bytes, after) in &changes {
            let mut state = before.clone();
            apply::<false>(&mut state, bytes).expect("own bytes");
            prop_assert_eq!(&state, after);
            apply::<true>(&mut state, bytes).expect("own bytes");
            prop_assert_eq!(&state, before);
            for len in 0..bytes.len() {
                prop_assert!(apply::<false>(&mut before.clone(), &bytes[..len]).is_err());
            }
        }
    }
}

/// Applies a change of two histograms and returns its length.
fn len_of(before: &Histogram, now: &Histogram) -> usize {
    let mut bytes = vec![];
    put_change(
        &mut Some(HistogramState::new(before)),
        Some(now),
        &mut bytes,
    );
    bytes.len()
}

#[test]
fn usual_changes_are_small() {
    let spans = |length| {
        vec![Span {
            offset: -20,
            length,
        }]
    };
    let before = Histogram {
        count: 4000.0,
        sum: 123.25,
        integer_counts: true,
        positive_spans: spans(40),
        positive_buckets: vec![100.0; 40],
        ..Histogram::default()
    };
    assert_eq!(len_of(&before, &before), 1);
    let mut now = before.clone();
    (now.count, now.sum) = (4003.0, 125.5);
    for bucket in [7, 9, 29] {
        now.positive_buckets[bucket] += 1.0;
    }
    // Flags, three bytes of the sum, the bitmap, and a block: its width, and a bit of each bucket.
    assert_eq!(len_of(&before, &now), 1 + 3 + 1 + (1 + 4));
    // Another bucket: spans of both.
    now.positive_spans = spans(41);
    now.positive_buckets.push(1.0);
    now.count += 1.0;
    let len = len_of(&before, &now);
    assert!(len <= 30, "{len}");
}

#[test]
fn foreign_changes_are_refused() {
    let h = Histogram::default();
    let mut first = vec![];
    put_change(&mut None, Some(&h), &mut first);
    let state = Some(HistogramState::new(&h));
    let refused = |bytes: &[u8]| apply::<false>(&mut state.clone(), bytes).is_err();
    // The column has one, spans that are not its own, no decimal, too many bytes, unknown flags, no end.
    for bytes in [
        &first[..],
        &[SPANS, 0, 0, 1, 0, 1, 0],
        &[SUM, MAX_EXP + 1, 0],
        &[SUM, SUM_BYTES + 9],
        &[0x80],
        &[],
        &[0, 0],
    ] {
        assert!(refused(bytes), "{bytes:?}");
    }
    assert!(!refused(&[0]));
    assert!(apply::<false>(&mut None, &[0]).is_err());
    let infinite = Histogram {
        sum: f64::INFINITY,
        ..h
    };
    let mut infinite = Some(HistogramState::new(&infinite));
    assert!(apply::<false>(&mut infinite, &[SUM, 0, 2]).is_err());
}
