//! The manager in compressed time: slots, missed evaluations, failures.

use narthex_client::Registry;
use narthex_model::{
    LabelSet, Matcher, MemStore,
    conformance::dump,
    storage::{Budget, SeriesSample, Sink as _, Store, TimeRange},
};
use narthex_net::axum::{
    body::{Body, HttpBody as _, to_bytes},
    response::Response,
};
use narthex_promql::{Engine, EngineOptions};
use narthex_rules::{
    Alert, AlertSink, EvalOptions, Manager, ParseOptions, RouteLimits, RuleSet, parse,
    register_metrics, routes,
};
use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{runtime::Handle, time::Instant};

const BEGIN_MS: i64 = 1_767_225_600_000;

/// Takes alerts, and does with the first ones what a test says.
#[derive(Default)]
struct Sink {
    calls: AtomicUsize,
    /// How long a call takes on the clock.
    takes_ms: i64,
    panics: bool,
    /// Time that calls took so far.
    taken_ms: AtomicI64,
}

impl AlertSink for Sink {
    fn send(&self, _: Vec<Alert>) {
        if self.calls.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        self.taken_ms.fetch_add(self.takes_ms, Ordering::Relaxed);
        assert!(!self.panics, "a sink that breaks its promise");
    }
}

struct Server {
    manager: Arc<Manager>,
    store: MemStore,
}

impl Server {
    /// Starts groups of `rules` in a runtime whose time stands still; `state` is their memory.
    fn start(file: &str, rules: &str, sink: Sink, state: Budget) -> Self {
        Self::start_within(Duration::from_mins(2), file, rules, sink, state)
    }

    /// As `start`, with a timeout of each rule in real time.
    fn start_within(timeout: Duration, file: &str, rules: &str, sink: Sink, state: Budget) -> Self {
        let (store, sink) = (MemStore::new(), Arc::new(sink));
        let (begin, clock) = (Instant::now(), Arc::clone(&sink));
        let now_ms = move || {
            let passed_ms = begin.elapsed().as_millis() as i64;
            BEGIN_MS + passed_ms + clock.taken_ms.load(Ordering::Relaxed)
        };
        let options = EvalOptions {
            engine: Engine::new(EngineOptions::default()),
            queries: Budget::unlimited(),
            state,
            timeout,
            now_ms: Arc::new(now_ms),
            alerts: Some(sink),
            outage_tolerance: Duration::from_hours(1),
            grace_period: Duration::from_mins(10),
            resend_delay: Duration::from_mins(1),
        };
        let manager = Manager::new(options, Handle::current());
        let rules = RuleSet {
            files: vec![(
                file.to_owned(),
                parse(rules, ParseOptions::default()).unwrap(),
            )],
            interval: Duration::from_secs(10),
            ..RuleSet::default()
        };
        manager.apply(&rules);
        manager.open(Arc::new(store.clone()), Arc::new(store.clone()));
        Self { manager, store }
    }

    fn times(&self, name: &str) -> Vec<i64> {
        let range = TimeRange::new(0, i64::MAX / 2);
        let all = dump(&self.store, &[Matcher::equal("__name__", name)], range);
        let samples = all.into_values().flatten();
        samples.map(|(time_ms, ..)| time_ms).collect()
    }

