//! Costs of untrusted calls, through the routes as they are served.

mod costs;
mod kept;
mod surface;
mod threads;

use super::*;
use http::{Method, Request, StatusCode, header};
use narthex_model::{
    LabelSet, MemStore,
    storage::{Budget, SeriesSample, Sink, Store},
};
use narthex_net::axum::{
    body::{Body, to_bytes},
    response::Response,
};
use narthex_promql::{Engine, EngineOptions};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tower_service::Service;

const END_MS: i64 = 1_000_000;

struct Served {
    router: Router,
    budget: Budget,
}

/// Serves 200 series of 500 points, with one query and one other call at a time.
fn served(budget_bytes: u64) -> Served {
    served_by(budget_bytes, |_| Arc::new(process::NoStatus))
}

/// Serves the same; `status` makes what tells of the process, and sees the budget.
fn served_by(budget_bytes: u64, status: impl Fn(&Budget) -> Arc<dyn ServerStatus>) -> Served {
    served_from(budget_bytes, filled(), status)
}

/// Returns 200 series of 501 points.
fn filled() -> Arc<dyn Store> {
    let store = MemStore::new();
    for n in 0..200 {
        let labels = LabelSet::new([("__name__", "x"), ("a", "v"), ("n", &*format!("{n:03}"))]);
        let sample = |at: i64| SeriesSample::float(labels.clone(), at * 2000, 0.1);
        let samples: Vec<SeriesSample> = (0..=500).map(sample).collect();
        store.append_samples(&samples).unwrap();
    }
    Arc::new(store)
}

fn served_from(
    budget_bytes: u64,
    store: Arc<dyn Store>,
    status: impl Fn(&Budget) -> Arc<dyn ServerStatus>,
) -> Served {
    served_with(budget_bytes, store, status, |engine| engine)
}

fn served_with(
    budget_bytes: u64,
    store: Arc<dyn Store>,
    status: impl Fn(&Budget) -> Arc<dyn ServerStatus>,
    change: impl FnOnce(Engine) -> Engine,
) -> Served {
    let config = ApiConfig {
        timeout: Duration::from_secs(60),
        max_concurrency: 1,
        max_metadata_concurrency: 1,
        max_parameters: 1000,
        query_memory_bytes: budget_bytes,
        per_step_stats: true,
        search: true,
        max_search_limit: 10_000,
        build: BuildInfo::default(),
    };
    let budget = Budget::new("all queries", budget_bytes);
    let engine = Arc::new(change(Engine::new(EngineOptions::default())));
    let now_ms = Arc::new(|| END_MS);
    let api = Api::new(store, engine, config, budget.clone(), now_ms);
    let api = api.with_status(status(&budget));
    Served {
        router: routes(Arc::new(api)),
        budget,
    }
}

impl Served {
    async fn get(&self, path: &str) -> Response {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    async fn post(&self, path: &str, form: impl Into<Body>) -> Response {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form.into());
        self.send(request.unwrap()).await
    }

