//! The real binary under a wall clock that changes while it runs. libfaketime reads the offset from a file and, like
//! `date -s`, leaves the monotonic clock alone.

use crate::{
    client,
    support::{self, Job, Running, files_below, until},
    target::{Target, now_ms},
};
use narthex_model::{
    LabelSet, METRIC_NAME,
    storage::{SeriesSample, Sink},
};
use narthex_testkit::{TempDir, tool};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Samples from before the server started, six hours apart.
const HISTORY: i64 = 40;

/// Writes ten days of samples into blocks.
fn write_history(data: &Path) {
    let now_ms = now_ms();
    let clock = Arc::new(ManualClock::new(now_ms));
    let db = Db::open(Arc::new(RealIo), DbOptions::new(data), clock).expect("a database");
    let sample = |at: i64| {
        let labels = LabelSet::new([(METRIC_NAME, "history")]);
        SeriesSample::float(labels, now_ms - HOUR_MS / 4 - at * 6 * HOUR_MS, at as f64)
    };
    let samples: Vec<SeriesSample> = (0..HISTORY).map(sample).collect();
    let outcome = db.append_samples(&samples).expect("stored");
    assert_eq!(outcome.accepted, samples.len() as u64);
    db.flush().expect("in blocks");
    db.close().expect("closed");
}

/// Returns the path of libfaketime.
fn library() -> PathBuf {
    let program = tool("faketime", "faketime");
    let root = program.parent().and_then(Path::parent).unwrap().join("lib");
    let dirs = fs::read_dir(root).unwrap();
    let mut paths = dirs.map(|dir| dir.unwrap().path().join("faketime/libfaketimeMT.so.1"));
    paths
        .find(|path| path.exists())
        .expect("the package has its library")
}

/// A server whose clock can be set, and its target.
struct Fixture {
    dir: TempDir,
    data: PathBuf,
    target: Target,
    server: Running,
}

impl Fixture {
    fn start() -> Self {
        let dir = TempDir::new("clock");
        let data = dir.join("data");
        write_history(&data);
        let target = Target::start(|number| format!("page {number}\n"));
        let jobs = [Job {
            name: "clock",
            targets: vec![&target.address],
            more: "",
        }];
        let config = support::config(&dir, "1s", &jobs);
        let file = dir.write("offset", "+0\n");
        let spawn = support::server_in(&data)
            .arg(support::config_flag(&config))
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let server = Running::of(spawn);
        Self {
            dir,
            data,
            target,
            server,
        }
    }

    /// Sets the offset of the server's clock.
    fn set_clock(&self, wrong_ms: i64) {
        let text = format!("{:+}\n", wrong_ms / 1000);
        let new = self.dir.write("offset.new", text);
        fs::rename(new, self.dir.join("offset")).expect("one directory");
    }

    /// Waits until scrapes are stored with a clock off by `wrong_ms`.
    fn wait_round(&self, wrong_ms: i64) {
        let from_s = (now_ms() + wrong_ms) / 1000;
        let at = (from_s + 60).to_string();
        until("a round of now", || {
            let found = client::vector(&self.server.url, "timestamp(page)", Some(&at));
            let newest = found.values().next().map(|(_, time_s)| *time_s)?;
            (newest as i64 >= from_s).then_some(())
        });
    }

    /// Waits for two rounds of maintenance with a clock off by `wrong_ms`.
    fn wait_upkeep(&self, wrong_ms: i64) {
        let newest = || self.server.metric("prometheus_tsdb_head_max_time ");
        let from_ms = (now_ms() + wrong_ms) as f64;
        let first = until("a look at storage", || newest().filter(|ms| *ms >= from_ms));
        until("another", || newest().filter(|ms| *ms > first));
    }

    /// Fails unless all samples from before the start are served.
    fn check_history(&self, what: &str) {
        let at = (now_ms() / 1000).to_string();
        let query = "count_over_time(history[14d])";
        let found = client::vector(&self.server.url, query, Some(&at));
        let counts: Vec<f64> = found.values().map(|(_, count)| *count).collect();
        assert_eq!(counts, [HISTORY as f64], "{what}");
    }
}

/// With the clock twenty days ahead, retention deleted every block within half a minute.
#[test]
fn a_clock_that_is_set_while_the_server_runs_loses_nothing() {
    let fixture = Fixture::start();
    let blocks = files_below(&fixture.data, "/blocks/").len();
    assert!(blocks as i64 >= HISTORY - 1, "{blocks}");
    fixture.check_history("at the start");
    fixture.wait_round(0);
    // Samples stored ahead remain the newest for a while, so the largest step comes last.
    for wrong_ms in [HOUR_MS, 20 * DAY_MS, 3653 * DAY_MS] {
        fixture.set_clock(wrong_ms);
        fixture.wait_round(wrong_ms);
        fixture.wait_upkeep(wrong_ms);
        fixture.check_history("ahead");
        fixture.set_clock(0);
        fixture.wait_round(0);
    }
    fixture.set_clock(-DAY_MS);
    fixture.wait_round(-DAY_MS);
    fixture.set_clock(0);
    fixture.wait_round(0);
    let out_of_order = "narthex_tsdb_head_out_of_order_samples_appended_total ";
    assert_eq!(
        fixture.server.metric(out_of_order),
        Some(0.0),
        "rows stayed rows"
    );
    let pages: Vec<i64> = (1..).map_while(|n| fixture.target.asked_ms(n)).collect();
    let gap_ms = pages.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(
        gap_ms.unwrap() < 10_000,
        "no step stopped scraping: {pages:?}"
    );
    let log = fixture.server.stop();
    assert!(
        log.contains("The wall clock went on by more than has passed"),
        "{log}"
    );
    // The next start has the right clock and all samples.
    let server = Running::of(support::server_in(&fixture.data));
    let again = Fixture { server, ..fixture };
    again.check_history("started again");
    again.server.stop();
}
