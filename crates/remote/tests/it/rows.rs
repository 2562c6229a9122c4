//! Samples that arrive together are stored together.

use crate::support::{NOW_MS, samples_of};
use narthex_model::storage::Store;
use narthex_remote::{Message, Receiver};
use narthex_testkit::{
    TempDir,
    remote_write::{Request, Series},
    rng::SplitMix64,
};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::sync::Arc;

const TARGETS: usize = 5;
const SERIES: usize = 300;

fn sample(target: usize, series: usize, round: i64) -> Series {
    let (instance, name) = (format!("host-{target}:9100"), format!("m_{series:03}"));
    let labels = [
        ("__name__", name.as_str()),
        ("cluster", "prod"),
        ("instance", instance.as_str()),
        ("job", "node"),
    ];
    let value = (series as i64 * 7 + round) as f64;
    Series::new(&labels, &[(NOW_MS + round * 15_000 + target as i64, value)])
}

fn round(at: i64) -> Vec<Series> {
    let targets = (0..TARGETS).flat_map(|target| (0..SERIES).map(move |series| (target, series)));
    targets
        .map(|(target, series)| sample(target, series, at))
        .collect()
}

fn open(dir: &TempDir, now_ms: i64) -> Db {
    let clock = Arc::new(ManualClock::new(now_ms));
    Db::open(Arc::new(RealIo), DbOptions::new(dir.path()), clock).unwrap()
}

fn receiver(db: &Db) -> Receiver {
    Receiver::new(Arc::new(db.clone()), Arc::new(|| NOW_MS + 3_600_000))
}

/// Sends all series in requests of `size`.
fn send(receiver: &Receiver, series: &[Series], size: usize) {
    for part in series.chunks(size) {
        let request = Request {
            series: part.to_vec(),
            ..Request::default()
        };
        let (written, refused) = receiver.store(Message::V1, &request.v1()).unwrap();
        assert!(refused.is_none(), "{refused:?}");
        assert_eq!(written.samples as usize, part.len());
    }
}

fn expected(series: &str, rounds: i64) -> Vec<String> {
    let target: i64 = series
        .split_once("host-")
        .and_then(|(_, rest)| rest.split_once(':'))
        .map(|(number, _)| number.parse().unwrap())
        .unwrap();
    let number: i64 = series[2..5].parse().unwrap();
    (0..rounds)
        .map(|round| format!("{}@{}", number * 7 + round, round * 15_000 + target))
        .collect()
}

fn check(store: &dyn Store, rounds: i64) {
    for series in [0, 1, 150, 299] {
        let found = samples_of(store, &format!("m_{series:03}"));
        assert_eq!(found.len(), TARGETS);
        for (series, samples) in found {
            assert_eq!(samples, expected(&series, rounds), "{series}");
        }
    }
}

/// Requests split targets anywhere, at a different point every round; all samples arrive, before and after a restart.
#[test]
fn cuts_between_requests_lose_nothing() {
    let dir = TempDir::new("remote-rows");
    let db = open(&dir, NOW_MS + 3_600_000);
    let receiver = receiver(&db);
    for at in 0..8 {
        send(&receiver, &round(at), 400 + 37 * at as usize);
    }
    check(&db, 8);
    db.close().unwrap();
    drop((receiver, db));
    let db = open(&dir, NOW_MS + 3_600_000);
    check(&db, 8);
    // A sender that continues after the restart.
    let receiver = self::receiver(&db);
    for at in 8..12 {
        send(&receiver, &round(at), 700);
    }
    check(&db, 12);
}

/// A sender without any order: samples of the same instant share nothing but a request.
#[test]
fn shuffled_samples_arrive() {
    let dir = TempDir::new("remote-shuffled");
    let db = open(&dir, NOW_MS + 3_600_000);
    let receiver = receiver(&db);
    let mut rng = SplitMix64::new(7);
    let mut all: Vec<Series> = (0..6).flat_map(round).collect();
    rng.shuffle(&mut all);
    send(&receiver, &all, 500);
    check(&db, 6);
}

