//! Pages with labels in any order, compared with a model that knows no schemas.

use super::*;
use crate::{JobConfig, Target, target::Populated};
use narthex_discovery::LabelMap;
use narthex_model::{
    MatchOp, Matcher, MemStore,
    cell::STALE,
    conformance::{Sampled, dump},
    storage::{Budget, SyncToken, TimeRange},
};
use narthex_net::{Client, ClientConfig};
use narthex_testkit::{mutate::scaled, rng::SplitMix64};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

fn origin() -> HttpOrigin {
    origin_within(&ScrapeMemory::default())
}

fn origin_within(memory: &ScrapeMemory) -> HttpOrigin {
    let job = JobConfig::new("j");
    let own = LabelMap::from([("__address__".to_owned(), "i:1".to_owned())]);
    let Ok(Populated::Kept(target)) = Target::populate(&job, &own, &LabelMap::new()) else {
        panic!("the target is kept");
    };
    let client = Client::new(ClientConfig::default());
    let plan = Plan::new(&job, &target, &client, 0).unwrap();
    HttpOrigin::new(Arc::new(plan), memory)
}

/// Names, labels and values of a page's lines.
type Page = BTreeMap<String, f64>;

fn page(pod: &str, series: std::ops::Range<usize>, value: f64) -> Page {
    let line = |at: usize| {
        format!(
            "m{}{{code=\"{}\",pod=\"{pod}\",zone=\"z\"}}",
            at / 3,
            at % 3
        )
    };
    series.map(|at| (line(at), value)).collect()
}

fn text(page: &Page) -> String {
    page.iter().fold(String::new(), |mut text, (line, value)| {
        writeln!(text, "{line} {value}").unwrap();
        text
    })
}

/// An origin, its store, and the expected contents of the store.
struct Run {
    origin: HttpOrigin,
    store: MemStore,
    expected: BTreeMap<String, Vec<(i64, u64)>>,
    before: Page,
    time_ms: i64,
}

impl Run {
    fn new() -> Self {
        Self {
            origin: origin(),
            store: MemStore::new(),
            expected: BTreeMap::new(),
            before: Page::new(),
            time_ms: 0,
        }
    }

    /// Feeds the origin a page, optionally with an error in it.
    fn round(&mut self, page: Page, faulty: bool) -> Scraped {
        self.time_ms += 1000;
        let fetched = Fetched {
            paid: None,
            content_type: "text/plain; version=0.0.4".to_owned(),
        };
        let body = text(&page) + if faulty { "oops{\n" } else { "" };
        let now = Instant::now();
        let (outcome, scraped) = self
            .origin
            .round(self.time_ms, now, Ok(fetched), body.as_bytes(), &self.store)
            .unwrap();
        assert_eq!((outcome.too_old, outcome.over_limit), (0, 0));
        assert_eq!(scraped.error.is_some(), faulty);
        let page = if faulty { Page::new() } else { page };
        for (line, value) in &page {
            let series = self.expected.entry(line.clone()).or_default();
            series.push((self.time_ms, value.to_bits()));
        }
        for line in self.before.keys().filter(|line| !page.contains_key(*line)) {
            let series = self.expected.entry(line.clone()).or_default();
            series.push((self.time_ms, STALE.to_bits()));
        }
        self.before = page;
        scraped
    }

    fn check(&self) {
        let of_page = Matcher::new(MatchOp::Regex, "__name__", "m.*").unwrap();
        let stored = dump(&self.store, &[of_page], TimeRange::ALL);
        let stored: BTreeMap<String, Vec<(i64, u64)>> = stored
            .into_iter()
            .map(|(labels, samples)| {
                assert_eq!(
                    (labels.get("job"), labels.get("instance")),
                    (Some("j"), Some("i:1"))
                );
                let own = labels.without(&["job", "instance", "__name__"]).to_string();
                let line = labels.metric_name().to_owned() + &own.replace(", ", ",");
                let bits = |sampled| match sampled {
                    Sampled::Float(bits) => bits,
                    Sampled::Stale => STALE.to_bits(),
                    Sampled::Histogram(_) => panic!("no histograms are sent"),
                };
                let samples = samples.into_iter();
                (
                    line,
                    samples
                        .map(|(time_ms, sampled, _)| (time_ms, bits(sampled)))
                        .collect(),
                )
            })
            .collect();
        let names = |all: &BTreeMap<String, _>| all.keys().cloned().collect::<Vec<String>>();
        assert_eq!(names(&stored), names(&self.expected));
        for (line, samples) in &stored {
            assert_eq!(samples, &self.expected[line], "{line}");
        }
        let up = dump(
            &self.store,
            &[Matcher::equal("__name__", "up")],
            TimeRange::ALL,
        );
        let rounds = usize::try_from(self.time_ms / 1000).unwrap();
        assert_eq!(
            up.len(),
            1,
            "one series whatever the page's labels: {:?}",
            up.keys()
        );
        assert_eq!(up.values().map(Vec::len).sum::<usize>(), rounds);
    }
}

/// A sink that looks, whenever it is given something, at how much of a budget is used.
struct Looking {
    store: MemStore,
    budget: Budget,
    most: Arc<AtomicU64>,
}

struct LookingBinding {
    binding: Box<dyn Binding>,
    budget: Budget,
    most: Arc<AtomicU64>,
}

