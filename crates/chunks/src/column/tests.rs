//! Round trips of the column codec, and the sizes its forms must reach.

use narthex_model::cell::{self, ABSENT, STALE};
use proptest::prelude::*;

use super::*;
use crate::histogram::walk::{Walk, bits};
use crate::row::tests::Rng;
use narthex_model::Histogram;
use narthex_model::histogram::Span;
use std::sync::Arc;

fn encode(cells: &[f64], histograms: &[Arc<Histogram>]) -> Vec<u8> {
    let mut out = vec![];
    ColumnEncoder::new().encode(cells, histograms, &mut out);
    out
}

fn round_trip(cells: &[f64], histograms: &[Arc<Histogram>]) -> Vec<u8> {
    let bytes = encode(cells, histograms);
    let mut back = vec![1.25; cells.len()];
    let mut got = vec![];
    let leading = decode_column(&bytes, &mut back, &mut got).expect("own bytes");
    let floats = cells.iter().take_while(|c| cell::is_float(**c)).count();
    let ends = cells[floats..].iter().all(|c| cell::is_stale(*c));
    assert_eq!(leading, Some(floats).filter(|floats| ends && *floats > 0));
    for (r, (b, c)) in back.iter().zip(cells).enumerate() {
        assert_eq!(
            b.to_bits(),
            c.to_bits(),
            "row {r}: {b:?} for {c:?}, chunk {:?}",
            &bytes[..bytes.len().min(12)]
        );
    }
    let all = |some: &[Arc<Histogram>]| some.iter().map(|h| bits(h)).collect::<Vec<_>>();
    assert_eq!(all(&got), all(histograms));
    check_facts(&bytes, cells);
    check_rows(&bytes, &back);
    bytes
}

/// Any rows by themselves are those of all.
fn check_rows(bytes: &[u8], cells: &[f64]) {
    let n = cells.len();
    let mut rng = Rng(n as u64);
    for _ in 0..8 {
        let (a, b) = (
            rng.below(n as u64 + 1) as usize,
            rng.below(n as u64 + 1) as usize,
        );
        let wanted = a.min(b)..a.max(b);
        let mut some = vec![1.25; n];
        decode_rows(bytes, &wanted, &mut some, &mut vec![]).expect("own bytes");
        let bits = |cells: &[f64]| cells.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>();
        let (some, all) = (bits(&some[wanted.clone()]), bits(&cells[wanted.clone()]));
        assert_eq!(some, all, "rows {wanted:?} of {n}");
    }
}

fn check_facts(bytes: &[u8], cells: &[f64]) {
    let facts = column_facts(bytes);
    let pairs = || cells.windows(2);
    assert!(!facts.all_floats || cells.iter().all(|c| cell::is_float(*c)));
    assert!(!facts.constant || pairs().all(|p| p[0].to_bits() == p[1].to_bits()));
    assert!(!facts.integers || cells.iter().all(|c| c.fract() == 0.0));
    assert!(!facts.no_decrease || pairs().all(|p| p[0] <= p[1]));
}

#[test]
fn each_form_has_its_size() {
    let mut rng = Rng(5);
    let n = 240;
    let mut make = |f: &mut dyn FnMut(usize, &mut Rng) -> f64| -> Vec<f64> {
        (0..n).map(|r| f(r, &mut rng)).collect()
    };
    let mut level = 0u64;
    let counter = make(&mut |_, rng| {
        level += rng.below(16);
        level as f64
    });
    assert!(round_trip(&counter, &[]).len() <= 4 * n / 8 + 8);
    assert!(column_facts(&encode(&counter, &[])).no_decrease);
    let gauge = make(&mut |_, rng| rng.below(100_000) as f64 / 1000.0);
    assert!(round_trip(&gauge, &[]).len() <= 17 * n / 8 + 8);
    assert_eq!(round_trip(&vec![3.0; n], &[]).len(), 2);
    assert_eq!(round_trip(&vec![0.25; n], &[]).len(), 2);
    assert_eq!(round_trip(&vec![f64::INFINITY; n], &[]).len(), 9);
    let mut reset = counter;
    (0..120).for_each(|r| reset[r] += 1e6);
    assert!(
        round_trip(&reset, &[]).len() <= 4 * n / 8 + 24,
        "{}",
        encode(&reset, &[]).len()
    );
    let pages = make(&mut |_, rng| (rng.below(1000) * 4096) as f64);
    assert!(round_trip(&pages, &[]).len() <= 10 * n / 8 + 10);
    let rare = make(&mut |r, _| if r < 100 { 7.0 } else { 1e9 });
    assert!(round_trip(&rare, &[]).len() <= 10);
    let floats = make(&mut |_, rng| (rng.below(1 << 50) as f64).sqrt());
    assert!(round_trip(&floats, &[]).len() <= 8 * n + 16);
}