/// New series of a known origin, and series that end and return long after.
#[test]
fn churn_keeps_series_apart() {
    let dir = TempDir::new("remote-churn");
    let db = open(&dir, NOW_MS + 86_400_000);
    let now = Arc::new(std::sync::atomic::AtomicI64::new(NOW_MS));
    let clock = Arc::clone(&now);
    let receiver = Receiver::new(
        Arc::new(db.clone()),
        Arc::new(move || clock.load(std::sync::atomic::Ordering::Relaxed)),
    );
    let mut most = 0;
    for generation in 0..40_i64 {
        // Ten minutes each: forgotten series free their places.
        let time_ms = NOW_MS + generation * 600_000;
        now.store(time_ms, std::sync::atomic::Ordering::Relaxed);
        let mut series = Vec::new();
        for at in 0..60 {
            let pod = if at < 30 {
                format!("old-{}", generation % 7)
            } else {
                format!("pod-{generation}")
            };
            let (name, value) = (format!("m_{at}"), (generation * 100 + at) as f64);
            let labels = [
                ("__name__", name.as_str()),
                ("instance", "ksm:8080"),
                ("job", "ksm"),
                ("pod", pod.as_str()),
            ];
            series.push(Series::new(&labels, &[(time_ms, value)]));
        }
        send(&receiver, &series, 25);
        most = most.max(receiver.series());
    }
    assert!(most <= 600, "{most} series are remembered");
    let found = samples_of(&db, "m_3");
    assert_eq!(found.len(), 7);
    let total: usize = found.values().map(Vec::len).sum();
    assert_eq!(total, 40);
    let samples = &found["m_3{instance=\"ksm:8080\", job=\"ksm\", pod=\"old-2\"}"];
    assert_eq!(samples[..2], ["203@1200000", "903@5400000"]);
    assert_eq!(samples_of(&db, "m_40").len(), 40);
}

/// A sender's staleness markers end its series: their memory must not wait for half an hour of silence.
#[test]
fn series_that_ended_are_forgotten_within_minutes() {
    let dir = TempDir::new("remote-ended");
    let db = open(&dir, NOW_MS + 86_400_000);
    let now = Arc::new(std::sync::atomic::AtomicI64::new(NOW_MS));
    let clock = Arc::clone(&now);
    let receiver = Receiver::new(
        Arc::new(db),
        Arc::new(move || clock.load(std::sync::atomic::Ordering::Relaxed)),
    );
    let stale = narthex_model::cell::STALE;
    let page = |pod: &str, time_ms: i64, value: f64| -> Vec<Series> {
        let series = |at: usize| {
            let name = format!("m_{at}");
            let labels = [
                ("__name__", name.as_str()),
                ("instance", "i"),
                ("job", "j"),
                ("pod", pod),
            ];
            Series::new(&labels, &[(time_ms, value)])
        };
        (0..50).map(series).collect()
    };
    send(&receiver, &page("a", NOW_MS, 1.0), 500);
    send(&receiver, &page("b", NOW_MS, 1.0), 500);
    // A series that is sent again after its marker has not ended.
    let back = |time_ms: i64, value: f64| {
        let labels = [("__name__", "back"), ("instance", "i"), ("job", "j")];
        Series::new(&labels, &[(time_ms, value)])
    };
    let mut ends = page("a", NOW_MS + 5000, stale);
    ends.push(back(NOW_MS + 5000, stale));
    send(&receiver, &ends, 500);
    send(&receiver, &[back(NOW_MS + 6000, 1.0)], 500);
    assert_eq!(receiver.series(), 101);
    now.fetch_add(200_000, std::sync::atomic::Ordering::Relaxed);
    receiver.forget_ended().unwrap();
    assert_eq!(receiver.series(), 51);
    now.fetch_add(1_700_000, std::sync::atomic::Ordering::Relaxed);
    receiver.forget_ended().unwrap();
    assert_eq!(receiver.series(), 0, "half an hour of silence");
    send(&receiver, &page("a", NOW_MS + 1_900_000, 2.0), 500);
    assert_eq!(receiver.series(), 50);
}
