//! The threads on which calls are answered.

use super::*;
use narthex_model::storage::{Context, Prepared, Selector, StorageError, TimeRange, View};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
};

/// A store that knows on which threads it was asked, and how long its answers take.
#[derive(Default)]
struct Watched {
    inner: MemStore,
    asked_on: Mutex<Vec<ThreadId>>,
    /// Milliseconds; `PANICS` instead of an answer.
    takes: AtomicU64,
}

const PANICS: u64 = u64::MAX;

struct Shared(Arc<Watched>);

impl Store for Shared {
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        self.0.asked_on.lock().unwrap().push(thread::current().id());
        self.0.inner.view(range)
    }

    fn prepare(
        &self,
        range: TimeRange,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        let view = self.view(range)?;
        let takes = self.0.takes.load(Relaxed);
        assert!(takes != PANICS, "asked to");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(takes) {
            ctx.stop.check()?;
        }
        view.prepare(selectors, ctx)
    }

    fn time_range(&self) -> Option<TimeRange> {
        self.0.inner.time_range()
    }
}

fn served_watched() -> (Served, Arc<Watched>) {
    let watched = Arc::new(Watched::default());
    let sample = SeriesSample::float(LabelSet::new([("__name__", "x")]), END_MS, 1.0);
    watched.inner.append_samples(&[sample]).unwrap();
    let store = Arc::new(Shared(Arc::clone(&watched)));
    let served = served_from(64 << 20, store, |_| Arc::new(process::NoStatus));
    (served, watched)
}

impl Watched {
    /// Returns whether each question since the last call came on this thread.
    fn were_here(&self) -> Vec<bool> {
        let here = thread::current().id();
        let asked_on = std::mem::take(&mut *self.asked_on.lock().unwrap());
        asked_on.into_iter().map(|thread| thread == here).collect()
    }

    /// Asks until the answer comes from this thread, which serves the connection; returns how often.
    async fn ask_until_here(&self, served: &Served, path: &str) -> u64 {
        assert_eq!(served.get(path).await.status(), StatusCode::OK);
        assert_eq!(self.were_here(), [false], "nothing is known yet");
        // On a busy machine any call may take long.
        for asked in 2..10_000 {
            assert_eq!(served.get(path).await.status(), StatusCode::OK);
            if self.were_here() == [true] {
                return asked;
            }
        }
        panic!("{path} is never answered in place");
    }
}

const QUERY: &str = "/api/v1/query?query=x";
const LABELS: &str = "/api/v1/labels?start=0&end=1000";

#[test]
fn what_took_little_is_answered_in_place() {
    run(async {
        let (served, watched) = served_watched();
        watched.ask_until_here(&served, QUERY).await;
        watched.ask_until_here(&served, LABELS).await;
        // Another question is not known, nor is the same over a longer time.
        for other in [
            "/api/v1/query?query=x%2Bx",
            "/api/v1/query_range?query=x&start=0&end=1000&step=10",
            "/api/v1/labels?start=0&end=100",
        ] {
            assert_eq!(served.get(other).await.status(), StatusCode::OK);
            assert!(!watched.were_here().contains(&true), "{other}");
        }
        served.settled().await;
    });
}

#[test]
fn what_takes_longer_than_before_begins_anew_elsewhere() {
    run(async {
        let (served, watched) = served_watched();
        let before = watched.ask_until_here(&served, QUERY).await;
        watched.takes.store(20, Relaxed);
        let moved = metrics::MOVED.get();
        let response = served.get(QUERY).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(text(response).await.contains(r#""value":[1000,"1"]"#));
        assert_eq!(watched.were_here(), [true, false]);
        assert!(metrics::MOVED.get() >= moved + 1.0);
        // It is not begun in place again.
        assert_eq!(served.get(QUERY).await.status(), StatusCode::OK);
        assert_eq!(watched.were_here(), [false]);
        // Each call counts once, and none has failed.
        let asked = json!(before + 2);
        let top = data(&served, "/api/v1/status/top_queries").await;
        let counted = &top["topByCount"][0];
        assert_eq!(
            (&counted["count"], &counted["failures"]),
            (&asked, &json!(0))
        );
        let names = data(&served, "/api/v1/status/metric_names_stats?start=0").await;
        assert_eq!(names["records"][0]["queryRequestsCount"], asked);
        served.settled().await;
    });
}

#[test]
fn a_call_in_place_times_out_and_panics_as_elsewhere() {
    run(async {
        let (served, watched) = served_watched();
        watched.ask_until_here(&served, QUERY).await;
        watched.takes.store(20, Relaxed);
        let late = served.get(&format!("{QUERY}&timeout=1ms")).await;
        assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(watched.were_here(), [true]);
        watched.takes.store(0, Relaxed);
        watched.ask_until_here(&served, QUERY).await;
        watched.takes.store(PANICS, Relaxed);
        let panicked = served.get(QUERY).await;
        assert_eq!(panicked.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let text = text(panicked).await;
        assert!(text.contains("unexpected error: panicked"), "{text}");
        assert_eq!(watched.were_here(), [true]);
        // It has given back its permit.
        watched.takes.store(0, Relaxed);
        assert_eq!(served.get(QUERY).await.status(), StatusCode::OK);
        served.settled().await;
    });
}
