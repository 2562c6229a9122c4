//! What was acknowledged survives `kill -9` and SIGTERM: same times, same values, and nothing that never was.
//!
//! A scrape is acknowledged when its `up` is stored; readers see it from then on. Every value of a page follows from
//! the page's number, so whatever comes back after a restart can be checked on its own too.

use crate::{
    client::{self, Matrix},
    support::{self, Job, PATIENCE, Running},
    target::Target,
};
use narthex_testkit::{TempDir, http, process::SIGKILL, scaled};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

const TARGETS: usize = 3;
const INTERVAL: &str = "40ms";
/// The server is killed at a moment up to this long after it was started.
const LIFE_MS: u64 = 1500;
/// Every so many pages a series appears that stays.
const EPOCH: u64 = 16;
/// So many of them at most.
const EPOCHS_MAX: u64 = 20;
/// Where the times of scrapes may be rounded to: a hundredth of the interval, rounded up.
const ROUNDING_MS: i64 = 1;

/// Series of page `n` with their values, without the target's labels.
fn samples(n: u64) -> Vec<(String, f64)> {
    let x = n as f64;
    let mut all = vec![
        ("served_total".to_owned(), x),
        (
            "latency_seconds_bucket{le=\"0.1\"}".to_owned(),
            (x / 3.0).floor(),
        ),
        ("latency_seconds_bucket{le=\"1\"}".to_owned(), 2.0 * x),
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

/// Returns everything stored of the targets within the last `range`.
fn stored(base: &str, range: &str) -> Matrix {
    client::matrix(base, &selector(range))
}

fn selector(range: &str) -> String {
    format!("{{job=\"known\",__name__=~\".+\"}}[{range}]")
}

/// Adds what a reader sees to what is known; what was known has to be among it when it sees everything.
fn acknowledge(known: &mut Matrix, seen: Matrix) {
    for (series, samples) in seen {
        let mine = known.entry(series.clone()).or_default();
        for (time_ms, bits) in samples {
            let before = mine.insert(time_ms, bits);
            assert!(
                before.is_none_or(|before| before == bits),
                "{series} at {time_ms} changed from {before:?} to {bits}"
            );
        }
    }
}

/// Fails unless everything in `known` is in `now`.
fn assert_kept(known: &Matrix, now: &Matrix, round: u64) {
    for (series, samples) in known {
        let kept = now.get(series);
        for (time_ms, bits) in samples {
            assert_eq!(
                kept.and_then(|kept| kept.get(time_ms)),
                Some(bits),
                "round {round}: {series} at {time_ms} was acknowledged with {} and is lost or changed",
                f64::from_bits(*bits)
            );
        }
    }
}

/// Fails unless everything in `all` is what a target served when it says so; returns how many pages were stored.
fn assert_true(all: &Matrix, targets: &[Target]) -> usize {
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
            let earliest_ms = target.asked_ms(n - 1).unwrap_or(0);
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
        // Scrapes that took too long: the machine is busy. They have their synthetic series only.
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

/// Returns a series' labels as the client prints them, with those of the target.
fn with_target(local: &str, address: &str) -> String {
    let (name, labels) = local.split_once('{').unwrap_or((local, "}"));
    let own = labels.trim_end_matches('}');
    let mut pairs = vec![format!("instance={address:?}"), "job=\"known\"".to_owned()];
    pairs.extend((!own.is_empty()).then(|| own.to_owned()));
    pairs.sort_unstable();
    format!("{name}{{{}}}", pairs.join(","))
}

/// Fails unless a series that is not on a page is stale at once; looks at pages after `since`, which one process stored.
fn assert_stale(base: &str, target: &Target, since: u64) {
    let served = with_target("served_total", &target.address);
    let later = |samples: &BTreeMap<i64, u64>| {
        let pages = samples
            .iter()
            .map(|(time_ms, bits)| (*time_ms, number(*bits)));
        pages.filter(|(_, n)| *n > since + 1).collect::<Vec<_>>()
    };
    let pages = support::until("five pages of one process", || {
        let pages = later(stored(base, "1d").get(&served)?);
        (pages.len() >= 5).then_some(pages)
    });
    let query = format!("flapping{{instance={:?}}}", target.address);
    for (time_ms, n) in pages {
        let time = format!("{}.{:03}", time_ms / 1000, time_ms % 1000);
        let found = client::vector(base, &query, Some(&time)).len();
        let expected = usize::from(!n.is_multiple_of(3));
        assert_eq!(found, expected, "page {n}: {query} at {time}");
    }
}

/// Returns the page number in a value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of pages"
)]
fn number(bits: u64) -> u64 {
    f64::from_bits(bits) as u64
}

/// Lets a server run until it is killed `after` its start, and adds what a reader saw to `known`.
fn live_and_die(
    dir: &Path,
    config: &Path,
    after: Duration,
    known: &mut Matrix,
    targets: &[Target],
    round: u64,
) {
    let start = Instant::now();
    let mut process = support::server_in(dir)
        .arg(format!("--config.file={}", config.display()))
        .start();
    thread::scope(|scope| {
        let process = &process;
        // The moment of death is the point of this test, not something to wait for.
        scope.spawn(move || {
            thread::sleep(after);
            process.signal(SIGKILL);
        });
        let ended = || start.elapsed() >= after;
        let Some(base) = ready_before(process, ended) else {
            return;
        };
        let mut whole = true;
        while !ended() {
            let range = if whole { "1d" } else { "10s" };
            let params = [("query", &*selector(range))];
            let Ok(answer) = client::try_call(&base, "/api/v1/query", &params) else {
                continue;
            };
            let seen = client::matrix_of(&client::data_of(&answer, "before the kill"), "seen");
            if whole {
                assert_kept(known, &seen, round);
                assert_true(&seen, targets);
                whole = false;
            }
            acknowledge(known, seen);
        }
    });
    process.wait_exit(PATIENCE);
}

/// Returns where a server answers once it is ready, unless it is to end before.
fn ready_before(
    process: &narthex_testkit::process::Server,
    ended: impl Fn() -> bool,
) -> Option<String> {
    while !ended() {
        let log = process.stderr();
        let port = log
            .lines()
            .find(|line| line.contains("Listening on"))
            .and_then(narthex_testkit::process::port_in);
        let base = port.map(|port| format!("http://127.0.0.1:{port}"));
        if let Some(base) = base
            && http::get(&format!("{base}/-/ready")).is_ok_and(|answer| answer.status == 200)
        {
            return Some(base);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Lets a server run until a reader saw `least` more scrapes, and ends it cleanly.
fn live_and_end(dir: &Path, config: &Path, known: &mut Matrix, targets: &[Target], round: u64) {
    let server = Running::start(dir, config);
    let seen = stored(&server.url, "1d");
    assert_kept(known, &seen, round);
    let enough = targets.iter().map(Target::count).max().unwrap_or(0) + 3;
    support::until("three more scrapes", || {
        targets
            .iter()
            .all(|target| target.count() >= enough)
            .then_some(())
    });
    acknowledge(known, stored(&server.url, "1d"));
    let log = server.stop();
    assert!(log.contains("Ended cleanly."), "{log}");
}

#[test]
fn nothing_acknowledged_is_lost() {
    let dir = TempDir::new("kill9");
    let targets: Vec<Target> = (0..TARGETS).map(|_| Target::start(page)).collect();
    let addresses = targets
        .iter()
        .map(|target| target.address.as_str())
        .collect();
    let job = Job {
        name: "known",
        targets: addresses,
        more: "",
    };
    let config = support::config(&dir, INTERVAL, &[job]);
    let data = dir.join("data");
    let mut rng = support::rng(0x6b69_6c6c);
    let mut known = Matrix::new();
    let rounds = scaled(20);
    for round in 0..rounds {
        if round % 5 == 4 {
            live_and_end(&data, &config, &mut known, &targets, round);
        } else {
            let after = Duration::from_millis(rng.below(LIFE_MS));
            live_and_die(&data, &config, after, &mut known, &targets, round);
        }
    }
    let before: Vec<u64> = targets.iter().map(Target::count).collect();
    let server = Running::start(&data, &config);
    let all = stored(&server.url, "1d");
    assert_kept(&known, &all, rounds);
    let pages = assert_true(&all, &targets);
    for (target, before) in targets.iter().zip(before) {
        assert_stale(&server.url, target, before);
    }
    let samples: usize = known.values().map(BTreeMap::len).sum();
    assert!(
        pages as u64 >= rounds,
        "only {pages} pages in {rounds} rounds"
    );
    let blocks = server.metric("prometheus_tsdb_blocks_loaded");
    println!(
        "{rounds} rounds, {} series, {samples} samples acknowledged, {pages} pages stored, {blocks:?} blocks",
        known.len()
    );
    server.stop();
}
