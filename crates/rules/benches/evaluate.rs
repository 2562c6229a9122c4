//! Cost of evaluating rules over the storage engine, from the first evaluation on.
//!
//! `cargo bench -p narthex-rules --bench evaluate [-- groups=500 targets=100 rounds=12 counted]`. Targets are scraped and
//! groups of 20 rules evaluated every 15 s, each at a time of its own, in one thread and as fast as it goes; the database
//! has nothing before. The first table has the durations of rules by round, the second by rule: when its results begin, and
//! in the last third of the rounds. With `counted` nothing is printed but the number of evaluations: what two such runs with
//! other `rounds` differ by in callgrind's instructions is what those rounds cost.

use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    metadata::Family,
    storage::{Binding, Budget, Sink, Store},
};
use narthex_promql::{Engine, EngineOptions};
use narthex_rules::{EvalOptions, OfflineGroups, ParseOptions, RuleSet, parse};
use narthex_testkit::{TempDir, exposition::Line, fleet, rng::SplitMix64};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

const INTERVAL_MS: i64 = 15_000;
const START_MS: i64 = 1_767_225_600_000;
/// Series of a target, as in `narthex-bench rules`.
const SERIES: usize = 588;
/// Labels that all series of a target share, at the beginning of each line.
const COMMON: usize = 5;
const FILE: &str = "rules.yml";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: usize| {
        let found = arguments.iter().find_map(|arg| arg.strip_prefix(name));
        found.map_or(default, |text| text.parse().expect("a number"))
    };
    let mut bench = Bench::new(number("groups=", 500), number("targets=", 100));
    let rounds = number("rounds=", 12);
    let mut seen = Seen::default();
    for _ in 0..rounds {
        bench.round(&mut seen);
    }
    let mut out = std::io::stdout();
    let text = if arguments.iter().any(|arg| arg == "counted") {
        format!("{} evaluations\n", seen.0.len())
    } else {
        seen.report(rounds)
    };
    out.write_all(text.as_bytes())
        .expect("standard output is writable");
}

/// What was measured: round, name of the rule without its group, duration.
#[derive(Default)]
struct Seen(Vec<(usize, String, Duration)>);

impl Seen {
    fn report(&self, rounds: usize) -> String {
        let mut out = "| round | mean, µs | p50 | p99 |\n|---|---|---|---|\n".to_owned();
        let mut row = |name: &str, of: &dyn Fn(usize) -> bool| {
            let seen = self.0.iter().filter(|one| of(one.0));
            let figures = figures(seen.map(|one| one.2).collect());
            let [mean, p50, p99] = figures;
            // Writing to a text does not fail.
            let _ = writeln!(out, "| {name} | {mean:.1} | {p50:.1} | {p99:.1} |");
        };
        for round in 0..rounds.min(4) {
            row(&(round + 1).to_string(), &|of| of == round);
        }
        let steady = rounds - rounds / 3;
        row("last third", &|of| of >= steady);
        row("all", &|_| true);
        out.push_str("\n| rule | first, mean | p50 | p99 | second, mean | p50 | p99 | last third, mean | p50 | p99 |\n|---|---|---|---|---|---|---|---|---|---|\n");
        let mut of_rule: BTreeMap<&str, [Vec<Duration>; 3]> = BTreeMap::new();
        for (round, name, duration) in &self.0 {
            let of_rule = of_rule.entry(name).or_default();
            match *round {
                0 => of_rule[0].push(*duration),
                1 => of_rule[1].push(*duration),
                round if round >= steady => of_rule[2].push(*duration),
                _ => {}
            }
        }
        for (name, seen) in of_rule {
            let _ = write!(out, "| {name} |");
            for durations in seen {
                let [mean, p50, p99] = figures(durations);
                let _ = write!(out, " {mean:.1} | {p50:.1} | {p99:.1} |");
            }
            out.push('\n');
        }
        out
    }
}

/// Returns mean, median and 99th percentile in microseconds.
fn figures(mut durations: Vec<Duration>) -> [f64; 3] {
    durations.sort();
    let us = |duration: Option<&Duration>| duration.map_or(f64::NAN, |d| d.as_secs_f64() * 1e6);
    let sum: Duration = durations.iter().sum();
    [
        us(Some(&sum)) / durations.len().max(1) as f64,
        us(durations.get(durations.len() / 2)),
        us(durations.get(durations.len() * 99 / 100)),
    ]
}

struct Target {
    schema: Schema,
    frame: Frame,
    values: Vec<f64>,
    binding: Box<dyn Binding>,
}

/// What is due at a time within the interval.
#[derive(Clone, Copy)]
enum Due {
    Scrape(usize),
    Group(usize),
}

struct Bench {
    db: Db,
    clock: ManualClock,
    now_ms: Arc<AtomicI64>,
    random: SplitMix64,
    targets: Vec<Target>,
    groups: OfflineGroups,
    /// In order of time, which is in milliseconds.
    due: Vec<(i64, Due)>,
    round: i64,
    _dir: TempDir,
}

