//! Scraping real HTTP servers into a store in memory.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod page;

use narthex_model::{
    MatchOp, Matcher, MemStore,
    cell::is_stale,
    storage::{Context, LastCell, Selector, Store, TimeRange},
};
use narthex_net::{StopToken, Stopper};
use narthex_scrape::{JobConfig, Limits, Manager, ManagerConfig, StaticGroup};
use page::Page;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A manager over a store in memory, scraping one page every 100 ms.
struct Scraping {
    store: MemStore,
    manager: Arc<Manager>,
    stopper: Stopper,
}

impl Scraping {
    fn start(page: &Page, change: impl FnOnce(&mut JobConfig)) -> Self {
        let store = MemStore::new();
        let (stopper, stop): (Stopper, StopToken) = Stopper::new();
        let now_ms = || {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("after 1970");
            i64::try_from(since.as_millis()).expect("this century")
        };
        let config = ManagerConfig {
            sink: Arc::new(store.clone()),
            now_ms: Arc::new(now_ms),
        };
        let manager = Arc::new(Manager::new(config, stop));
        let mut job = JobConfig::new("test");
        job.scrape_interval = Duration::from_millis(100);
        job.scrape_timeout = Duration::from_millis(80);
        job.static_configs = vec![StaticGroup {
            targets: vec![page.address()],
            labels: Vec::new(),
        }];
        change(&mut job);
        manager.start_job(&job).expect("a job that can be scraped");
        Self {
            store,
            manager,
            stopper,
        }
    }

    /// Returns the newest cell of the only series `text` selects, `None` without one.
    fn last(&self, metric: &str, pairs: &[(&str, &str)]) -> Option<LastCell> {
        let ctx = Context::unlimited();
        let mut matchers = vec![Matcher::equal("__name__", metric)];
        matchers.extend(
            pairs
                .iter()
                .map(|(name, value)| Matcher::new(MatchOp::Equal, name, value).unwrap()),
        );
        let view = self.store.view(TimeRange::ALL).unwrap();
        let prepared = view
            .prepare(&[Selector::new(matchers, TimeRange::ALL)], &ctx)
            .unwrap();
        let mut found = Vec::new();
        for batch in prepared.batches(0, &ctx).unwrap() {
            let all: Vec<u32> = (0..batch.len() as u32).collect();
            batch.last(&all, TimeRange::ALL, &mut found, &ctx).unwrap();
        }
        assert!(found.len() <= 1, "{metric} selects {} series", found.len());
        found.pop().flatten()
    }

    fn value(&self, metric: &str) -> Option<f64> {
        self.last(metric, &[]).map(|last| last.cell)
    }

    /// Waits until `condition` holds.
    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition(self) {
            assert!(Instant::now() < deadline, "waited too long: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(self) {
        self.stopper.stop();
        self.manager.join().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_scraped_with_its_synthetic_series() {
    let page = Page::start("# TYPE a counter\na{x=\"1\"} 5\nb 7 1700000000000\n").await;
    let scraping = Scraping::start(&page, |job| job.extra_scrape_metrics = true);
    scraping
        .until("up is 1", |s| s.value("up") == Some(1.0))
        .await;
    let a = scraping
        .last(
            "a",
            &[("x", "1"), ("job", "test"), ("instance", &page.address())],
        )
        .unwrap();
    assert_eq!(a.cell, 5.0);
    assert_eq!(scraping.last("b", &[]).unwrap().time_ms, 1_700_000_000_000);
    assert_eq!(scraping.value("scrape_samples_scraped"), Some(2.0));
    assert_eq!(
        scraping.value("scrape_samples_post_metric_relabeling"),
        Some(2.0)
    );
    assert_eq!(scraping.value("scrape_timeout_seconds"), Some(0.08));
    assert_eq!(scraping.value("scrape_body_size_bytes"), Some(46.0));
    assert!(scraping.value("scrape_duration_seconds").unwrap() > 0.0);
    scraping
        .until("nothing is new any more", |s| {
            s.value("scrape_series_added") == Some(0.0)
        })
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn series_end_when_they_vanish_and_when_the_target_does() {
    let page = Page::start("a 1\nb 1\n").await;
    let scraping = Scraping::start(&page, |_| {});
    scraping
        .until("b is there", |s| s.value("b") == Some(1.0))
        .await;
    page.set("a 2\n");
    scraping
        .until("b has ended", |s| s.value("b").is_some_and(is_stale))
        .await;
    scraping
        .until("a goes on", |s| s.value("a") == Some(2.0))
        .await;
    page.fail(true);
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    assert!(is_stale(scraping.value("a").unwrap()));
    assert_eq!(scraping.value("scrape_samples_scraped"), Some(0.0));
    page.fail(false);
    scraping
        .until("a is back", |s| s.value("a") == Some(2.0))
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_body_stores_nothing_of_itself() {
    let page = Page::start("a 1\n").await;
    let scraping = Scraping::start(&page, |_| {});
    scraping
        .until("a is there", |s| s.value("a") == Some(1.0))
        .await;
    page.set("fresh 1\na 2\noops\n");
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    assert!(scraping.value("fresh").is_none());
    assert!(is_stale(scraping.value("a").unwrap()));
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_fail_the_whole_scrape() {
    let cases: [(&str, Limits); 3] = [
        (
            "samples",
            Limits {
                samples: 2,
                ..Limits::default()
            },
        ),
        (
            "body size",
            Limits {
                body_size_bytes: 10,
                ..Limits::default()
            },
        ),
        (
            "labels",
            Limits {
                labels: 2,
                ..Limits::default()
            },
        ),
    ];
    for (what, limits) in cases {
        let page = Page::start("a 1\nb{x=\"long enough\"} 1\nc 1\n").await;
        let scraping = Scraping::start(&page, |job| {
            job.limits = limits;
            job.extra_scrape_metrics = true;
        });
        scraping.until(what, |s| s.value("up") == Some(0.0)).await;
        assert!(scraping.value("a").is_none(), "{what}");
        let size = scraping.value("scrape_body_size_bytes").unwrap();
        assert_eq!(size == -1.0, what == "body size", "{what}: {size}");
        scraping.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn honored_labels_and_exported_ones() {
    let page = Page::start("a{job=\"own\"} 1\n").await;
    let exporting = Scraping::start(&page, |_| {});
    exporting
        .until("exported", |s| {
            s.last("a", &[("job", "test"), ("exported_job", "own")])
                .is_some()
        })
        .await;
    exporting.end().await;
    let honoring = Scraping::start(&page, |job| job.honor_labels = true);
    honoring
        .until("honored", |s| {
            s.last("a", &[("job", "own"), ("instance", &page.address())])
                .is_some()
        })
        .await;
    assert!(honoring.last("up", &[("job", "test")]).is_some());
    honoring.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_target_times_out_and_the_schedule_goes_on() {
    let page = Page::start("a 1\n").await;
    page.delay(Duration::from_millis(300));
    let scraping = Scraping::start(&page, |_| {});
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    page.delay(Duration::ZERO);
    scraping
        .until("up is 1", |s| s.value("up") == Some(1.0))
        .await;
    scraping.end().await;
}
