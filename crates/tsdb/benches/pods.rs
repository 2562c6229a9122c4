//! Cost of the queries that `narthex-bench query` asks, of the same shape of data, without HTTP: for profiles and counts of instructions.
//!
//! `cargo bench -p narthex-tsdb --bench pods [-- pods=2000 rows=120 repeat=9 helpers=0 only=NAME counted]`. Pods of 50 series, a
//! sample every 30 s, all in the head. Times are this thread's CPU time, medians of `repeat` runs after two that are not counted;
//! `elapsed` is the clock's, where up to `helpers` threads help. With `counted` queries are only asked, without a look at a
//! clock: what two such runs differ by in callgrind's instructions are those of the queries. The digest covers labels and bits of
//! the answer in its order, so that two builds can be compared. `stops` prints how long queries go without asking whether to stop.

use narthex_model::{
    Frame, LabelSet, METRIC_NAME, Matcher, Schema,
    metadata::Family,
    storage::{Context, Helpers, SeriesQuery, Sink, Stop, Store, TimeRange},
};
use narthex_promql::{Engine, EngineOptions};
use narthex_testkit::{TempDir, rng::SplitMix64};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

const STEP_MS: i64 = 30_000;
const START_MS: i64 = 1_767_225_600_000;
/// Name of a family, its series, and whether it counts.
const FAMILIES: [(&str, usize, bool); 13] = [
    ("http_requests_total", 10, true),
    ("http_request_duration_seconds_bucket", 12, true),
    ("http_request_duration_seconds_sum", 1, true),
    ("http_request_duration_seconds_count", 1, true),
    ("container_cpu_usage_seconds_total", 8, true),
    ("container_memory_usage_bytes", 2, false),
    ("queue_length", 10, false),
    ("process_open_fds", 1, false),
    ("go_goroutines", 1, false),
    ("pod_info", 1, false),
    ("pod_ready", 1, false),
    ("sensor_temperature_celsius", 1, false),
    ("sensor_fan_rpm", 1, false),
];
const SERIES: usize = 50;

/// What is asked.
enum Ask {
    Instant,
    /// From this share of the rows to the last, with this step in seconds.
    Range(f64, i64),
    Values,
    Series,
}

const QUERIES: [(&str, Ask, &str); 20] = [
    (
        "rate of a service by code",
        Ask::Range(0.0, 30),
        "sum by (code) (rate(http_requests_total{service=\"svc-0003\"}[5m]))",
    ),
    (
        "memory of a pod",
        Ask::Range(0.0, 30),
        "container_memory_usage_bytes{pod=\"svc-0003-2\"}",
    ),
    (
        "error ratio of a service",
        Ask::Instant,
        "sum(rate(http_requests_total{service=\"svc-0003\",code=~\"5..\"}[5m])) / sum(rate(http_requests_total{service=\"svc-0003\"}[5m]))",
    ),
    (
        "p99 of a service",
        Ask::Range(0.5, 30),
        "histogram_quantile(0.99, sum by (le) (rate(http_request_duration_seconds_bucket{service=\"svc-0003\"}[5m])))",
    ),
    (
        "subquery of a service",
        Ask::Instant,
        "max_over_time(sum(rate(http_requests_total{service=\"svc-0003\"}[2m]))[30m:1m])",
    ),
    (
        "traffic against before",
        Ask::Instant,
        "sum by (pod) (rate(http_requests_total{service=\"svc-0003\"}[5m])) - sum by (pod) (rate(http_requests_total{service=\"svc-0003\"}[5m] offset 30m))",
    ),
    (
        "pods that are not ready",
        Ask::Instant,
        "sum by (pod) (pod_ready{namespace=\"ns-03\"} == 0)",
    ),
    (
        "sum by rate",
        Ask::Range(0.5, 60),
        "sum by (namespace) (rate(http_requests_total[5m]))",
    ),
    (
        "p90 of all services",
        Ask::Instant,
        "histogram_quantile(0.9, sum by (service, le) (rate(http_request_duration_seconds_bucket[5m])))",
    ),
    (
        "services with most errors",
        Ask::Instant,
        "topk(10, sum by (service) (rate(http_requests_total{code=~\"5..\"}[5m])))",
    ),
    (
        "longest queues",
        Ask::Instant,
        "max by (namespace) (max_over_time(queue_length[30m]))",
    ),
    (
        "CPU by version",
        Ask::Instant,
        "sum by (version) (rate(container_cpu_usage_seconds_total[5m]) * on (namespace, pod) group_left (version) pod_info)",
    ),
    ("count of everything", Ask::Instant, "count({job=\"app\"})"),
    (
        "pods by pattern",
        Ask::Instant,
        "sum by (service) (http_requests_total{pod=~\"svc-.*-1[0-9]?\",method=\"GET\"})",
    ),
    (
        "nodes by exclusion",
        Ask::Instant,
        "count by (cpu) (container_cpu_usage_seconds_total{node!~\"node-0.*\"})",
    ),
    (
        "p95 of mean queues",
        Ask::Instant,
        "quantile(0.95, avg_over_time(queue_length[10m]))",
    ),
    (
        "subquery of everything",
        Ask::Instant,
        "max_over_time(sum by (namespace) (rate(container_cpu_usage_seconds_total[5m]))[30m:5m])",
    ),
    (
        "mean latency by service",
        Ask::Range(0.5, 60),
        "sum by (service) (rate(http_request_duration_seconds_sum[5m])) / sum by (service) (rate(http_request_duration_seconds_count[5m]))",
    ),
    ("values of pod", Ask::Values, "pod"),
    ("series of pod_info", Ask::Series, "pod_info"),
];