#[test]
fn markers_come_back() {
    let (mut rng, mut walk) = (Rng(3), Walk::default());
    let mut h = vec![];
    h.resize_with(3, || Arc::new(walk.next(&mut rng)));
    round_trip(&[ABSENT; 5], &[]);
    round_trip(&[STALE], &[]);
    round_trip(&[1.0, 2.0, STALE, ABSENT, 3.0, -0.0], &[]);
    let hist = |i| cell::histogram(i);
    round_trip(
        &[hist(0), ABSENT, hist(1), STALE, 1.5, hist(2), f64::NAN],
        &h,
    );
    let flapping: Vec<f64> = (0..300)
        .map(|r| if r % 3 == 0 { ABSENT } else { f64::from(r) })
        .collect();
    round_trip(&flapping, &[]);
    assert!(encode(&[], &[]).is_empty());
    decode_column(&[], &mut [], &mut vec![]).expect("no rows, no bytes");
}

#[test]
fn wrong_lengths_are_refused() {
    for cells in [
        &[1.0, 2.0, 9.0, 4.0][..],
        &[f64::NAN, 1.0],
        &[1.0, ABSENT],
        &[5.0; 3],
    ] {
        let bytes = encode(cells, &[]);
        let mut out = vec![0.0; cells.len()];
        for len in 0..bytes.len() {
            assert!(
                decode_column(&bytes[..len], &mut out, &mut vec![]).is_err(),
                "{len} of {bytes:?}"
            );
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(decode_column(&long, &mut out, &mut vec![]).is_err());
    }
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-50i64..50).prop_map(|v| v as f64),
        3 => (0i64..100_000).prop_map(|v| v as f64 / 1000.0),
        1 => any::<f64>().prop_map(cell::canonical),
        1 => Just(-0.0),
        1 => Just(cell::NAN),
        1 => (0u64..5).prop_map(|v| (9_007_199_254_740_990 + v) as f64),
        1 => Just(ABSENT),
        1 => Just(STALE),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cells_come_back(cells in prop::collection::vec(value(), 1..300)) {
        round_trip(&cells, &[]);
    }

    #[test]
    fn cells_of_series_that_ended_come_back(
        mut cells in prop::collection::vec(value(), 1..200),
        markers in 0usize..4,
        then in prop::option::of(prop_oneof![Just(3.0), Just(ABSENT)]),
    ) {
        cells.iter_mut().for_each(|c| *c = if cell::is_float(*c) { *c } else { 1.0 });
        cells.extend(std::iter::repeat_n(STALE, markers));
        cells.extend(then);
        round_trip(&cells, &[]);
    }

    #[test]
    fn alike_cells_come_back(seed: u64, n in 1usize..300, kind in 0u8..8) {
        let mut rng = Rng(seed);
        let mut level = 0i64;
        let cells: Vec<f64> = (0..n).map(|_| match kind {
            0 => rng.below(2) as f64,
            1 => { level += rng.below(1 << 20) as i64; level as f64 }
            2 => { level = if rng.below(40) == 0 { 0 } else { level + 512 * rng.below(9) as i64 }; level as f64 }
            3 => { level += i64::from(rng.below(30) == 0); level as f64 / 1e6 }
            4 => if rng.below(50) == 0 { 1e15 } else { rng.below(8) as f64 },
            5 => f64::from_bits(0x4000_0000_0000_0000 | rng.next() >> 20),
            6 => if rng.below(20) == 0 { (level as f64).sqrt() } else { level += 1; 2.5 },
            _ => -(rng.below(1000) as f64) * 1e12,
        }).collect();
        round_trip(&cells, &[]);
    }
}

#[test]
fn columns_of_histograms_come_back() {
    for seed in 0..400 {
        let (mut rng, mut walk) = (Rng(seed), Walk::default());
        let mut histograms = vec![];
        let rows = 1 + rng.below(60) as usize;
        let mut cells = vec![];
        for _ in 0..rows {
            cells.push(match rng.below(12) {
                0 => ABSENT,
                1 => 7.5,
                _ => {
                    histograms.push(Arc::new(walk.next(&mut rng)));
                    cell::histogram(histograms.len() as u32 - 1)
                }
            });
        }
        let bytes = round_trip(&cells, &histograms);
        // Those of some rows are made as all are, others are not.
        let wanted = rows / 3..rows * 2 / 3;
        let (mut some, mut got) = (vec![0.0; rows], vec![]);
        decode_rows(&bytes, &wanted, &mut some, &mut got).expect("own bytes");
        for row in wanted {
            if let cell::Cell::Histogram(at) = cell::Cell::decode(some[row]) {
                assert_eq!(bits(&got[at as usize]), bits(&histograms[at as usize]));
            }
        }
    }
}

#[test]
fn a_usual_column_of_histograms_is_small() {
    let mut rng = Rng(5);
    let mut counts = vec![100.0; 40];
    let mut next = || {
        for _ in 0..rng.below(16) {
            counts[(rng.below(20) + rng.below(21)) as usize] += 1.0;
        }
        Arc::new(Histogram {
            histogram_schema: 3,
            integer_counts: true,
            count: counts.iter().sum(),
            sum: counts
                .iter()
                .zip(0..)
                .map(|(n, at)| n * f64::from(at))
                .sum::<f64>()
                / 1000.0,
            positive_spans: vec![Span {
                offset: -20,
                length: 40,
            }],
            positive_buckets: counts.clone(),
            ..Histogram::default()
        })
    };
    let histograms: Vec<_> = (0..120).map(|_| next()).collect();
    let cells: Vec<f64> = (0..120).map(cell::histogram).collect();
    let len = round_trip(&cells, &histograms).len();
    assert!(len <= 120 * 14, "{}", len / 120);
}
