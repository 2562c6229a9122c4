//! Tests of `latency`.

use super::*;

#[test]
fn quantiles_are_those_of_the_values() {
    let (mut low, mut high) = (Histogram::default(), Histogram::default());
    for ms in 1..=1000 {
        let half = if ms <= 500 { &mut low } else { &mut high };
        half.add(Duration::from_millis(ms));
    }
    low.merge(&high);
    assert_eq!(low.count(), 1000);
    for (share, ms) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
        let got = low.quantile_ms(share);
        assert!(got >= ms && got <= ms * 1.001, "{share}: {got}");
    }
    let table = low.table();
    assert_eq!(table.last().unwrap().value, 1000.0);
    assert!(
        table
            .iter()
            .all(|line| line.share <= 0.999 || line.share == 1.0)
    );
    assert!(Histogram::default().table().is_empty());
}

#[test]
fn quantiles_of_random_times_are_those_of_the_sorted_ones_and_tables_rise() {
    let mut rng = narthex_testkit::rng::SplitMix64::new(4);
    for count in [1, 2, 3, 10, 999, 1_000, 20_000] {
        let mut histogram = Histogram::default();
        let mut sorted: Vec<f64> = (0..count)
            .map(|_| {
                // Nine orders of magnitude, and one value that occurs often.
                let ns = match rng.below(4) {
                    0 => 100_000,
                    _ => (rng.unit_f64() * 21.0).exp() as u64,
                };
                histogram.add(Duration::from_nanos(ns));
                ns as f64 / 1e6
            })
            .collect();
        sorted.sort_by(f64::total_cmp);
        let table = histogram.table();
        assert!(table.is_sorted_by(|a, b| a.share < b.share && a.value <= b.value));
        for Quantile { share, value } in &table {
            let exact = crate::harness::quantile(&sorted, *share);
            let is_near = *value >= exact - 1e-9 && *value <= exact * (1.0 + 1.0 / 1024.0) + 1e-9;
            assert!(is_near, "{share} of {count}: {value} for {exact}");
        }
        let named = SHARES
            .iter()
            .filter(|share| **share <= 1.0 - 1.5 / f64::from(count));
        for share in named {
            assert!(
                table.iter().any(|line| line.share == *share),
                "{share} of {count}"
            );
        }
        assert_eq!(table.last().map(|line| line.share), Some(1.0));
    }
}

#[test]
fn a_stall_is_in_what_was_due_and_not_in_what_was_sent() {
    // A request every millisecond; the server does not respond for the first 100.
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut latencies = Latencies::default();
    for due in 0..200 {
        let sent = due.max(100);
        latencies.add(at(due), at(sent), at(sent + 1));
    }
    assert!(latencies.corrected.quantile_ms(0.75) >= 50.0);
    assert!(latencies.uncorrected.quantile_ms(1.0) < 1.1);
    let distribution = latencies.distribution("requests");
    assert_eq!(
        (distribution.count, distribution.unit.as_str()),
        (200, "ms")
    );
}

/// Tables that are compared line by line had 43 and 39 of them: how many there were depended on the values.
#[test]
fn tables_of_as_many_times_have_the_same_shares() {
    let shares = |ns: fn(u64) -> u64| {
        let times = (0..200).map(|at| Duration::from_nanos(ns(at)));
        let table = times.collect::<Histogram>().table();
        table.iter().map(|line| line.share).collect::<Vec<_>>()
    };
    assert_eq!(
        shares(|at| 1_000 + at),
        shares(|at| 1_000 + at / 50 * 1_000_000)
    );
}