/// What takes long, for `stops`.
const HEAVY: [(&str, Ask, &str); 8] = [
    (
        "quantiles of long windows",
        Ask::Range(0.0, 30),
        "quantile_over_time(0.9, queue_length[1h])",
    ),
    ("sorted", Ask::Instant, "sort(http_requests_total)"),
    (
        "topk at each step",
        Ask::Range(0.5, 60),
        "topk(5, http_requests_total)",
    ),
    (
        "matched",
        Ask::Range(0.5, 60),
        "http_requests_total / on (pod) group_left () pod_info",
    ),
    (
        "both",
        Ask::Instant,
        "http_requests_total and http_requests_total offset 5m",
    ),
    (
        "counted values",
        Ask::Instant,
        "count_values(\"v\", queue_length)",
    ),
    (
        "relabelled",
        Ask::Instant,
        "label_replace(http_requests_total, \"x\", \"$1\", \"pod\", \"svc-(.*)\")",
    ),
    ("everything", Ask::Instant, "{job=\"app\"}"),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| arguments.iter().find_map(|arg| arg.strip_prefix(name));
    let number = |name: &str, default: usize| {
        text(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let (rows, repeat) = (number("rows=", 120), number("repeat=", 9));
    let pods = Pods::new(number("pods=", 2_000), rows);
    let has = |name: &str| arguments.iter().any(|arg| arg == name);
    let (counted, stops) = (has("counted"), has("stops"));
    print(if stops {
        "| query | checks | between two at most, ms |\n|---|---|---|\n"
    } else {
        "| query | elapsed, ms | CPU, ms | digest |\n|---|---|---|---|\n"
    });
    let more: &[(&str, Ask, &str)] = if stops { &HEAVY } else { &[] };
    for (name, ask, query) in QUERIES.iter().chain(more) {
        if text("only=").is_some_and(|only| only != *name) {
            continue;
        }
        if stops {
            let (checks, most) = pods.stops(ask, query);
            let most = most.as_secs_f64() * 1e3;
            print(&format!("| {name} | {checks} | {most:.2} |\n"));
            continue;
        }
        let ctx = Context::unlimited();
        let run = |helpers: usize| {
            let engine = Engine::new(EngineOptions::default());
            let engine = engine.with_helpers(Helpers::new(helpers, || ()));
            let mut measured = Vec::new();
            for round in 0..repeat + 2 {
                if counted {
                    assert!(pods.is_answered(&engine, ask, query, &ctx));
                    continue;
                }
                let (wall, started) = (Instant::now(), cpu());
                assert!(pods.is_answered(&engine, ask, query, &ctx));
                if round >= 2 {
                    measured.push((wall.elapsed(), cpu() - started));
                }
            }
            measured
        };
        if counted {
            run(0);
            print(&format!("| {name} | asked {} times |\n", repeat + 2));
            continue;
        }
        let median = |mut all: Vec<Duration>| {
            all.sort_unstable();
            all[all.len() / 2].as_secs_f64() * 1e3
        };
        let helped = run(number("helpers=", 0));
        let elapsed = median(helped.iter().map(|one| one.0).collect());
        let spent = median(run(0).iter().map(|one| one.1).collect());
        let engine = Engine::new(EngineOptions::default());
        let digest = digest(&pods.answer(&engine, ask, query));
        print(&format!(
            "| {name} | {elapsed:.3} | {spent:.3} | {digest:016x} |\n"
        ));
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .expect("standard output is writable");
    out.flush().expect("standard output is writable");
}

struct Pods {
    db: Db,
    start_ms: i64,
    end_ms: i64,
    _dir: TempDir,
}

impl Pods {
    fn new(pods: usize, rows: usize) -> Self {
        let dir = TempDir::new("bench-pods");
        let clock = ManualClock::new(START_MS);
        let options = DbOptions::new(dir.join("data"));
        let db = Db::open(Arc::new(RealIo), options, Arc::new(clock.clone())).expect("a database");
        let mut random = SplitMix64::new(42);
        let mut all: Vec<_> = (0..pods)
            .map(|pod| {
                let schema = schema(pod);
                let frame = Frame::new(schema.clone(), START_MS);
                (
                    db.bind(&schema).expect("a binding"),
                    schema,
                    frame,
                    vec![0.0; SERIES],
                )
            })
            .collect();
        for row in 0..rows as i64 {
            clock.set(START_MS + (row + 1) * STEP_MS);
            for (pod, (binding, schema, frame, values)) in all.iter_mut().enumerate() {
                step(&mut random, values);
                let time_ms = START_MS + row * STEP_MS + 1 + (pod as i64 * 7_919) % (STEP_MS - 1);
                frame.restart(schema, time_ms);
                let (cells, present) = frame.cells_mut();
                cells.copy_from_slice(values);
                present.fill();
                binding.append(frame).expect("appended");
            }
        }
        let end_ms = START_MS + rows as i64 * STEP_MS;
        Self {
            db,
            start_ms: START_MS,
            end_ms,
            _dir: dir,
        }
    }

    fn listing(&self, any_of: Vec<Vec<Matcher>>) -> SeriesQuery {
        SeriesQuery {
            any_of,
            range: TimeRange::new(self.start_ms, self.end_ms),
            limit: None,
        }
    }

    /// Asks, and reports whether there was an answer.
    fn is_answered(&self, engine: &Engine, ask: &Ask, text: &str, ctx: &Context) -> bool {
        let db = &self.db;
        match ask {
            Ask::Instant => engine.instant(db, text, self.end_ms, ctx).is_ok(),
            Ask::Range(share, step_s) => {
                let (begin_ms, step_ms) = (self.begin_ms(*share), step_s * 1000);
                engine
                    .range(db, text, begin_ms, self.end_ms, step_ms, ctx)
                    .is_ok()
            }
            Ask::Values => {
                let query = self.listing(Vec::new());
                let view = db.view(query.range).expect("a view");
                view.label_values(text, &query, ctx).is_ok()
            }
            Ask::Series => {
                let query = self.listing(vec![vec![Matcher::equal(METRIC_NAME, text)]]);
                let view = db.view(query.range).expect("a view");
                view.series(&query, ctx).is_ok()
            }
        }
    }

    fn begin_ms(&self, share: f64) -> i64 {
        self.end_ms - ((self.end_ms - self.start_ms) as f64 * (1.0 - share)) as i64
    }

    /// Returns the answer as text.
    fn answer(&self, engine: &Engine, ask: &Ask, text: &str) -> String {
        let (ctx, db) = (Context::unlimited(), &self.db);
        match ask {
            Ask::Instant => {
                let result = engine.instant(db, text, self.end_ms, &ctx);
                format!("{:?}", result.expect("valid").value)
            }
            Ask::Range(share, step_s) => {
                let (begin_ms, step_ms) = (self.begin_ms(*share), step_s * 1000);
                let result = engine.range(db, text, begin_ms, self.end_ms, step_ms, &ctx);
                format!("{:?}", result.expect("valid").value)
            }
            Ask::Values => {
                let query = self.listing(Vec::new());
                let view = db.view(query.range).expect("a view");
                let found = view.label_values(text, &query, &ctx);
                format!("{:?}", found.expect("values").items)
            }
            Ask::Series => {
                let query = self.listing(vec![vec![Matcher::equal(METRIC_NAME, text)]]);
                let view = db.view(query.range).expect("a view");
                format!("{:?}", view.series(&query, &ctx).expect("series").items)
            }
        }
    }

    /// Returns how often an answer asks whether to stop, and about the most CPU time between two of these.
    fn stops(&self, ask: &Ask, text: &str) -> (u64, Duration) {
        let engine = Engine::new(EngineOptions::default());
        let with = |stop: Stop| Context {
            stop,
            ..Context::unlimited()
        };
        let counted = Stop::at_check(0);
        assert!(self.is_answered(&engine, ask, text, &with(counted.clone())));
        let checks = counted.checks();
        // The time until check number `check`, the least of a few.
        let until = |check: u64| {
            let one = |_| {
                let started = cpu();
                self.is_answered(&engine, ask, text, &with(Stop::at_check(check)));
                cpu() - started
            };
            (0..5).map(one).min().unwrap_or_default()
        };
        let mut known: Vec<(u64, Duration)> = (0..=16)
            .map(|part| 1 + (checks - 1) * part / 16)
            .map(|check| (check, until(check)))
            .collect();
        known.dedup_by_key(|one| one.0);
        // The longest pieces are divided until single checks are left.
        loop {
            let gap = |at: usize| known[at].1.saturating_sub(known[at - 1].1);
            let Some(longest) = (1..known.len()).max_by_key(|at| gap(*at)) else {
                return (checks, Duration::ZERO);
            };
            let (before, after) = (known[longest - 1].0, known[longest].0);
            if after - before == 1 {
                return (checks, gap(longest));
            }
            let middle = before + (after - before) / 2;
            known.insert(longest, (middle, until(middle)));
        }
    }
}

/// Advances a pod by one row.
fn step(random: &mut SplitMix64, values: &mut [f64]) {
    if random.one_in(400) {
        values[..32].fill(0.0);
    }
    for (at, value) in values.iter_mut().enumerate() {
        match at {
            0..10 => *value += random.below([400, 20, 30, 5, 3][at % 5]) as f64,
            10..24 => *value += random.below(1 + at as u64 - 9) as f64,
            24..32 => *value = ((*value * 1000.0).round() + random.below(30_000) as f64) / 1000.0,
            32..34 => *value = (random.below(800) << 20) as f64,
            34..44 if random.one_in(3) => *value = random.below(100) as f64,
            34..44 => {}
            46 => *value = 1.0,
            47 => *value = f64::from(u8::from(!random.one_in(100))),
            48 => *value = 45.0 + random.below(1000) as f64 / 1000.0,
            _ => *value = 100.0 + random.below(40) as f64,
        }
    }
}

fn schema(pod: usize) -> Schema {
    let service = pod / 20;
    let text = |label: &str| match label {
        "instance" => format!("10.{}.{}.{}:8080", pod >> 16, (pod >> 8) & 255, pod & 255),
        "namespace" => format!("ns-{:02}", service % 20),
        "node" => format!("node-{:03}", pod % 331),
        "pod" => format!("svc-{service:04}-{}", pod % 20),
        "service" => format!("svc-{service:04}"),
        "job" => "app".to_owned(),
        _ => "prod".to_owned(),
    };
    let names = [
        "cluster",
        "instance",
        "job",
        "namespace",
        "node",
        "pod",
        "service",
    ];
    let texts = names.map(text);
    let common = LabelSet::new(
        names
            .iter()
            .zip(&texts)
            .map(|(name, text)| (*name, text.as_str())),
    );
    let mut edit = Schema::new(common).edit();
    for (name, count, _) in FAMILIES {
        for place in 0..count {
            let family = edit.family(Family {
                name: name.into(),
                ..Family::default()
            });
            let mut labels = vec![(METRIC_NAME, name.to_owned())];
            match name {
                "http_requests_total" => {
                    labels.push((
                        "code",
                        ["200", "301", "404", "500", "503"][place % 5].to_owned(),
                    ));
                    labels.push(("method", ["GET", "POST"][place / 5].to_owned()));
                }
                "http_request_duration_seconds_bucket" => {
                    let bounds = [
                        "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5",
                        "10", "+Inf",
                    ];
                    labels.push(("le", bounds[place].to_owned()));
                }
                "container_cpu_usage_seconds_total" => {
                    labels.push(("cpu", format!("cpu{place:02}")));
                }
                "container_memory_usage_bytes" => {
                    labels.push(("container", ["app", "sidecar"][place].to_owned()));
                }
                "queue_length" => labels.push(("queue", format!("q{place}"))),
                "pod_info" => {
                    labels.push(("image", format!("registry.example/svc-{service:04}")));
                    labels.push(("version", format!("v1.{}.{}", service % 7, pod % 3)));
                }
                _ => {}
            }
            let labels = labels.iter().map(|(name, value)| (*name, value.as_str()));
            edit.push(&LabelSet::new(labels), family);
        }
    }
    edit.finish()
}

fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns this thread's CPU time: other work on the machine does not count.
fn cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec as u32)
}
