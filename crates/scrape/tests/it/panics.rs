//! Panics inside a scrape loop: the round fails, the target's series end, and the loop continues.

use crate::{
    page::Page,
    support::{Scraping, parse_selector},
};
use narthex_client::Registry;
use narthex_model::{
    ColumnId, Family, Frame, LabelSet, METRIC_NAME, MemStore, Schema,
    cell::is_stale,
    storage::{Binding, Outcome, SeriesSample, Sink, StorageError, SyncToken},
};
use narthex_net::{Client, ClientConfig, Request, Server, ServerConfig, Stopper, Url};
use narthex_scrape::{LocalSource, RouteLimits, Target, routes};
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A sink that panics in the middle of every good round while switched on.
struct Fragile {
    store: MemStore,
    breaks: Arc<AtomicBool>,
}

struct FragileBinding {
    inner: Box<dyn Binding>,
    breaks: Arc<AtomicBool>,
}

impl Sink for Fragile {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(FragileBinding {
            inner: self.store.bind(schema)?,
            breaks: Arc::clone(&self.breaks),
        }))
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        self.store.append_samples(samples)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        self.store.sync(token)
    }
}

impl Binding for FragileBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.inner.rebind(schema)
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        let is_good = frame.values().first() == Some(&1.0);
        assert!(
            !(is_good && self.breaks.load(Ordering::Relaxed)),
            "the sink is out of order"
        );
        self.inner.append(frame)
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn panics() -> f64 {
    let registry = Registry::new();
    narthex_net::register_metrics(&registry).unwrap();
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    let name = "narthex_panics_total{task=\"scrape\"} ";
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map_or(0.0, |value| value.parse().unwrap())
}

/// Fetches the API's view of the targets.
async fn targets(scraping: &Scraping) -> Value {
    let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default())
        .await
        .unwrap();
    let url = format!("http://{}/api/v1/targets", server.local_addrs()[0]);
    let (stopper, stop) = Stopper::new();
    let serving = tokio::spawn(server.serve(
        routes(
            Arc::clone(&scraping.manager),
            RouteLimits::default(),
            parse_selector,
        ),
        stop,
    ));
    let mut body = Vec::new();
    let request = Request::new(Url::parse(&url).unwrap());
    let client = Client::new(ClientConfig::default());
    client.get(&request, &mut body).await.unwrap();
    stopper.stop();
    serving.await.unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    answer["data"].clone()
}

/// A panic ended the loop for good, and the target kept its last status.
#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_panics_marks_its_target_down_and_goes_on() {
    narthex_net::log_panics();
    let breaks = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&breaks);
    let sink = |store| {
        Arc::new(Fragile {
            store,
            breaks: told,
        }) as Arc<dyn Sink>
    };
    let scraping = Scraping::with(sink, now_ms);
    let page = Page::start("a{x=\"1\"} 1\na{x=\"2\"} 2\nb 3\n").await;
    scraping.scrape(&page, |_| {});
    scraping
        .until("b is there", |s| s.value("b") == Some(3.0))
        .await;
    let before = panics();
    breaks.store(true, Ordering::Relaxed);
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    let ended = |scraping: &Scraping, metric: &str, x: &[(&str, &str)]| {
        scraping
            .last(metric, x)
            .is_some_and(|last| is_stale(last.cell))
    };
    assert!(ended(&scraping, "b", &[]));
    assert!(ended(&scraping, "a", &[("x", "1")]) && ended(&scraping, "a", &[("x", "2")]));
    assert!(panics() > before);
    let targets = targets(&scraping).await;
    let [target] = targets["activeTargets"].as_array().unwrap().as_slice() else {
        panic!("one target: {targets}");
    };
    assert_eq!(target["health"], "down");
    let error = target["lastError"].as_str().unwrap();
    assert!(error.starts_with("panicked at "), "{error}");
    assert!(
        error.contains("panics.rs:") && error.ends_with(": the sink is out of order"),
        "{error}"
    );
    scraping
        .until("it goes on trying", |_| panics() > before + 2.0)
        .await;
    breaks.store(false, Ordering::Relaxed);
    scraping
        .until("all is well", |s| {
            s.value("up") == Some(1.0) && s.value("b") == Some(3.0)
        })
        .await;
    assert_eq!(scraping.last("a", &[("x", "2")]).unwrap().cell, 2.0);
    page.set("b 4\n");
    scraping
        .until("series end as before", |s| ended(s, "a", &[("x", "1")]))
        .await;
    scraping.end().await;
}

struct Shaky {
    frame: Frame,
    breaks: Arc<AtomicBool>,
    /// Whether a round has begun and not ended.
    is_half_done: bool,
}

impl LocalSource for Shaky {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        let schema = self.frame.schema().clone();
        self.frame.restart(&schema, now_ms);
        let value = if self.is_half_done { 13.0 } else { 7.0 };
        self.is_half_done = true;
        assert!(!self.breaks.load(Ordering::Relaxed), "a file has no lines");
        self.is_half_done = false;
        self.frame.set(ColumnId(0), value);
        Ok(&self.frame)
    }

    fn restart(&mut self) -> Result<(), String> {
        self.is_half_done = false;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_inside_the_process_that_panics_is_down_until_it_does_not() {
    let breaks = Arc::new(AtomicBool::new(false));
    let scraping = Scraping::idle();
    let target = Target::local("shaky", "here");
    let mut edit = Schema::new(target.labels.clone()).edit();
    let family = edit.family(Family::default());
    edit.push(&LabelSet::new([(METRIC_NAME, "m")]), family);
    let source = Shaky {
        frame: Frame::new(edit.finish(), 0),
        breaks: Arc::clone(&breaks),
        is_half_done: false,
    };
    let interval = Duration::from_millis(100);
    scraping
        .manager
        .start_local(target, interval, Box::new(source));
    scraping
        .until("it is up", |s| s.value("m") == Some(7.0))
        .await;
    breaks.store(true, Ordering::Relaxed);
    scraping
        .until("it is down", |s| s.value("up") == Some(0.0))
        .await;
    assert!(is_stale(scraping.value("m").unwrap()));
    breaks.store(false, Ordering::Relaxed);
    scraping
        .until("it is up again", |s| s.value("up") == Some(1.0))
        .await;
    // Anything the panic left half-done would show.
    assert_eq!(scraping.value("m"), Some(7.0));
    scraping.end().await;
}
