//! The same samples in both servers, the same queries, the same results.
//!
//! **Invariant:** steps and ranges are chosen such that no sample is exactly at the start of a window, where 3.x
//! (windows open on the left) and Debian's 2.42 (closed) differ on purpose. Samples are fifteen seconds apart.

use crate::{
    client::{self, Matrix},
    pair::{Pair, STEP_MS},
};

/// Slots stored in both.
const SLOTS: u64 = 120;

/// Range queries.
const QUERIES: [&str; 42] = [
    "slot",
    "requests_total",
    "temperature",
    "weird * 1e9",
    "large",
    "rate(requests_total[5m])",
    "irate(requests_total[2m])",
    "increase(requests_total[10m])",
    "sum by (code) (rate(requests_total[3m]))",
    "sum without (code, instance) (increase(requests_total[4m]))",
    "rate(restarts_total[5m])",
    "resets(restarts_total[10m])",
    "changes(temperature[5m])",
    "delta(temperature[5m])",
    "idelta(temperature[5m])",
    "deriv(temperature[5m])",
    "predict_linear(temperature[5m], 600)",
    "avg(temperature)",
    "max by (job) (temperature) - min by (job) (temperature)",
    "stddev(temperature)",
    "stdvar by (zone) (temperature)",
    "quantile(0.3, temperature)",
    "count(temperature > 0)",
    "count_values(\"value\", restarts_total)",
    "topk(2, temperature)",
    "bottomk by (job) (1, requests_total)",
    "histogram_quantile(0.9, rate(latency_seconds_bucket[5m]))",
    "histogram_quantile(0.5, sum by (le) (increase(latency_seconds_bucket[7m])))",
    "latency_seconds_sum / latency_seconds_count",
    "requests_total{code=\"500\"} / ignoring(code) group_left sum without (code) (requests_total)",
    "avg_over_time(temperature[4m])",
    "quantile_over_time(0.7, temperature[6m])",
    "stddev_over_time(temperature[6m])",
    "last_over_time(rpc_seconds[2m])",
    "count_over_time(temperature{room=\"cellar\"}[5m])",
    "absent(temperature{room=\"roof\"})",
    "max_over_time(rate(requests_total{code=\"200\"}[2m7s])[8m:40s])",
    "temperature offset 3m",
    "sum(requests_total @ end() - requests_total offset 2m)",
    "temperature{room=~\"k.*|a.*\"} > bool 15",
    "label_replace(temperature, \"place\", \"$1-$2\", \"room\", \"(.)(.*)\") unless temperature{room=\"attic\"}",
    "clamp(temperature, 0, 20) % 7 ^ 2 + sgn(temperature) * ln(abs(temperature)) or vector(time())",
];

/// Largest relative difference of two values.
const TOLERANCE: f64 = 1e-12;

fn close(a: f64, b: f64) -> bool {
    let same = a == b || (a.is_nan() && b.is_nan());
    same || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

/// Returns the first difference of two matrices, if any.
fn difference(ours: &Matrix, theirs: &Matrix) -> Option<String> {
    let series = |matrix: &Matrix| matrix.keys().cloned().collect::<Vec<_>>();
    if series(ours) != series(theirs) {
        return Some(format!(
            "series {:?}, not {:?}",
            series(ours),
            series(theirs)
        ));
    }
    for (name, mine) in ours {
        let others = &theirs[name];
        let times = mine.keys().chain(others.keys());
        for time_ms in times {
            let value = |samples: &std::collections::BTreeMap<i64, u64>| {
                samples.get(time_ms).map(|bits| f64::from_bits(*bits))
            };
            let (a, b) = (value(mine), value(others));
            if !matches!((a, b), (Some(a), Some(b)) if close(a, b)) {
                return Some(format!("{name} at {time_ms}: {a:?}, not {b:?}"));
            }
        }
    }
    None
}

#[test]
fn queries_over_the_same_samples_agree() {
    let pair = Pair::start(SLOTS, &[]);
    // Seven seconds after a slot: no window of whole minutes starts at a sample.
    let (start, end) = (pair.at(7_000), pair.at(pair.end() + 7_000));
    let mut complaints = Vec::new();
    let mut samples = 0;
    for query in QUERIES {
        for (start, step) in [
            (start.as_str(), "15"),
            (start.as_str(), "60"),
            (end.as_str(), "1"),
        ] {
            let params = [
                ("query", query),
                ("start", start),
                ("end", end.as_str()),
                ("step", step),
            ];
            let ask = |base: &str| {
                client::matrix_of(&client::data(base, "/api/v1/query_range", &params), query)
            };
            let (ours, theirs) = (ask(&pair.ours.url), ask(&pair.theirs.url));
            samples += theirs
                .values()
                .map(std::collections::BTreeMap::len)
                .sum::<usize>();
            assert!(
                !theirs.is_empty(),
                "{query} selects nothing: it compares nothing"
            );
            complaints.extend(
                difference(&ours, &theirs).map(|found| format!("{query} (step {step}): {found}")),
            );
        }
    }
    let least = QUERIES.len() as i64 * pair.end() / STEP_MS;
    assert!(samples as i64 > least, "only {samples} samples compared");
    assert!(
        complaints.is_empty(),
        "{} differ:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    println!("{} queries, {samples} samples compared", QUERIES.len() * 3);
}