    /// Waits until the series has `count` samples.
    async fn wait(&self, name: &str, count: usize) -> Vec<i64> {
        loop {
            let times = self.times(name);
            if times.len() >= count {
                return times;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Asks for a list that takes its memory from `memory`.
    async fn ask(&self, path: &str, memory: Budget) -> Response {
        use tower_service::Service as _;
        let limits = RouteLimits {
            memory,
            wait: Duration::from_mins(1),
        };
        let mut router = routes(Arc::clone(&self.manager), limits);
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        router.call(request).await.unwrap()
    }

    async fn shown(&self) -> String {
        let response = self.ask("/api/v1/rules", Budget::unlimited()).await;
        let body = to_bytes(response.into_body(), usize::MAX);
        String::from_utf8(body.await.unwrap().to_vec()).unwrap()
    }
}

fn metrics() -> String {
    let registry = Registry::new();
    register_metrics(&registry).unwrap();
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    String::from_utf8(text).unwrap()
}

const RULES: &str =
    "groups: [{name: g, rules: [{alert: A, expr: vector(1)}, {record: after, expr: 1}]}]";

#[tokio::test(start_paused = true)]
async fn evaluations_that_were_missed_are_left_out_and_counted() {
    let slow = Sink {
        takes_ms: 25_000,
        ..Sink::default()
    };
    let server = Server::start("slow.yml", RULES, slow, Budget::unlimited());
    let times = server.wait("after", 4).await;
    let steps: Vec<i64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(steps, [20_000, 10_000, 10_000], "{times:?}");
    assert!(times[0] > BEGIN_MS && times[0] <= BEGIN_MS + 10_000);
    let text = metrics();
    for line in [
        "prometheus_rule_group_iterations_missed_total{rule_group=\"slow.yml;g\"} 1\n",
        "prometheus_rule_group_iterations_total{rule_group=\"slow.yml;g\"} 5\n",
        "prometheus_rule_evaluations_total{rule_group=\"slow.yml;g\"} 8\n",
        "prometheus_rule_group_interval_seconds{rule_group=\"slow.yml;g\"} 10\n",
        "prometheus_rule_group_rules{rule_group=\"slow.yml;g\"} 2\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    server.manager.apply(&RuleSet::default());
    assert!(!metrics().contains("slow.yml;g"), "{}", metrics());
    server.manager.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_evaluation_of_one_rule() {
    let broken = Sink {
        panics: true,
        ..Sink::default()
    };
    let server = Server::start("broken.yml", RULES, broken, Budget::unlimited());
    let times = server.wait("after", 1).await;
    let shown = server.shown().await;
    assert!(shown.contains("a sink that breaks its promise"), "{shown}");
    assert!(shown.contains("\"health\":\"ok\""), "{shown}");
    let later = server.wait("after", 2).await;
    assert_eq!(later[1] - times[0], 10_000);
    let shown = server.shown().await;
    assert!(!shown.contains("\"health\":\"err\""), "{shown}");
    server.manager.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_beyond_the_memory_there_is_fails_alone() {
    let rules = "groups: [{name: g, rules: [{record: one, expr: 1}, {record: two, expr: 2}, {record: three, expr: one}]}]";
    let little = Budget::new("results of rules", 600);
    let server = Server::start("wide.yml", rules, Sink::default(), little);
    server.wait("one", 2).await;
    let shown = server.shown().await;
    assert!(
        shown.contains("memory budget of results of rules exceeded"),
        "{shown}"
    );
    assert!(server.times("two").is_empty());
    server.manager.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_query_without_end_times_out_alone() {
    let rules = "groups: [{name: g, rules: [{record: endless, expr: 'sum(count_over_time(vector(1)[6000000s:1s]))'}, {record: after, expr: 1}]}]";
    let timeout = Duration::from_millis(50);
    let sink = Sink::default();
    let server = Server::start_within(timeout, "endless.yml", rules, sink, Budget::unlimited());
    server.wait("after", 1).await;
    let shown = server.shown().await;
    let error = "query timed out in expression evaluation";
    assert!(shown.contains(error), "{shown}");
    assert!(server.times("endless").is_empty());
    server.manager.stop().await;
}

/// Holds up an evaluation of the alert `A` until `B` was evaluated a few times.
#[derive(Default)]
struct Gate {
    of_a: AtomicUsize,
    of_b: Mutex<usize>,
    changed: Condvar,
    /// Whether the one that was held up saw the others.
    passed: AtomicBool,
}

impl AlertSink for Gate {
    fn send(&self, alerts: Vec<Alert>) {
        let is_a = alerts[0].labels.get("alertname") == Some("A");
        let mut of_b = self.of_b.lock().unwrap();
        if !is_a {
            *of_b += 1;
            self.changed.notify_all();
        } else if self.of_a.fetch_add(1, Ordering::Relaxed) == 3 {
            let enough = *of_b + 3;
            let waiting = |of_b: &mut usize| *of_b < enough;
            let limit = Duration::from_secs(20);
            let waited = self.changed.wait_timeout_while(of_b, limit, waiting);
            let passed = !waited.unwrap().1.timed_out();
            self.passed.store(passed, Ordering::Relaxed);
        }
    }
}

/// Groups that took little time are evaluated by the threads that wait for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_takes_long_for_once_holds_up_nobody() {
    let gate = Arc::new(Gate::default());
    let now_ms = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap().as_millis() as i64
    };
    let options = EvalOptions {
        engine: Engine::new(EngineOptions::default()),
        queries: Budget::unlimited(),
        state: Budget::unlimited(),
        timeout: Duration::from_mins(2),
        now_ms: Arc::new(now_ms),
        alerts: Some(Arc::clone(&gate) as Arc<dyn AlertSink>),
        outage_tolerance: Duration::ZERO,
        grace_period: Duration::ZERO,
        resend_delay: Duration::ZERO,
    };
    let rules = "groups: [{name: a, rules: [{alert: A, expr: vector(1)}]}, {name: b, rules: [{alert: B, expr: vector(1)}]}]";
    let file = parse(rules, ParseOptions::default()).unwrap();
    let manager = Manager::new(options, Handle::current());
    manager.apply(&RuleSet {
        files: vec![("short.yml".to_owned(), file)],
        interval: Duration::from_millis(20),
        ..RuleSet::default()
    });
    let store = Arc::new(MemStore::new());
    manager.open(Arc::clone(&store) as Arc<dyn Store>, store);
    while gate.of_a.load(Ordering::Relaxed) < 5 {
        tokio::task::yield_now().await;
    }
    manager.stop().await;
    assert!(gate.passed.load(Ordering::Relaxed));
}

/// The memory of a list was given back when its text was made, so that slow readers held any number of texts.
#[tokio::test(start_paused = true)]
async fn a_list_holds_its_memory_until_it_is_read() {
    const ALERTS: usize = 3000;
    let rules = "groups: [{name: g, rules: [{alert: A, expr: m > 0}, {record: after, expr: 1}]}]";
    let server = Server::start("many.yml", rules, Sink::default(), Budget::unlimited());
    let samples = (0..ALERTS).map(|at| {
        let labels = LabelSet::new([("__name__", "m"), ("at", &*at.to_string())]);
        SeriesSample::float(labels, BEGIN_MS, 1.0)
    });
    let samples: Vec<SeriesSample> = samples.collect();
    server.store.append_samples(&samples).unwrap();
    server.wait("after", 1).await;
    for path in ["/api/v1/rules", "/api/v1/alerts"] {
        let budget = Budget::new("lists", 16 << 20);
        let response = server.ask(path, budget.clone()).await;
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(piece) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            assert!(budget.used_bytes() > 0, "{path}: {} bytes read", text.len());
            let piece = piece.unwrap().into_data().unwrap();
            assert!(
                piece.len() < 100 << 10,
                "{path}: a piece of {}",
                piece.len()
            );
            text.extend_from_slice(&piece);
        }
        drop(body);
        assert_eq!(budget.used_bytes(), 0, "{path}");
        let answer: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let alerts = match &answer["data"]["groups"][0] {
            serde_json::Value::Null => &answer["data"]["alerts"],
            group => {
                assert_eq!(group["rules"][1]["name"], "after");
                assert_eq!(group["interval"], 10.0);
                &group["rules"][0]["alerts"]
            }
        };
        assert_eq!(alerts.as_array().map(Vec::len), Some(ALERTS), "{path}");
        // A client that goes away gives the memory back.
        let response = server.ask(path, budget.clone()).await;
        assert!(budget.used_bytes() > 0, "{path}");
        drop(response);
        assert_eq!(budget.used_bytes(), 0, "{path}");
        let little = Budget::new("lists", 100 << 10);
        assert_eq!(server.ask(path, little).await.status(), 422, "{path}");
    }
    server.manager.stop().await;
}
