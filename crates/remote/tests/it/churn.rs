//! Senders whose series are replaced all day long: ended series cost no memory.

use crate::support::NOW_MS;
use narthex_model::cell::STALE;
use narthex_remote::{Message, Receiver};
use narthex_testkit::{
    TempDir, alloc, alone,
    remote_write::{Request, Series},
    rng::SplitMix64,
    scaled,
};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::sync::Arc;

const STEP_MS: i64 = 15_000;
const MINUTE_MS: i64 = 60_000;
/// Time between replacements.
const LIFE_MS: i64 = 15 * MINUTE_MS;
const PODS: usize = 12;
const SERIES: usize = 60;

/// A sender of pods, six tenths of which are replaced from time to time.
struct Sender {
    receiver: Receiver,
    clock: ManualClock,
    db: Db,
    now_ms: i64,
    rng: SplitMix64,
    pods: Vec<usize>,
    made: usize,
    _dir: TempDir,
}

impl Sender {
    fn new() -> Self {
        let dir = TempDir::new("remote-churn");
        let options = DbOptions {
            wal_file_bytes: 20_000,
            cache_bytes: 64 << 10,
            ..DbOptions::new(dir.join("data"))
        };
        let clock = ManualClock::new(NOW_MS);
        let db = Db::open(Arc::new(RealIo), options, Arc::new(clock.clone())).unwrap();
        let of_receiver = clock.clone();
        let now_ms = move || narthex_tsdb::Clock::now_ms(&of_receiver);
        Self {
            receiver: Receiver::new(Arc::new(db.clone()), Arc::new(now_ms)),
            clock,
            db,
            now_ms: NOW_MS,
            rng: SplitMix64::new(5),
            pods: (0..PODS).collect(),
            made: PODS,
            _dir: dir,
        }
    }

    fn send(&self, pods: &[usize], value: impl Fn(usize) -> f64) {
        let series = |pod: &usize| {
            let pod = format!("pod-with-a-long-name-{pod}");
            let series = |at: usize| {
                let at_text = at.to_string();
                let labels = [
                    ("__name__", "m"),
                    ("at", at_text.as_str()),
                    ("instance", pod.as_str()),
                    ("job", "churn"),
                ];
                Series::new(&labels, &[(self.now_ms, value(at))])
            };
            (0..SERIES).map(series).collect::<Vec<_>>()
        };
        let request = Request {
            series: pods.iter().flat_map(series).collect(),
            ..Request::default()
        };
        let stored = self.receiver.store(Message::V1, &request.v1());
        let (_, refused) = stored.unwrap();
        assert!(refused.is_none(), "{refused:?}");
    }

    fn replace(&mut self) {
        let mut ended = Vec::new();
        for at in 0..PODS {
            if self.rng.below(10) < 6 {
                ended.push(std::mem::replace(&mut self.pods[at], self.made));
                self.made += 1;
            }
        }
        self.now_ms += 1000;
        self.clock.set(self.now_ms);
        self.send(&ended, |_| STALE);
    }

    /// Runs one lifetime; returns the most bytes held at the end of a minute.
    fn live(&mut self) -> i64 {
        let mut most = i64::MIN;
        for second in 1..=LIFE_MS / 1000 {
            self.now_ms += 1000;
            self.clock.set(self.now_ms);
            if second * 1000 % STEP_MS == 0 {
                self.send(&self.pods, |at| at as f64 + (second / 7) as f64);
            }
            self.db.maintain(self.now_ms).unwrap();
            if second * 1000 % MINUTE_MS == 0 {
                self.receiver.forget_ended().unwrap();
                most = most.max(alloc::thread().live_bytes);
            }
        }
        most
    }
}

#[test]
fn a_day_of_replaced_pods_costs_no_memory() {
    // The label tables are shared by the process, and grow on whichever thread fills them.
    alone("churn::a_day_of_replaced_pods_costs_no_memory", a_day);
}

fn a_day() {
    let before = alloc::thread().live_bytes;
    let mut sender = Sender::new();
    let without = sender.live() - before;
    let mut held = Vec::new();
    for _ in 0..scaled(24).clamp(16, 96) {
        sender.replace();
        held.push((sender.live() - before) >> 10);
    }
    let most = |held: &[i64]| held.iter().copied().max().unwrap();
    // Blocks span two hours: the first hours include everything that happens, merging at a block's end included.
    let (first, later) = held.split_at(8);
    assert!(
        most(later) * 4 <= most(first) * 5,
        "memory grows by replacements: {first:?}, then {later:?} KiB"
    );
    sender.live();
    let quiet = sender.live() - before;
    // Dead labels stay until the label tables would have to grow.
    assert!(
        quiet <= without * 2,
        "{} KiB without replacements, {} KiB after them",
        without >> 10,
        quiet >> 10
    );
    assert_eq!(sender.receiver.series(), PODS * SERIES);
}
