//! Cost of queries over a fleet whose targets are replaced, beside the same fleet without replacements.
//!
//! `cargo bench -p narthex-tsdb --bench query [-- targets=850 replacements=6 rounds=18 repeat=21 helpers=0 only=up plain]`.
//! Six tenths of the targets are replaced every `rounds` rounds of 5 s: each old series ends with a staleness marker,
//! each new target has a label that none had before. `plain` leaves the fleet without replacements. Times are this
//! thread's CPU time but for `elapsed`, where up to `helpers` threads help, medians of `repeat` runs; phases are timed in runs of their own. `select` resolves and merges, `rest` is kernels, folding and the
//! result. With `counted` queries are only asked, `repeat` times, without a look at a clock: what two such runs differ by in
//! callgrind's instructions are those of the queries. The digest covers labels and bits of the result in its order, so that two builds can be compared.

use narthex_model::{
    ColumnId, Frame, LabelHash, LabelSet, METRIC_NAME, Schema,
    metadata::Family,
    storage::{
        Batch, Binding, Cardinality, Context, Estimate, Grouping, Helpers, LastCell, Layout,
        Listing, Prepared, Selector, SeriesQuery, Sink, StorageError, Store, Tile, TimeRange, View,
    },
};
use narthex_promql::{Engine, EngineOptions, Value};
use narthex_testkit::{TempDir, rng::SplitMix64};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::{
    borrow::Cow,
    fmt::Write as _,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const STEP_MS: i64 = 5_000;
const START_MS: i64 = 1_767_225_600_000;
const SERVICES: usize = 40;
/// Columns of a target: counters, gauges, and what a scrape reports of itself.
const COUNTERS: usize = 300;
const GAUGES: usize = 283;
const OWN: [&str; 5] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];
const SERIES: usize = COUNTERS + GAUGES + OWN.len();

/// Name, expression, steps of 15 s up to the newest round.
const QUERIES: [(&str, &str, i64); 12] = [
    ("one and one", "1+1", 1),
    ("up", "up", 1),
    ("count of up", "count(up)", 1),
    ("scrape duration", "scrape_duration_seconds", 1),
    ("up, range", "up", 40),
    ("count of up, range", "count(up)", 40),
    ("one target's gauge", "queue_5{pod=\"pod-7-0\"}", 40),
    (
        "rate of a service",
        "sum(rate(requests_total{service=\"svc-007\"}[1m]))",
        40,
    ),
    (
        "rate by service",
        "sum by (service) (rate(requests_total[2m]))",
        40,
    ),
    (
        "largest by service",
        "max by (service) (max_over_time(queue_7[2m]))",
        40,
    ),
    (
        "average by service",
        "avg by (service) (requests_total)",
        40,
    ),
    ("everything", "count({__name__=~\".+\"})", 1),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: usize| {
        let value = arguments.iter().find_map(|arg| arg.strip_prefix(name));
        value.map_or(default, |value| value.parse().expect("a number"))
    };
    let only = arguments.iter().find_map(|arg| arg.strip_prefix("only="));
    let shape = Shape {
        targets: number("targets=", 850),
        replacements: number("replacements=", 6),
        rounds: number("rounds=", 18),
    };
    let asking = Asking {
        repeat: number("repeat=", 21),
        helpers: number("helpers=", 0),
        only,
        counted: arguments.iter().any(|arg| arg == "counted"),
    };
    if !arguments.iter().any(|arg| arg == "churned") {
        print(&measure("plain", &shape, false, &asking));
    }
    if !arguments.iter().any(|arg| arg == "plain") {
        print(&measure("churned", &shape, true, &asking));
    }
}

/// How queries are asked.
struct Asking<'a> {
    repeat: usize,
    helpers: usize,
    only: Option<&'a str>,
    /// Whether nothing is timed.
    counted: bool,
}

fn print(text: &str) {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .expect("standard output is writable");
    out.flush().expect("standard output is writable");
}

struct Shape {
    targets: usize,
    replacements: usize,
    /// Rounds between replacements.
    rounds: usize,
}

struct Target {
    schema: Schema,
    frame: Frame,
    values: Vec<f64>,
    binding: Box<dyn Binding>,
}

