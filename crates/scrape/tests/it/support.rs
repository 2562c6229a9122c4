//! A manager over a store in memory, and helpers that wait for it.

use crate::page::Page;
use narthex_model::{
    MatchOp, Matcher, MemStore,
    storage::{Context, LastCell, Lease, Selector, Sink, Store, TimeRange},
};
use narthex_net::{ClientConfig, StopToken, Stopper};
use narthex_scrape::{JobConfig, Manager, ManagerConfig, ScrapeMemory, StaticGroup};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Returns a job that scrapes every 100 ms.
pub(crate) fn job() -> JobConfig {
    let mut job = JobConfig::new("test");
    job.scrape_interval = Duration::from_millis(100);
    job.scrape_timeout = Duration::from_millis(80);
    job
}

/// Parses `{name="value"}`, all that tests select targets with.
pub(crate) fn parse_selector(text: &str, ctx: &Context) -> Result<(Vec<Matcher>, Lease), String> {
    let pair = text.trim_matches(['{', '}', '"']).split_once("=\"");
    let (name, value) = pair.ok_or("no matcher")?;
    let lease = ctx.budget.lease(0).map_err(|over| over.to_string())?;
    Ok((vec![Matcher::equal(name, value)], lease))
}

/// A manager over a store in memory, scraping one page every 100 ms.
pub(crate) struct Scraping {
    pub(crate) store: MemStore,
    pub(crate) manager: Arc<Manager>,
    stopper: Stopper,
}

impl Scraping {
    /// Scrapes a page with a job modified by `change`.
    pub(crate) fn start(page: &Page, change: impl FnOnce(&mut JobConfig)) -> Self {
        let scraping = Self::idle();
        scraping.scrape(page, change);
        scraping
    }

    /// Scrapes another page.
    pub(crate) fn scrape(&self, page: &Page, change: impl FnOnce(&mut JobConfig)) {
        let mut job = job();
        job.static_configs = vec![StaticGroup {
            targets: vec![page.address()],
            labels: Vec::new(),
        }];
        change(&mut job);
        self.manager
            .apply(job.clone(), &job.static_groups())
            .expect("a job that can be scraped");
    }

    /// Returns a manager that scrapes nothing.
    pub(crate) fn idle() -> Self {
        let now_ms = || {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("after 1970");
            i64::try_from(since.as_millis()).expect("this century")
        };
        Self::with(|store| Arc::new(store) as Arc<dyn Sink>, now_ms)
    }

    /// Returns a manager that scrapes nothing, with a clock, into the sink that `sink` builds on the store.
    pub(crate) fn with(
        sink: impl FnOnce(MemStore) -> Arc<dyn Sink>,
        now_ms: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        let store = MemStore::new();
        let (stopper, stop): (Stopper, StopToken) = Stopper::new();
        let config = ManagerConfig {
            memory: ScrapeMemory::default(),
            sink: sink(store.clone()),
            now_ms: Arc::new(now_ms),
            client: ClientConfig::default(),
            runtime: tokio::runtime::Handle::current(),
        };
        let manager = Arc::new(Manager::new(config, stop));
        Self {
            store,
            manager,
            stopper,
        }
    }

    /// Returns the newest cell of the only series `text` selects, or `None`.
    pub(crate) fn last(&self, metric: &str, pairs: &[(&str, &str)]) -> Option<LastCell> {
        let ctx = Context::unlimited();
        let mut matchers = vec![Matcher::equal("__name__", metric)];
        matchers.extend(
            pairs
                .iter()
                .map(|(name, value)| Matcher::new(MatchOp::Equal, name, value).unwrap()),
        );
        let view = self.store.view(TimeRange::ALL).unwrap();
        let mut selector = Selector::new(matchers, TimeRange::ALL);
        selector.hints.start_times = true;
        let prepared = view.prepare(&[selector], &ctx).unwrap();
        let mut found = Vec::new();
        for batch in prepared.batches(0, &ctx).unwrap() {
            let all: Vec<u32> = (0..batch.len() as u32).collect();
            batch.last(&all, TimeRange::ALL, &mut found, &ctx).unwrap();
        }
        assert!(found.len() <= 1, "{metric} selects {} series", found.len());
        found.pop().flatten()
    }

    pub(crate) fn value(&self, metric: &str) -> Option<f64> {
        self.last(metric, &[]).map(|last| last.cell)
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition(self) {
            assert!(Instant::now() < deadline, "waited too long: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn end(self) {
        self.stopper.stop();
        self.manager.join().await;
    }
}