impl Bench {
    fn new(groups: usize, targets: usize) -> Self {
        let dir = TempDir::new("bench-evaluate");
        let clock = ManualClock::new(START_MS);
        let options = DbOptions::new(dir.join("data"));
        let db = Db::open(Arc::new(RealIo), options, Arc::new(clock.clone())).expect("a database");
        let mut random = SplitMix64::new(42);
        let mut due: Vec<(i64, Due)> = Vec::new();
        let mut place = |due_then: Due| {
            due.push((random.below(INTERVAL_MS as u64) as i64, due_then));
        };
        (0..targets).for_each(|at| place(Due::Scrape(at)));
        (0..groups).for_each(|at| place(Due::Group(at)));
        due.sort_by_key(|(time_ms, _)| *time_ms);
        let now_ms = Arc::new(AtomicI64::new(START_MS));
        let clock_of_rules = Arc::clone(&now_ms);
        let options = EvalOptions {
            engine: Engine::new(EngineOptions::default()),
            queries: Budget::unlimited(),
            state: Budget::unlimited(),
            timeout: Duration::from_secs(60),
            now_ms: Arc::new(move || clock_of_rules.load(Ordering::Relaxed)),
            alerts: None,
            outage_tolerance: Duration::from_secs(3600),
            grace_period: Duration::from_secs(600),
            resend_delay: Duration::from_secs(60),
        };
        let group = |at| fleet::rule_group(at, SERIES, INTERVAL_MS.unsigned_abs());
        let text: String = (0..groups).map(group).collect();
        let parsed = parse(&format!("groups:\n{text}"), ParseOptions::default());
        let rules = RuleSet {
            files: vec![(FILE.to_owned(), parsed.expect("valid rules"))],
            interval: Duration::from_millis(INTERVAL_MS as u64),
            ..RuleSet::default()
        };
        let (store, sink): (Arc<dyn Store>, Arc<dyn Sink>) =
            (Arc::new(db.clone()), Arc::new(db.clone()));
        Self {
            targets: (0..targets).map(|at| Target::new(&db, at)).collect(),
            groups: OfflineGroups::new(options, store, sink, &rules, false),
            db,
            clock,
            now_ms,
            random,
            due,
            round: 0,
            _dir: dir,
        }
    }

    fn round(&mut self, seen: &mut Seen) {
        let begin_ms = START_MS + self.round * INTERVAL_MS;
        let mut maintained_ms = begin_ms;
        for (offset_ms, due) in self.due.clone() {
            let now_ms = begin_ms + offset_ms;
            self.clock.set(now_ms);
            self.now_ms.store(now_ms, Ordering::Relaxed);
            if now_ms >= maintained_ms + 1000 {
                maintained_ms = now_ms;
                self.db.maintain(now_ms).expect("maintained");
            }
            match due {
                Due::Scrape(at) => self.targets[at].scrape(now_ms, &mut self.random),
                Due::Group(at) => self.evaluate(at, now_ms, seen),
            }
        }
        self.round += 1;
    }

    fn evaluate(&self, at: usize, now_ms: i64, seen: &mut Seen) {
        let name = format!("group_{at:05}");
        self.groups.evaluate(FILE, &name, now_ms);
        for (rule, duration) in self.groups.durations(FILE, &name) {
            let rule = rule.strip_prefix(&*name).unwrap_or(&rule).to_owned();
            seen.0.push((self.round as usize, rule, duration));
        }
    }
}

impl Target {
    fn new(db: &Db, at: usize) -> Self {
        let schema = schema(at);
        Self {
            frame: Frame::new(schema.clone(), START_MS),
            values: vec![0.0; schema.len()],
            binding: db.bind(&schema).expect("a binding"),
            schema,
        }
    }

    fn scrape(&mut self, now_ms: i64, random: &mut SplitMix64) {
        let own = self.values.len() - 1;
        for value in &mut self.values[..own] {
            *value += random.below(16) as f64;
        }
        self.values[own] = 1.0;
        self.frame.restart(&self.schema, now_ms);
        for (column, value) in (0..).zip(&self.values) {
            self.frame.set(ColumnId(column), *value);
        }
        self.binding.append(&self.frame).expect("appended");
    }
}

/// Returns the 588 series of a microservice and `up`.
fn schema(at: usize) -> Schema {
    let target = fleet::Target::service(at, 0, SERIES);
    let lines = target.prefixes().iter().map(|prefix| {
        // Comments are before the line.
        format!("{}0", prefix.lines().last().unwrap_or_default())
    });
    let lines: Vec<String> = lines.collect();
    let lines = || lines.iter().map(|line| Line::parse(line).expect("a line"));
    let instance = format!("127.0.{}.1:9{:03}", at / 250, at % 250);
    let mut common = vec![("job", "fleet"), ("instance", &*instance)];
    let first = lines().next().expect("there are lines");
    let shared = first.labels.iter().take(COMMON);
    common.extend(shared.map(|label| (label.name, label.value)));
    let mut edit = Schema::new(LabelSet::new(common)).edit();
    let mut add = |name: &str, labels: &[(&str, &str)]| {
        let family = edit.family(Family {
            name: name.into(),
            ..Family::default()
        });
        let name = [(METRIC_NAME, name)];
        edit.push(&LabelSet::new(name.iter().chain(labels).copied()), family);
    };
    for line in lines() {
        let own = line.labels.iter().skip(COMMON);
        let own: Vec<_> = own.map(|label| (label.name, label.value)).collect();
        add(line.name, &own);
    }
    add("up", &[]);
    edit.finish()
}