/// A fleet that writes into a database.
struct Fleet {
    db: Db,
    clock: ManualClock,
    now_ms: i64,
    random: SplitMix64,
    targets: Vec<Target>,
    _dir: TempDir,
}

impl Fleet {
    fn new(targets: usize) -> Self {
        let dir = TempDir::new("bench-query");
        let clock = ManualClock::new(START_MS);
        let options = DbOptions::new(dir.join("data"));
        let db = Db::open(Arc::new(RealIo), options, Arc::new(clock.clone())).expect("a database");
        let mut fleet = Self {
            db,
            clock,
            now_ms: START_MS,
            random: SplitMix64::new(42),
            targets: Vec::new(),
            _dir: dir,
        };
        fleet.targets = (0..targets).map(|at| fleet.target(at, 0)).collect();
        fleet
    }

    /// Returns the `life`th target in a place.
    fn target(&self, at: usize, life: usize) -> Target {
        let (pod, service) = (
            format!("pod-{at}-{life}"),
            format!("svc-{:03}", at % SERVICES),
        );
        let (instance, node) = (
            format!("10.{life}.{}.{}:9100", at / 250, at % 250),
            format!("node-{}", at % 100),
        );
        let common = LabelSet::new([
            ("job", "fleet"),
            ("instance", instance.as_str()),
            ("pod", pod.as_str()),
            ("service", service.as_str()),
            ("node", node.as_str()),
            ("zone", "eu-1"),
        ]);
        let schema = schema(&common);
        Target {
            frame: Frame::new(schema.clone(), self.now_ms),
            values: vec![0.0; SERIES],
            binding: self.db.bind(&schema).expect("a binding"),
            schema,
        }
    }

    fn round(&mut self) {
        self.now_ms += STEP_MS;
        self.clock.set(self.now_ms);
        for (at, target) in self.targets.iter_mut().enumerate() {
            for (column, value) in target.values.iter_mut().enumerate() {
                match column {
                    0..COUNTERS => *value += self.random.below(16) as f64,
                    _ => *value = self.random.below(100_000) as f64 / 1000.0,
                }
            }
            target.values[COUNTERS + GAUGES] = 1.0;
            let time_ms = self.now_ms - STEP_MS + 1 + (at % 50) as i64 * 97;
            target.frame.restart(&target.schema, time_ms);
            let (cells, present) = target.frame.cells_mut();
            cells.copy_from_slice(&target.values);
            present.fill();
            target.binding.append(&target.frame).expect("appended");
        }
        for second in 0..STEP_MS / 1000 {
            self.db
                .maintain(self.now_ms + second * 1000)
                .expect("maintained");
        }
    }

    /// Replaces six tenths of the targets.
    fn replace(&mut self, life: usize) {
        for at in 0..self.targets.len() {
            if self.random.below(10) >= 6 {
                continue;
            }
            let next = self.target(at, life);
            let mut old = std::mem::replace(&mut self.targets[at], next);
            old.frame.restart(&old.schema, self.now_ms);
            (0..SERIES as u32).for_each(|column| old.frame.mark_stale(ColumnId(column)));
            old.binding.append(&old.frame).expect("appended");
        }
    }
}

fn schema(common: &LabelSet) -> Schema {
    let mut edit = Schema::new(common.clone()).edit();
    let mut add = |name: &str, set: &LabelSet| {
        let family = edit.family(Family {
            name: name.into(),
            ..Family::default()
        });
        edit.push(set, family);
    };
    for column in 0..COUNTERS {
        let (path, code) = (format!("/api/v1/{}", column / 5), format!("{}", column % 5));
        let labels = [
            (METRIC_NAME, "requests_total"),
            ("path", &path),
            ("code", &code),
        ];
        add("requests_total", &LabelSet::new(labels));
    }
    for column in 0..GAUGES {
        let name = format!("queue_{}", column % 40);
        let lane = format!("{}", column / 40);
        let labels = [(METRIC_NAME, name.as_str()), ("lane", &lane)];
        add(&name, &LabelSet::new(labels));
    }
    for name in OWN {
        add(name, &LabelSet::new([(METRIC_NAME, name)]));
    }
    edit.finish()
}

