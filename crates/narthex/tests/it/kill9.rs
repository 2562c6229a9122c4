//! Acknowledged samples survive `kill -9` and SIGTERM with the same times and values, and nothing else appears.
//!
//! A scrape is acknowledged once its `up` is stored and visible to readers. Every value of a page follows from the
//! page's number, so the samples after a restart can also be checked on their own.

use crate::{
    client::{self, Matrix},
    known::{self, assert_true, number, selector, stored, with_target},
    support::{self, PATIENCE, Running},
    target::Target,
};
use narthex_testkit::{TempDir, http, process::SIGKILL, scaled};
use std::{
    collections::BTreeMap,
    path::Path,
    thread,
    time::{Duration, Instant},
};

const TARGETS: usize = 3;
const INTERVAL: &str = "40ms";
/// Longest life of a server, in milliseconds.
const LIFE_MS: u64 = 1500;

/// Adds the samples that a reader sees to the known ones; fails if a known one has changed.
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

/// Fails unless a series missing from a page is stale at once; checks pages after `since`, all stored by one process.
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

/// Lets a server run until it is killed `after` its start, and adds the samples that a reader saw to `known`.
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

/// Returns the server's URL once it is ready; `None` if `ended` comes first.
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

/// Lets a server run for a few more scrapes, and ends it cleanly.
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
    let targets = known::targets(TARGETS);
    let config = support::config(&dir, INTERVAL, &[known::job(&targets)]);
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