    async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().call(request).await.unwrap()
    }

    /// Waits until nothing is leased: long results are freed in the background.
    async fn settled(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.budget.used_bytes() > 0 {
            assert!(Instant::now() < end, "{:?}", self.budget);
            tokio::task::yield_now().await;
        }
    }
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn data(served: &Served, path: &str) -> Value {
    let response = served.get(path).await;
    let status = response.status();
    let text = text(response).await;
    assert_eq!(status, StatusCode::OK, "{path}: {text}");
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    whole["data"].take()
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

const LONG: &str = "/api/v1/query_range?query=x&start=0&end=1000&step=2";

/// A response used to release its permit and memory before it was read: clients that read a byte a second held as many
/// results as they had connections.
#[test]
fn a_slow_reader_holds_its_lease_and_its_permit() {
    run(async {
        let served = served(256 << 20);
        let unread = served.get(LONG).await;
        assert_eq!(unread.status(), StatusCode::OK);
        let points = 200 * 501 * 16;
        assert!(served.budget.used_bytes() > points, "{:?}", served.budget);
        let path = "/api/v1/query?query=1&timeout=20ms";
        let queued = served.get(path).await;
        assert_eq!(queued.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            text(queued)
                .await
                .contains("query timed out in query queue")
        );
        // Other calls have permits of their own.
        let labels = served.get("/api/v1/labels").await;
        assert_eq!(labels.status(), StatusCode::OK);
        let whole = text(unread).await;
        assert_eq!(whole.matches("\"metric\"").count(), 200);
        served.settled().await;
        assert_eq!(served.get(path).await.status(), StatusCode::OK);
        let gone = served.get(LONG).await;
        drop(gone);
        served.settled().await;
        assert_eq!(served.get(path).await.status(), StatusCode::OK);
    });
}

#[test]
fn listings_and_federation_hold_what_they_list() {
    run(async {
        let served = served(256 << 20);
        for path in ["/api/v1/series?match[]=x", "/federate?match[]=x"] {
            let answer = served.get(path).await;
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert!(text(answer).await.contains("199"), "{path}");
            served.settled().await;
        }
        // The labels alone of 200 series exceed this budget.
        let over = self::served(20_000);
        let refused = over.get("/federate?match[]=x").await;
        assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
        over.settled().await;
        let few = served.get("/api/v1/series?match[]=x&limit=2").await;
        let few = text(few).await;
        assert_eq!(few.matches("__name__").count(), 2);
        assert!(few.contains("results truncated due to limit"), "{few}");
    });
}

#[test]
fn a_label_that_doubles_forty_times_is_an_error_of_the_query() {
    run(async {
        let served = served(64 << 20);
        let query = format!(
            "{}x{{n=\"000\"}}{}",
            "label_join(".repeat(40),
            ",\"a\",\"\",\"a\",\"a\")".repeat(40)
        );
        let answer = served.post("/api/v1/query", format!("query={query}")).await;
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let answer = text(answer).await;
        assert!(
            answer.contains("more than the limit of 1048576"),
            "{answer:.300}"
        );
        served.settled().await;
    });
}

/// Hundreds of patterns of ten megabytes each were compiled on the serving threads, before any permit.
#[test]
fn a_form_of_greedy_patterns_is_refused() {
    run(async {
        let served = served(256 << 20);
        let pattern = |n: usize| format!("match[]={{a=~\"\\\\pL{{200}}{n}\"}}");
        let form: Vec<String> = (0..900).map(pattern).collect();
        let form = form.join("&");
        for path in ["/api/v1/series", "/api/v1/labels"] {
            let answer = served.post(path, form.clone()).await;
            assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "{path}");
            let answer = text(answer).await;
            assert!(
                answer.contains("the query's regular expressions"),
                "{answer:.300}"
            );
        }
        let escapes = [("{", "%7B"), ("}", "%7D"), ("\"", "%22"), ("\\", "%5C")];
        let escape = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
        let escaped = escapes.iter().fold(form, escape);
        let answer = served.get(&format!("/federate?{escaped}")).await;
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let query = (0..100).map(|n| format!("x{{a=~\"\\\\pL{{200}}{n}\"}}"));
        let query = query.collect::<Vec<_>>().join(" or ");
        for path in [
            "/api/v1/query",
            "/api/v1/format_query",
            "/api/v1/query_exemplars",
        ] {
            let answer = served.post(path, format!("query={query}")).await;
            assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        }
        served.settled().await;
    });
}

#[test]
fn forms_are_bounded_in_number_and_length_and_leased() {
    run(async {
        let served = served(256 << 20);
        let many = served.post("/api/v1/query", "a&".repeat(5 << 20)).await;
        assert_eq!(many.status(), StatusCode::BAD_REQUEST);
        assert!(text(many).await.contains("more than 1000 parameters"));
        let long = served.post("/api/v1/query", "a".repeat(11 << 20)).await;
        assert_eq!(long.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let over = self::served(8 << 20);
        let busy = over.post("/api/v1/query", "a".repeat(8 << 20)).await;
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        let (first, second) = (served.budget.used_bytes(), over.budget.used_bytes());
        assert_eq!((first, second), (0, 0));
        assert!(over.budget.peak_bytes() < 3 << 20);
    });
}

#[test]
fn trees_of_many_parts_are_leased() {
    run(async {
        let served = served(16 << 20);
        let wide = format!("query={}", "1%2B".repeat(20_000) + "1");
        let answer = served.post("/api/v1/parse_query", wide).await;
        assert!(answer.status().is_client_error(), "{}", answer.status());
        let matchers = format!("query=x{{{}}}", "a=\"b\",".repeat(20_000));
        let answer = served.post("/api/v1/parse_query", matchers).await;
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
        served.settled().await;
    });
}

/// A process whose heap dump says how much is leased while it is made.
struct Dumping(Budget);

impl ServerStatus for Dumping {
    fn config_yaml(&self) -> String {
        String::new()
    }

    fn flags(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn runtime(&self) -> RuntimeInfo {
        RuntimeInfo::default()
    }

    fn wal_replay(&self) -> WalReplay {
        WalReplay::default()
    }

    fn heap_dump(&self) -> Result<String, String> {
        Err(format!("leased {}", self.0.used_bytes()))
    }
}

/// The names in a profile take as much as the program's file has of them, and nobody counted it.
#[test]
fn profiles_lease_what_their_names_take() {
    const PROFILES: [&str; 4] = [
        "/debug/pprof/profile?seconds=1",
        "/debug/pprof/heap",
        "/debug/pprof/allocs",
        "/debug/flamegraph?heap",
    ];
    run(async {
        let needed = narthex_profile::needed_bytes();
        assert!(needed > 100_000, "{needed} bytes of names");
        let short = served(needed - 1);
        for path in PROFILES {
            let refused = short.get(path).await;
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
            assert!(text(refused).await.contains("all queries"), "{path}");
            short.settled().await;
        }
        let roomy = served_by(4 * needed, |budget| Arc::new(Dumping(budget.clone())));
        for path in &PROFILES[1..] {
            let answer = roomy.get(path).await;
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            let leased = text(answer).await;
            let leased = leased.trim().strip_prefix("leased ").map(str::parse);
            assert_eq!(leased, Some(Ok(needed)), "{path}");
            roomy.settled().await;
        }
    });
}