fn measure(name: &str, shape: &Shape, churned: bool, asking: &Asking<'_>) -> String {
    let started = Instant::now();
    let mut fleet = Fleet::new(shape.targets);
    for life in 1..=shape.replacements + 1 {
        for _ in 0..shape.rounds {
            fleet.round();
        }
        if churned && life <= shape.replacements {
            fleet.replace(life);
        }
    }
    let mut out = format!(
        "{name}: {} targets of {SERIES} series, {} rounds, made in {:.1} s\n\n| query | elapsed | ms | view | select | read | rest | batches | series | samples | digest |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
        shape.targets,
        shape.rounds * (shape.replacements + 1),
        started.elapsed().as_secs_f64(),
    );
    let timed = Timed {
        inner: &fleet.db,
        phases: Arc::default(),
    };
    for (name, text, steps) in QUERIES {
        if asking.only.is_none_or(|only| only == name) {
            out.push_str(&run(&timed, name, text, steps, fleet.now_ms, asking));
        }
    }
    out.push('\n');
    out
}

fn run(
    store: &Timed<'_>,
    name: &str,
    text: &str,
    steps: i64,
    now_ms: i64,
    asking: &Asking<'_>,
) -> String {
    let engine = Engine::new(EngineOptions {
        max_samples: 1 << 40,
        ..EngineOptions::default()
    });
    let helped = engine
        .clone()
        .with_helpers(Helpers::new(asking.helpers, || ()));
    let ctx = Context::unlimited();
    let ask_once = |engine: &Engine, store: &dyn Store| {
        if steps == 1 {
            engine.instant(store, text, now_ms, &ctx)
        } else {
            let from_ms = now_ms - (steps - 1) * 15_000;
            engine.range(store, text, from_ms, now_ms, 15_000, &ctx)
        }
    };
    if asking.counted {
        for _ in 0..asking.repeat {
            ask_once(&engine, store.inner).expect("the query is valid");
        }
        return format!("| {name} | asked {} times |\n", asking.repeat);
    }
    let ask = |engine: &Engine, store: &dyn Store| {
        let (wall, started) = (Instant::now(), cpu());
        let result = ask_once(engine, store);
        let total = nanos(cpu() - started);
        let elapsed = nanos(wall.elapsed());
        (elapsed, total, result.expect("the query is valid"))
    };
    let mut runs: Vec<[u64; 6]> = Vec::new();
    let mut last = None;
    let mut budget = Duration::from_secs(20);
    for _ in 0..asking.repeat {
        let wall = Instant::now();
        // Timing the phases costs time: the whole is measured without.
        let (elapsed, ..) = ask(&helped, store.inner);
        let (_, total, _) = ask(&engine, store.inner);
        store.phases.reset();
        let (_, timed, result) = ask(&engine, store);
        let [view, select, read] = store.phases.get();
        let rest = timed.saturating_sub(view + select + read);
        runs.push([elapsed, total, view, select, read, rest]);
        last = Some(result);
        budget = budget.saturating_sub(wall.elapsed());
        if budget.is_zero() {
            break;
        }
    }
    let median = |at: usize| {
        let mut all: Vec<u64> = runs.iter().map(|run| run[at]).collect();
        all.sort_unstable();
        all[all.len() / 2] as f64 / 1e6
    };
    let result = last.expect("at least one run");
    let (series, digest) = digest(&result.value);
    let mut line = format!("| {name}");
    for at in 0..6 {
        write!(line, " | {:.2}", median(at)).expect("a string takes all");
    }
    let batches = store.phases.batches.load(Ordering::Relaxed);
    let samples = result.stats.samples_read;
    format!("{line} | {batches} | {series} | {samples} | {digest:016x} |\n")
}

/// Returns the number of series of a result, and a hash of its labels and values in their order.
fn digest(value: &Value) -> (usize, u64) {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let text = format!("{value:?}");
    add(text.as_bytes());
    let series = match value {
        Value::Vector(all) => all.len(),
        Value::Matrix(all) => all.len(),
        _ => 1,
    };
    (series, hash)
}

