//! Cost of receiving remote write, inside this process and by whole servers.
//!
//! `cargo bench -p narthex-remote --bench write [-- targets rounds order]` decompresses, decodes and stores requests of
//! 2,000 series into a database with its log, on one thread whose CPU time is measured: in scrape order, in the order
//! of eight shards, and shuffled.
//!
//! A third argument, `scrape`, `shards` or `shuffled`, runs only that order.
//!
//! `… -- send http://127.0.0.1:9090 PID targets rounds order` sends the same requests to a server and measures the CPU
//! time of its process; run it against each server in turn.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints its figures and has nobody to report errors to"
)]

use narthex_remote::{Message, Receiver};
use narthex_testkit::{
    TempDir,
    fleet::Target,
    proc::ProcFile,
    remote_write::{self, Request, Series},
    rng::SplitMix64,
};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

const STEP_MS: i64 = 15_000;
const SERIES: usize = 588;
const BATCH: usize = 2000;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let number = |at: usize, default: usize| {
        args.get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    if args.first().is_some_and(|first| first == "send") {
        let order = Order::named(args.get(5).map_or("scrape", String::as_str));
        send(&args[1], &args[2], number(3, 100), number(4, 20), order);
        return;
    }
    println!(
        "| order | series | rounds | CPU ns/sample | store alone | first sight ns/series | RSS B/series |"
    );
    println!("|---|---|---|---|---|---|---|");
    let named = args.get(2).map(|name| Order::named(name));
    for order in [Order::Scrape, Order::Shards, Order::Shuffled] {
        if named.as_ref().is_some_and(|named| *named != order) {
            continue;
        }
        inside(order, number(0, 200), number(1, 20));
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Order {
    Scrape,
    Shards,
    Shuffled,
}

impl Order {
    fn named(name: &str) -> Self {
        match name {
            "shards" => Self::Shards,
            "shuffled" => Self::Shuffled,
            _ => Self::Scrape,
        }
    }

    /// Puts a round's samples into sending order.
    fn apply(self, series: &mut Vec<Series>, rng: &mut SplitMix64) {
        match self {
            Self::Scrape => {}
            Self::Shards => {
                // Each shard keeps scrape order; requests of the shards alternate.
                let mut shards: Vec<Vec<Series>> = vec![Vec::new(); 8];
                for (at, series) in series.drain(..).enumerate() {
                    let shard = (at as u32).wrapping_mul(2_654_435_761) >> 29;
                    shards[shard as usize].push(series);
                }
                let mut parts: Vec<_> = shards.into_iter().map(Vec::into_iter).collect();
                while parts.iter().any(|part| part.len() > 0) {
                    for part in &mut parts {
                        series.extend(part.take(BATCH));
                    }
                }
            }
            Self::Shuffled => rng.shuffle(series),
        }
    }
}

/// The fleet's series, as remote write sends them.
struct Fleet {
    targets: Vec<Target>,
    labels: Vec<Vec<Vec<(String, String)>>>,
    rng: SplitMix64,
}

impl Fleet {
    fn new(targets: usize) -> Self {
        let targets: Vec<Target> = (0..targets).map(|at| Target::new(at, 0, SERIES)).collect();
        let labels = targets
            .iter()
            .enumerate()
            .map(|(at, target)| {
                let instance = format!("10.0.{}.{}:8080", at / 250, at % 250);
                target
                    .prefixes()
                    .iter()
                    .map(|prefix| labels_of(prefix, &instance))
                    .collect()
            })
            .collect();
        Self {
            targets,
            labels,
            rng: SplitMix64::new(42),
        }
    }

    /// Makes the compressed requests of the next round.
    fn round(&mut self, time_ms: i64, order: Order) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for (at, (target, labels)) in self.targets.iter_mut().zip(&self.labels).enumerate() {
            target.step();
            // Each target is scraped at its own offset within the interval.
            let time_ms = time_ms + (at as i64 * 7919) % STEP_MS;
            for (labels, value) in labels.iter().zip(target.values()) {
                all.push(Series {
                    labels: labels.clone(),
                    samples: vec![(time_ms, *value)],
                    ..Series::default()
                });
            }
        }
        order.apply(&mut all, &mut self.rng);
        let mut encoder = snap::raw::Encoder::new();
        all.chunks(BATCH)
            .map(|part| {
                let request = Request {
                    series: part.to_vec(),
                    ..Request::default()
                };
                encoder.compress_vec(&request.v1()).unwrap()
            })
            .collect()
    }
}

fn labels_of(prefix: &str, instance: &str) -> Vec<(String, String)> {
    let line = prefix.lines().last().unwrap();
    let (name, rest) = line.split_once('{').unwrap();
    let inner = rest.trim_end().trim_end_matches('}');
    let mut labels: Vec<(String, String)> = inner
        .split("\",")
        .map(|pair| {
            let (name, value) = pair.split_once("=\"").unwrap();
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        })
        .collect();
    labels.push(("__name__".to_owned(), name.to_owned()));
    labels.push(("instance".to_owned(), instance.to_owned()));
    labels.push(("job".to_owned(), "fleet".to_owned()));
    labels.sort();
    labels
}

fn inside(order: Order, targets: usize, rounds: usize) {
    let mut fleet = Fleet::new(targets);
    let dir = TempDir::new("bench-remote-write");
    let start_ms = 1_767_225_600_000;
    let clock = Arc::new(ManualClock::new(start_ms));
    // The clock is fixed while the samples' times advance.
    let mut options = DbOptions::new(dir.path());
    options.tuning.future_limit_ms = None;
    let db = Db::open(Arc::new(RealIo), options, clock).unwrap();
    let receiver = Receiver::new(Arc::new(db.clone()), Arc::new(|| i64::MAX / 2));
    let samples = (targets * SERIES) as f64;
    let (mut first, mut later, mut storing) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let before = resident_bytes();
    for round in 0..rounds {
        let time_ms = start_ms + round as i64 * STEP_MS;
        let requests = fleet.round(time_ms, order);
        let mut plain = Vec::new();
        let begun = thread_cpu();
        for request in &requests {
            plain.resize(snap::raw::decompress_len(request).unwrap(), 0);
            snap::raw::Decoder::new()
                .decompress(request, &mut plain)
                .unwrap();
            let store = thread_cpu();
            let (written, refused) = receiver.store(Message::V1, &plain).unwrap();
            storing += thread_cpu() - store;
            assert!(refused.is_none(), "{refused:?}");
            assert!(written.samples > 0);
        }
        if round == 0 {
            first = thread_cpu() - begun;
            storing = Duration::ZERO;
        } else {
            later += thread_cpu() - begun;
        }
    }
    let per = |time: Duration| time.as_nanos() as f64 / samples / (rounds - 1) as f64;
    println!(
        "| {order:?} | {samples} | {rounds} | {:.0} | {:.0} | {:.0} | {:.0} |",
        per(later),
        per(storing),
        first.as_nanos() as f64 / samples,
        (resident_bytes().saturating_sub(before)) as f64 / samples,
    );
    drop((receiver, db));
}

/// Sends rounds to a server and measures its process's CPU time, the first round separately.
fn send(url: &str, pid: &str, targets: usize, rounds: usize, order: Order) {
    let mut fleet = Fleet::new(targets);
    let samples = (targets * SERIES) as f64;
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let start_ms = now.as_millis() as i64 - rounds as i64 * STEP_MS;
    let (mut first, mut cpu) = (0, 0);
    let mut wall = Duration::ZERO;
    for round in 0..rounds {
        let requests = fleet.round(start_ms + round as i64 * STEP_MS, order);
        let (before, begun) = (process_cpu_ms(pid), Instant::now());
        for request in &requests {
            let answer = remote_write::send(url, "application/x-protobuf", request).unwrap();
            assert_eq!(answer.status, 204, "{}", answer.text());
        }
        let took = process_cpu_ms(pid) - before;
        if round == 0 {
            first = took;
        } else {
            cpu += took;
            wall += begun.elapsed();
        }
    }
    let later = samples * (rounds - 1) as f64;
    println!(
        "{order:?}: {samples} series, {rounds} rounds: {:.0} ns CPU a sample ({:.0} ns elapsed), first sight {:.0} ns a series, {:.0} B resident a series",
        cpu as f64 * 1e6 / later,
        wall.as_nanos() as f64 / later,
        first as f64 * 1e6 / samples,
        status_bytes(pid) as f64 / samples,
    );
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of a process in milliseconds, with the resolution of a clock tick.
fn process_cpu_ms(pid: &str) -> u64 {
    let ticks = ProcFile::read(pid, "stat").unwrap().cpu_ticks().unwrap();
    ticks * 1000 / rustix::param::clock_ticks_per_second()
}

fn status_bytes(pid: &str) -> u64 {
    let status = ProcFile::read(pid, "status").unwrap();
    status.bytes("VmRSS:").unwrap()
}

fn resident_bytes() -> u64 {
    status_bytes("self")
}
