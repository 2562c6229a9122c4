//! One server's run through a corpus: start, every round, reading back, stop.
//!
//! **Invariant:** every server goes through the same phases; a run ends when every round was scraped, or fails.

use super::{
    expect::{Compared, Expected, make_visible},
    feed::{Feed, Served, Times},
    plan::Plan,
};
use crate::{
    harness::{
        BenchError, Meter, Progress, Resident, RunningServer, ServerSpec, Ticks, Used,
        directory_bytes,
    },
    load::fleet::now_ms,
};
use narthex_testkit::http;
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Timeout of a start and of a stop.
const LIMIT: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_secs(1);

/// All measurements of one server.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) samples: u64,
    pub(crate) series: u64,
    pub(crate) scrapes: u64,
    pub(crate) served_bytes: u64,
    pub(crate) took: Duration,
    pub(crate) used: Used,
    pub(crate) resident: Resident,
    pub(crate) compared: Compared,
    /// The directory after a clean stop: disk usage, and the files' lengths.
    pub(crate) stopped: (u64, u64),
    /// The same of a snapshot, if the server makes one on demand.
    pub(crate) snapshot: Option<(u64, u64)>,
    pub(crate) ticks: Ticks,
}

/// Runs all phases.
pub(crate) fn run(
    plan: &Plan,
    spec: &ServerSpec,
    expected: &[Vec<Expected>],
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    progress.begin(&spec.label, "starting");
    let times = plan.times(now_ms());
    let feeds = plan.corpora.iter().map(|corpus| {
        let rounds = plan.rounds.min(corpus.len());
        Feed::start(corpus, &corpus.about().name, rounds, times)
    });
    let feeds = feeds.collect::<Result<Vec<Feed>, _>>()?;
    let (scrape, storage) = (scrape_config(plan, &feeds), storage_config(plan));
    let places = [("scrape", scrape.as_str()), ("storage", storage.as_str())];
    let mut server = RunningServer::start(spec, &plan.base, &places)?;
    server.wait_ready(LIMIT)?;
    let started = Instant::now();
    let meter = Meter::start(server.usage()?)?;
    let ticks = watch(plan, &mut server, &feeds, progress)?;
    let took = started.elapsed();
    progress.begin(&spec.label, "settling");
    thread::sleep(plan.flags.settle);
    let used = meter.stop(server.usage()?)?;
    let resident = Resident::read(server.pid())?;
    progress.begin(&spec.label, "reading back");
    make_visible(&server);
    let served = feeds
        .iter()
        .map(Feed::served)
        .collect::<Result<Vec<_>, _>>()?;
    let compared = compare(&server, &feeds, expected, &served, times)?;
    // Other servers that know the request use hard links, which take no space of their own.
    let snapshot = (spec.kind.name == "prometheus")
        .then(|| snapshot(&server))
        .flatten();
    server.stop(LIMIT)?;
    let all = || served.iter().flatten();
    let stopped = match snapshot {
        // The snapshot is not part of the server's own data.
        Some(_) => without(&server.data(), "snapshots")?,
        None => directory_bytes(&server.data())?,
    };
    Ok(Outcome {
        samples: all().map(|served| served.samples).sum(),
        series: served
            .iter()
            .filter_map(|served| Some(served.last()?.samples))
            .sum(),
        scrapes: all().count() as u64,
        served_bytes: all().map(|served| served.bytes).sum(),
        took,
        used,
        resident,
        compared,
        stopped,
        snapshot,
        ticks,
    })
}

/// Waits until every round was scraped, reading figures every second.
fn watch(
    plan: &Plan,
    server: &mut RunningServer,
    feeds: &[Feed],
    progress: &Progress,
) -> Result<Ticks, BenchError> {
    let label = server.label().to_owned();
    progress.begin(&label, "serving");
    let (limit, mut ticks) = (plan.serving() * 2 + LIMIT, Ticks::start());
    let started = Instant::now();
    while !feeds.iter().all(Feed::is_done) {
        server.check()?;
        let mut served = Vec::with_capacity(feeds.len());
        for feed in feeds {
            served.push(feed.served()?);
        }
        let rounds = served.iter().map(Vec::len).min().unwrap_or(0);
        if started.elapsed() > limit {
            return Err(BenchError::Server {
                name: label,
                what: format!(
                    "scraped {rounds} of {} rounds within {limit:?}",
                    plan.rounds
                ),
                log: String::new(),
            });
        }
        let usage = server.usage()?;
        let disk_bytes = directory_bytes(&server.data()).unwrap_or_default().0;
        let samples = served.iter().flatten().map(|served| served.samples).sum();
        ticks.push(usage, disk_bytes, samples);
        let (all, mb) = (plan.rounds, usage.rss_bytes / 1_000_000);
        progress.show(&format!("{label}: {rounds} of {all} rounds, {mb} MB"));
        thread::sleep(TICK.min(plan.interval));
    }
    Ok(ticks)
}

fn compare(
    server: &RunningServer,
    feeds: &[Feed],
    expected: &[Vec<Expected>],
    served: &[Vec<Served>],
    times: Times,
) -> Result<Compared, BenchError> {
    let mut all = Compared::default();
    for ((feed, expected), served) in feeds.iter().zip(expected).zip(served) {
        let instance = feed.address().to_string();
        for series in expected {
            all.add(series.compare(server, &instance, served, times)?);
        }
    }
    Ok(all)
}

/// Has the server write everything into a block of its own, if it can; returns its size.
fn snapshot(server: &RunningServer) -> Option<(u64, u64)> {
    let answer = http::post_form(&server.url("/api/v1/admin/tsdb/snapshot"), &[]).ok()?;
    let name: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    let name = name["data"]["name"].as_str()?;
    directory_bytes(&server.data().join("snapshots").join(name)).ok()
}

/// Returns the size of a directory, excluding one subdirectory.
fn without(data: &Path, name: &str) -> Result<(u64, u64), BenchError> {
    let (whole, part) = (directory_bytes(data)?, directory_bytes(&data.join(name))?);
    Ok((
        whole.0.saturating_sub(part.0),
        whole.1.saturating_sub(part.1),
    ))
}

/// Returns the configuration by which every server scrapes the recorded targets.
fn scrape_config(plan: &Plan, feeds: &[Feed]) -> String {
    let interval = plan.interval.as_millis();
    let mut text = format!(
        "global:\n  scrape_interval: {interval}ms\n  scrape_timeout: {interval}ms\nscrape_configs:\n"
    );
    for (corpus, feed) in plan.corpora.iter().zip(feeds) {
        text.push_str(&format!(
            "  - job_name: {}\n    honor_timestamps: true\n    static_configs:\n      - targets: [\"{}\"]\n",
            corpus.about().name,
            feed.address()
        ));
    }
    text
}

fn storage_config(plan: &Plan) -> String {
    plan.past().map_or_else(String::new, |past| {
        let minutes = past.as_secs() / 60;
        format!("storage:\n  tsdb:\n    out_of_order_time_window: {minutes}m\n")
    })
}