impl Sink for Looking {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(LookingBinding {
            binding: self.store.bind(schema)?,
            budget: self.budget.clone(),
            most: Arc::clone(&self.most),
        }))
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        self.store.append_samples(samples)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        self.store.sync(token)
    }
}

impl Binding for LookingBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.binding.rebind(schema)
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        self.most
            .fetch_max(self.budget.used_bytes(), Ordering::Relaxed);
        self.binding.append(frame)
    }
}

/// What the sink takes for a new series is counted by nobody until it has stored one round of it.
#[test]
fn new_series_are_leased_until_they_are_stored() {
    const SERIES: u64 = 1000;
    const SERIES_BYTES: u64 = 400;
    let memory = ScrapeMemory {
        series: Budget::new("series", 64 << 20),
        ..ScrapeMemory::default()
    };
    let mut origin = origin_within(&memory);
    let sink = Looking {
        store: MemStore::new(),
        budget: memory.series.clone(),
        most: Arc::default(),
    };
    let series = 0..usize::try_from(SERIES).unwrap();
    let lines = series.map(|at| (format!("m{at}{{id=\"{at}\"}}"), 1.0));
    let body = text(&lines.collect());
    let mut round = |time_ms: i64| {
        let fetched = Fetched {
            paid: None,
            content_type: "text/plain; version=0.0.4".to_owned(),
        };
        sink.most.store(0, Ordering::Relaxed);
        origin
            .round(time_ms, Instant::now(), Ok(fetched), body.as_bytes(), &sink)
            .unwrap();
        let most = sink.most.load(Ordering::Relaxed);
        (most, memory.series.used_bytes())
    };
    let (while_stored, afterwards) = round(1000);
    assert!(while_stored >= SERIES * SERIES_BYTES, "{while_stored}");
    assert!(
        (1..while_stored - SERIES * SERIES_BYTES / 2).contains(&afterwards),
        "{afterwards} bytes are left of {while_stored}"
    );
    assert_eq!(round(2000).0, afterwards, "none are new");
    drop(origin);
    assert_eq!(memory.series.used_bytes(), 0);
}

#[test]
fn labels_of_all_lines_are_kept_once() {
    let mut run = Run::new();
    let scraped = run.round(page("a", 0..90, 1.0), false);
    assert_eq!(scraped.report.series_added, 90);
    run.round(page("a", 0..90, 2.0), false);
    let schema = run.origin.parser.schema();
    assert_eq!(
        schema.common().to_string(),
        r#"{instance="i:1", job="j", pod="a", zone="z"}"#
    );
    assert_eq!(schema.len(), 90);
    run.check();
}

#[test]
fn a_replaced_page_leaves_nothing_behind() {
    let mut run = Run::new();
    run.round(page("a", 0..90, 1.0), false);
    let scraped = run.round(page("b", 0..90, 1.0), false);
    assert_eq!(
        (scraped.report.series_added, scraped.report.samples),
        (90, 90)
    );
    assert_eq!(run.origin.parser.schema().len(), 90);
    assert_eq!(run.origin.parser.in_lines().get("pod"), Some("b"));
    run.check();
}

#[test]
fn series_that_stay_do_not_count_as_added_when_labels_stop_being_common() {
    let mut run = Run::new();
    run.round(page("a", 0..90, 1.0), false);
    let mut mixed = page("a", 0..90, 2.0);
    mixed.extend(page("b", 0..10, 2.0));
    let scraped = run.round(mixed.clone(), false);
    assert_eq!(scraped.report.series_added, 10);
    assert_eq!(run.origin.parser.in_lines().to_string(), r#"{zone="z"}"#);
    run.round(mixed, false);
    run.check();
}

#[test]
fn series_without_common_labels_that_are_replaced_leave_nothing_behind_either() {
    let mut run = Run::new();
    let plain = |from: usize| -> Page {
        (from..from + 90)
            .map(|at| (format!("m{at}{{id=\"{at}\"}}"), 1.0))
            .collect()
    };
    run.round(plain(0), false);
    run.round(plain(20), false);
    assert_eq!(run.origin.parser.schema().len(), 5 + 110, "most stayed");
    run.round(plain(200), false);
    assert_eq!(run.origin.parser.schema().len(), 5 + 90);
    run.check();
}

/// An address behind which two programs alternate must not begin a schema with every response.
#[test]
fn pages_that_take_turns_come_to_share_a_schema() {
    let mut run = Run::new();
    let mut schemas = HashSet::new();
    for round in 0..200 {
        let pod = ["a", "b"][round % 2];
        run.round(page(pod, 0..90, 1.0), false);
        schemas.insert(run.origin.parser.schema().lineage());
    }
    assert!(
        schemas.len() < 10,
        "{} schemas for 200 rounds",
        schemas.len()
    );
    run.check();
}

#[test]
fn whatever_the_pages_every_series_has_its_labels_and_its_end() {
    for seed in 0..scaled(60) {
        let mut rng = SplitMix64::new(seed);
        let mut run = Run::new();
        for round in 0..40 {
            let pod = if rng.one_in(4) {
                *rng.pick(&["b", "c"])
            } else {
                "a"
            };
            let series = rng.pick(&[0..90, 0..90, 30..120, 0..20]).clone();
            let mut page = page(pod, series, f64::from(round));
            match rng.below(8) {
                0 => drop(page.insert("m_bare{}".to_owned(), 1.0)),
                1 => page.extend(self::page("c", 0..40, 7.0)),
                _ => {}
            }
            run.round(page, rng.one_in(12));
        }
        run.check();
    }
}
