//! Pages whose values all follow from the page's number, and checks of the samples stored from them.
//!
//! **Invariant:** a sample is true if its page was served at that time; callers that know what was stored check whether
//! anything is missing.

use crate::{
    client::{self, Matrix},
    support::Job,
    target::Target,
};
use std::{collections::BTreeMap, fmt::Write as _};

/// Pages between the appearance of two permanent series.
const EPOCH: u64 = 16;
/// Most of these series.
const EPOCHS_MAX: u64 = 8;
/// Scrape times may be rounded by this much: a hundredth of the interval, rounded up.
const ROUNDING_MS: i64 = 1;

/// Starts targets that serve known pages.
pub(crate) fn targets(count: usize) -> Vec<Target> {
    (0..count).map(|_| Target::start(page)).collect()
}

/// Returns the job that scrapes them.
pub(crate) fn job(targets: &[Target]) -> Job<'_> {
    Job {
        name: "known",
        targets: targets
            .iter()
            .map(|target| target.address.as_str())
            .collect(),
        more: "",
    }
}

/// Returns the series of page `n` with their values, without the target's labels.
fn samples(n: u64) -> Vec<(String, f64)> {
    let x = n as f64;
    let mut all = vec![
        ("served_total".to_owned(), x),
        (
            "latency_seconds_bucket{le=\"0.1\"}".to_owned(),
            (x / 3.0).floor(),
        ),
        ("latency_seconds_bucket{le=\"1.0\"}".to_owned(), 2.0 * x),
        ("latency_seconds_bucket{le=\"+Inf\"}".to_owned(), 3.0 * x),
        ("latency_seconds_sum".to_owned(), 0.37 * x),
        ("latency_seconds_count".to_owned(), 3.0 * x),
        ("wave".to_owned(), (x * 0.7).sin() * 1e3),
        ("constant".to_owned(), -0.0),
        (
            "odd".to_owned(),
            if n.is_multiple_of(2) {
                f64::NAN
            } else {
                1.0 / x
            },
        ),
        (
            "huge".to_owned(),
            if n.is_multiple_of(5) {
                f64::INFINITY
            } else {
                -1e300 * x
            },
        ),
    ];
    if !n.is_multiple_of(3) {
        all.push(("flapping{why=\"a \\\"quote\\\"\"}".to_owned(), x));
    }
    for epoch in 0..(n / EPOCH).min(EPOCHS_MAX) {
        all.push((format!("epoch{{number=\"{epoch}\"}}"), x - epoch as f64));
    }
    all
}

fn page(n: u64) -> String {
    let mut text = String::from(
        "# HELP served_total Pages.\n# TYPE served_total counter\n# TYPE latency_seconds histogram\n",
    );
    for (series, value) in samples(n) {
        let _ = match value {
            v if v.is_nan() => writeln!(text, "{series} NaN"),
            v if v.is_infinite() => writeln!(text, "{series} +Inf"),
            v => writeln!(text, "{series} {v:?}"),
        };
    }
    text
}

/// Returns all samples of the targets in the last `range`.
pub(crate) fn stored(base: &str, range: &str) -> Matrix {
    client::matrix(base, &selector(range))
}

pub(crate) fn selector(range: &str) -> String {
    format!("{{job=\"known\",__name__=~\".+\"}}[{range}]")
}

/// Fails unless all samples are what a target served at that time; returns the number of pages stored.
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
pub(crate) fn assert_true(all: &Matrix, targets: &[Target]) -> usize {
    let mut pages = 0;
    let mut checked = 0;
    for target in targets {
        let instance = format!("instance={:?}", target.address);
        let own: BTreeMap<&str, &BTreeMap<i64, u64>> = all
            .iter()
            .filter(|(series, _)| series.contains(&instance))
            .map(|(series, samples)| (series.as_str(), samples))
            .collect();
        let name = |local: &str| with_target(local, &target.address);
        let Some(served) = own.get(name("served_total").as_str()) else {
            continue;
        };
        let mut expected = Matrix::new();
        let mut last = 0;
        for (time_ms, bits) in *served {
            let n = number(*bits);
            assert!(
                n > last,
                "page {n} of {} at {time_ms} is older than the one before",
                target.address
            );
            let asked_ms = target.asked_ms(n);
            let asked_ms = asked_ms.unwrap_or_else(|| panic!("page {n} was never served"));
            // Not that of the page before: a scrape may have given up before the target saw its request.
            let earliest_ms = target.asked_ms(last).unwrap_or(0);
            assert!(
                (earliest_ms - ROUNDING_MS..=asked_ms + ROUNDING_MS).contains(time_ms),
                "page {n} was asked for at {asked_ms}, after {earliest_ms}, and is stored at {time_ms}"
            );
            last = n;
            pages += 1;
            let page = samples(n);
            let count = page.len() as f64;
            let synthetic = [
                ("up", 1.0),
                ("scrape_samples_scraped", count),
                ("scrape_samples_post_metric_relabeling", count),
            ];
            let synthetic = synthetic.map(|(series, value)| (series.to_owned(), value));
            for (series, value) in page.into_iter().chain(synthetic) {
                expected
                    .entry(name(&series))
                    .or_default()
                    .insert(*time_ms, client::bits(value));
            }
        }
        // Scrapes that timed out on a busy machine store synthetic series only.
        let failed = own
            .get(name("up").as_str())
            .into_iter()
            .flat_map(|up| up.iter());
        for (time_ms, _) in failed.filter(|(_, bits)| **bits == 0) {
            for series in [
                "up",
                "scrape_samples_scraped",
                "scrape_samples_post_metric_relabeling",
            ] {
                expected
                    .entry(name(series))
                    .or_default()
                    .insert(*time_ms, 0);
            }
        }
        for (series, samples) in own {
            if series.starts_with("scrape_duration_seconds")
                || series.starts_with("scrape_series_added")
            {
                continue;
            }
            assert_eq!(Some(samples), expected.remove(series).as_ref(), "{series}");
            checked += samples.len();
        }
        assert!(expected.is_empty(), "never stored: {:?}", expected.keys());
    }
    assert!(checked >= pages * 10, "{checked} samples of {pages} pages");
    pages
}

/// Returns a series' labels as the client prints them, the target's included.
pub(crate) fn with_target(local: &str, address: &str) -> String {
    let (name, labels) = local.split_once('{').unwrap_or((local, "}"));
    let own = labels.trim_end_matches('}');
    let mut pairs = vec![format!("instance={address:?}"), "job=\"known\"".to_owned()];
    pairs.extend((!own.is_empty()).then(|| own.to_owned()));
    pairs.sort_unstable();
    format!("{name}{{{}}}", pairs.join(","))
}

/// Returns the page number in a value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of pages"
)]
pub(crate) fn number(bits: u64) -> u64 {
    f64::from_bits(bits) as u64
}