/// Returns this thread's CPU time: other work on the machine does not count.
fn cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec as u32)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU nanoseconds by phase.
#[derive(Default)]
struct Phases {
    view: AtomicU64,
    select: AtomicU64,
    read: AtomicU64,
    batches: AtomicU64,
}

impl Phases {
    fn reset(&self) {
        let all = [&self.view, &self.select, &self.read, &self.batches];
        all.iter()
            .for_each(|phase| phase.store(0, Ordering::Relaxed));
    }

    fn get(&self) -> [u64; 3] {
        [&self.view, &self.select, &self.read].map(|phase| phase.load(Ordering::Relaxed))
    }
}

fn time<T>(phase: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let started = cpu();
    let result = work();
    phase.fetch_add(nanos(cpu() - started), Ordering::Relaxed);
    result
}

/// A database that times what is asked of it.
struct Timed<'d> {
    inner: &'d Db,
    phases: Arc<Phases>,
}

impl Store for Timed<'_> {
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        let inner = time(&self.phases.view, || self.inner.view(range))?;
        let phases = Arc::clone(&self.phases);
        Ok(Arc::new(TimedView { inner, phases }))
    }

    fn time_range(&self) -> Option<TimeRange> {
        self.inner.time_range()
    }
}

struct TimedView {
    inner: Arc<dyn View>,
    phases: Arc<Phases>,
}

impl View for TimedView {
    fn prepare(
        &self,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        let inner = time(&self.phases.select, || self.inner.prepare(selectors, ctx))?;
        let phases = Arc::clone(&self.phases);
        Ok(Box::new(TimedPrepared { inner, phases }))
    }

    fn label_names(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.inner.label_names(query, ctx)
    }

    fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.inner.label_values(name, query, ctx)
    }

    fn series(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<LabelSet>, StorageError> {
        self.inner.series(query, ctx)
    }

    fn cardinality(&self, limit: usize, ctx: &Context) -> Result<Cardinality, StorageError> {
        self.inner.cardinality(limit, ctx)
    }

    fn metadata(&self, metric: Option<&str>, ctx: &Context) -> Result<Vec<Family>, StorageError> {
        self.inner.metadata(metric, ctx)
    }
}

struct TimedPrepared {
    inner: Box<dyn Prepared>,
    phases: Arc<Phases>,
}

impl Prepared for TimedPrepared {
    fn estimate(&self) -> Estimate {
        self.inner.estimate()
    }

    fn batches(&self, selector: usize, ctx: &Context) -> Result<Vec<Arc<dyn Batch>>, StorageError> {
        let all = time(&self.phases.select, || self.inner.batches(selector, ctx))?;
        self.phases
            .batches
            .fetch_add(all.len() as u64, Ordering::Relaxed);
        let timed = |inner| {
            let phases = Arc::clone(&self.phases);
            Arc::new(TimedBatch { inner, phases }) as Arc<dyn Batch>
        };
        Ok(all.into_iter().map(timed).collect())
    }
}

struct TimedBatch {
    inner: Arc<dyn Batch>,
    phases: Arc<Phases>,
}

impl Batch for TimedBatch {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn labels(&self, series: usize) -> LabelSet {
        self.inner.labels(series)
    }

    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        self.inner.label(series, name)
    }

    fn identity(&self, series: usize) -> LabelHash {
        self.inner.identity(series)
    }

    fn group_key(&self, series: usize, grouping: &Grouping) -> LabelHash {
        self.inner.group_key(series, grouping)
    }

    fn common(&self) -> Option<&LabelSet> {
        self.inner.common()
    }

    fn time_range(&self) -> TimeRange {
        self.inner.time_range()
    }

    fn rows(&self, range: TimeRange) -> usize {
        self.inner.rows(range)
    }

    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        time(&self.phases.read, || {
            self.inner.read(series, range, layout, tile, ctx)
        })
    }

    fn has_ended(&self, range: TimeRange) -> bool {
        self.inner.has_ended(range)
    }

    fn last(
        &self,
        series: &[u32],
        range: TimeRange,
        out: &mut Vec<Option<LastCell>>,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        time(&self.phases.read, || {
            self.inner.last(series, range, out, ctx)
        })
    }
}
