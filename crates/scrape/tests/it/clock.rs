//! Wall clock steps while targets are scraped, and the waits that follow.

use crate::support::Scraping;
use narthex_model::{ColumnId, Family, Frame, LabelSet, METRIC_NAME, Schema};
use narthex_scrape::{LocalSource, Target};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_secs(15);
const HOUR_MS: i64 = 3_600_000;
const NOW_MS: i64 = 1_767_225_600_000;

/// Records when it was collected, by the monotonic clock.
struct Source {
    frame: Frame,
    began: Instant,
    rounds: Arc<Mutex<Vec<Duration>>>,
}

impl LocalSource for Source {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        self.rounds.lock().unwrap().push(self.began.elapsed());
        let schema = self.frame.schema().clone();
        self.frame.restart(&schema, now_ms);
        self.frame.set(ColumnId(0), 1.0);
        Ok(&self.frame)
    }

    fn restart(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Scrapes for ten intervals, steps the clock and scrapes for ten more; returns the collection times.
async fn rounds_around(step_ms: i64) -> (Duration, Vec<Duration>) {
    let (began, step) = (Instant::now(), Arc::new(AtomicI64::new(0)));
    let shown = Arc::clone(&step);
    let now_ms = move || {
        let passed_ms = i64::try_from(began.elapsed().as_millis()).unwrap();
        NOW_MS + passed_ms + shown.load(Ordering::Relaxed)
    };
    let scraping = Scraping::with(|store| Arc::new(store), now_ms);
    let target = Target::local("clock", "here");
    let mut edit = Schema::new(target.labels.clone()).edit();
    let family = edit.family(Family::default());
    edit.push(&LabelSet::new([(METRIC_NAME, "m")]), family);
    let rounds = Arc::new(Mutex::new(Vec::new()));
    let source = Source {
        frame: Frame::new(edit.finish(), 0),
        began,
        rounds: Arc::clone(&rounds),
    };
    scraping
        .manager
        .start_local(target, INTERVAL, Box::new(source));
    tokio::time::sleep(10 * INTERVAL).await;
    assert_eq!(rounds.lock().unwrap().len(), 10);
    let set_at = began.elapsed();
    step.store(step_ms, Ordering::Relaxed);
    tokio::time::sleep(10 * INTERVAL).await;
    scraping.end().await;
    let rounds = rounds.lock().unwrap().clone();
    (set_at, rounds)
}

/// Setting the clock back used to stop every scrape for as long.
#[tokio::test(start_paused = true)]
async fn scraping_goes_on_within_two_intervals_whatever_the_clock_is_set_to() {
    for step_ms in [HOUR_MS, 24 * HOUR_MS, 3653 * 24 * HOUR_MS, 14_000, 16_000] {
        for step_ms in [step_ms, -step_ms] {
            let (set_at, rounds) = rounds_around(step_ms).await;
            let after: Vec<Duration> = rounds.into_iter().filter(|at| *at > set_at).collect();
            let mut before = set_at;
            for at in &after {
                assert!(*at - before <= 2 * INTERVAL, "{step_ms}: {after:?}");
                before = *at;
            }
            assert!((9..=11).contains(&after.len()), "{step_ms}: {after:?}");
        }
    }
}
