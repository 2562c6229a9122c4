//! CPU of pushes and scrapes of a fleet of equal processes, by number of groups, and what a second core gains.
//!
//! `cargo bench -p narthex-push --bench fleet`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark reports on stdout and has nobody to hand errors to"
)]

use narthex_client::{Registry, write_number};
use narthex_expfmt::Format;
use narthex_net::{Server, ServerConfig, Stopper};
use narthex_push::{
    Asked, GatewayConfig, Grouping, Limits, Push, Status, Store, StoreConfig, routes,
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Name of the thread that serves.
const SERVER: &str = "gateway";
/// Pushes measured for each number of groups, at the least.
const PUSHES: usize = 4000;
/// How long each number of threads pushes.
const TIME: Duration = Duration::from_secs(3);

fn main() {
    println!("one connection, 600 series a push, CPU of the thread that serves:");
    for groups in [1, 10, 100, 1000] {
        report(groups);
    }
    println!("25 connections, 1,000 groups, 200 pushes a second, CPU of all that serves:");
    for threads in [1, 2] {
        report_paced(threads);
    }
    println!("the store alone, 1,000 groups:");
    let [one, two] = [1, 2].map(pushed_by);
    for (threads, (a_second, cpu_us)) in [("1 thread ", one), ("2 threads", two)] {
        println!("{threads}: {a_second:.0} pushes/s, {cpu_us:.1} µs of CPU a push");
    }
    println!(
        "{:.2} times the pushes a second; {:.2} times if both had a core of their own",
        two.0 / one.0,
        2.0 * one.1 / two.1
    );
}

/// Pushes on a schedule, as a fleet does: between two pushes everything rests, and the next one comes on another connection.
fn report_paced(threads: usize) {
    let address = start(threads);
    let mut clients: Vec<Client> = (0..25).map(|_| Client::connect(address)).collect();
    let mut body = Vec::new();
    let mut push = |number: usize| {
        let (group, round) = (number % 1000, number / 1000);
        write_body(&mut body, group, round);
        clients[number % 25].send("PUT", &path(group), &body);
    };
    (0..10_000).for_each(&mut push);
    let pushes = 2000;
    let (cpu, switches) = usage_of(|| {
        let start = Instant::now();
        for number in 0..pushes {
            let due = start + Duration::from_millis(5) * number as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            push(10_000 + number);
        }
    });
    println!(
        "{threads} threads: push {:.1} µs, {:.2} context switches",
        cpu.as_secs_f64() * 1e6 / pushes as f64,
        switches as f64 / pushes as f64
    );
}

fn path(group: usize) -> String {
    let (host, process) = (group / 40, group % 40);
    format!("/metrics/job/game/host/h{host:03}/process/p{process:03}")
}

/// Pushes to a gateway of its own, and scrapes it.
fn report(groups: usize) {
    let mut client = Client::connect(start(1));
    let mut body = Vec::new();
    let mut push = |group: usize, round: usize| {
        write_body(&mut body, group, round);
        client.send("PUT", &path(group), &body);
    };
    let first = cpu_of(|| (0..groups).for_each(|group| push(group, 0)));
    let rounds = PUSHES.div_ceil(groups);
    // Decoders forget what only unexpected lines need after some rounds.
    (1..10).for_each(|round| (0..groups).for_each(|group| push(group, round)));
    let later = cpu_of(|| {
        for round in 10..10 + rounds {
            (0..groups).for_each(|group| push(group, round));
        }
    });
    print!(
        "{groups:>5} groups: first push {:>7.1} µs, push {:>6.1} µs",
        first.as_secs_f64() * 1e6 / groups as f64,
        later.as_secs_f64() * 1e6 / (rounds * groups) as f64
    );
    for encoding in ["identity", "gzip"] {
        let mut bytes = 0;
        let scrapes = 10;
        let cpu = cpu_of(|| (0..scrapes).for_each(|_| bytes = client.scrape(encoding)));
        print!(
            ", scrape {encoding} {:.2} ms ({:.2} MB)",
            cpu.as_secs_f64() * 1e3 / f64::from(scrapes),
            bytes as f64 / 1e6
        );
    }
    println!();
}

/// Pushes to the store from several threads, each with groups of its own; returns the pushes a second, and the CPU time
/// of one, in microseconds.
fn pushed_by(threads: usize) -> (f64, f64) {
    let store = Store::in_memory(StoreConfig::default(), Arc::new(|| 1));
    let groups = 1000;
    let done: Vec<(usize, u64)> = thread::scope(|scope| {
        let each = (0..threads).map(|number| {
            let store = &store;
            scope.spawn(move || {
                let own: Vec<Grouping> = (number..groups).step_by(threads).map(grouping).collect();
                // The bodies of a group, written beforehand: only the store is measured.
                let bodies: Vec<Vec<u8>> = (0..8)
                    .map(|round| {
                        let mut body = Vec::new();
                        write_body(&mut body, number, round);
                        body
                    })
                    .collect();
                let asked = Asked::default();
                let mut push = |at: usize| {
                    let push = Push {
                        replace: true,
                        format: Format::Text,
                        body: &bodies[at / own.len() % bodies.len()],
                        asked: &asked,
                    };
                    store.push(&own[at % own.len()], push).unwrap();
                };
                (0..10 * own.len()).for_each(&mut push);
                let (start, before_ns, mut count) = (Instant::now(), own_cpu_ns(), 0);
                while start.elapsed() < TIME {
                    (count..count + 100).for_each(&mut push);
                    count += 100;
                }
                (count, own_cpu_ns() - before_ns)
            })
        });
        let each: Vec<_> = each.collect();
        let each = each.into_iter().map(|thread| thread.join().unwrap());
        each.collect()
    });
    let pushes = done.iter().map(|(count, _)| count).sum::<usize>() as f64;
    let cpu_ns = done.iter().map(|(_, cpu_ns)| cpu_ns).sum::<u64>() as f64;
    (pushes / TIME.as_secs_f64(), cpu_ns / 1e3 / pushes)
}

/// Returns the CPU time of this thread.
fn own_cpu_ns() -> u64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

fn grouping(group: usize) -> Grouping {
    let pairs = [
        ("job", "game".to_owned()),
        ("process", format!("p{group:04}")),
    ];
    Grouping::new(pairs.map(|(name, value)| (name.to_owned(), value)).to_vec())
}

/// Starts a gateway on a thread, or on as many of a runtime beside one that only waits.
fn start(threads: usize) -> SocketAddr {
    let (sender, receiver) = mpsc::channel();
    let serve = move || {
        let mut runtime = match threads {
            1 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = runtime.enable_all();
        if threads > 1 {
            runtime.worker_threads(threads).thread_name(SERVER);
        }
        let runtime = runtime.build().unwrap();
        let store = Arc::new(Store::in_memory(StoreConfig::default(), Arc::new(|| 1)));
        let config = GatewayConfig {
            limits: Limits {
                body_bytes: 1 << 20,
                reading_bytes: 4 << 20,
                body_timeout: Duration::from_secs(30),
                concurrency: 8,
                wait: Duration::from_secs(30),
            },
            route_prefix: String::new(),
            telemetry_path: "/metrics".to_owned(),
            quit: None,
            enable_admin_api: false,
            status: Status::default(),
        };
        let own: &'static Registry = Box::leak(Box::new(Registry::new()));
        runtime.block_on(async {
            let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default())
                .await
                .unwrap();
            sender.send(server.local_addrs()[0]).unwrap();
            let (_stopper, stop) = Stopper::new();
            let serving = server.serve(routes(store, own, config), stop);
            // Connections are accepted by one of the threads, as in the product.
            tokio::spawn(serving).await.unwrap();
        });
    };
    thread::Builder::new()
        .name(SERVER.to_owned())
        .spawn(serve)
        .unwrap();
    receiver.recv().unwrap()
}

/// Returns the CPU time that gateways take meanwhile: only the newest one has anything to do.
fn cpu_of(work: impl FnOnce()) -> Duration {
    usage_of(work).0
}

/// Returns the CPU time that gateways take meanwhile, and how often they are run.
fn usage_of(work: impl FnOnce()) -> (Duration, u64) {
    let read = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let of_servers = tasks.filter_map(|task| {
            let path = task.unwrap().path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let times = fs::read_to_string(path.join("schedstat")).ok()?;
            let mut times = times
                .split_whitespace()
                .map(|field| field.parse::<u64>().ok());
            let [running_ns, _, runs] = [times.next()??, times.next()??, times.next()??];
            (name.trim_end() == SERVER).then_some([running_ns, runs])
        });
        of_servers.fold([0_u64; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    };
    let before = read();
    work();
    let after = read();
    (
        Duration::from_nanos(after[0] - before[0]),
        after[1] - before[1],
    )
}

/// One connection that is kept.
struct Client(TcpStream, Vec<u8>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream, vec![0; 1 << 20])
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let read = self.0.read(&mut self.1).unwrap();
        assert!(
            self.1[..read].starts_with(b"HTTP/1.1 200 "),
            "{}",
            String::from_utf8_lossy(&self.1[..read])
        );
    }

    /// Returns the length of the page as it is sent.
    fn scrape(&mut self, encoding: &str) -> usize {
        let head =
            format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {encoding}\r\n\r\n");
        self.0.write_all(head.as_bytes()).unwrap();
        let mut all = 0;
        let mut length = None;
        loop {
            let read = self.0.read(&mut self.1).unwrap();
            assert!(read > 0);
            if all == 0 {
                let head = String::from_utf8_lossy(&self.1[..read.min(1000)]);
                let found = head.split("content-length: ").nth(1);
                let found = found.and_then(|rest| rest.split("\r\n").next());
                let body = head.find("\r\n\r\n").unwrap() + 4;
                length = found.map(|length| length.parse::<usize>().unwrap() + body);
            }
            all += read;
            let is_last = match length {
                Some(length) => all >= length,
                None => self.1[..read].ends_with(b"0\r\n\r\n"),
            };
            if is_last {
                return all;
            }
        }
    }
}

/// Writes the series of a game server: histograms, gauges and counters, 600 in all.
fn write_body(out: &mut Vec<u8>, group: usize, round: usize) {
    out.clear();
    let base = (1_000_000_000 + group * 7919) as f64;
    for number in 0..6 {
        write_histogram(out, number, base, round);
    }
    for at in 0..522 {
        let mixed = ((group * 600 + at + round) as u64).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 34;
        let counter = base + (mixed + round as u64) as f64;
        let gauge = (100_000 + mixed % 900_000) as f64 / 1e3;
        match at.checked_sub(150) {
            None => write_plain(out, ("wait", "milliseconds", "gauge"), (at, 15), gauge),
            Some(at) => write_plain(out, ("events", "total", "counter"), (at, 20), counter),
        }
    }
}

fn write_histogram(out: &mut Vec<u8>, number: usize, base: f64, round: usize) {
    let name = format!("game_frame_seconds_{number:02}");
    put(
        out,
        &format!("# HELP {name} Time a frame took.\n# TYPE {name} histogram\n"),
        None,
    );
    for at in 0..13 {
        let (suffix, bound) = match at {
            11 => ("sum", String::new()),
            12 => ("count", String::new()),
            10 => ("bucket", ",le=\"+Inf\"".to_owned()),
            _ => ("bucket", format!(",le=\"{}\"", 0.001 * f64::from(1 << at))),
        };
        let value =
            base + (at.min(10) as usize * 100_000_000 + round * 7 * (at as usize + 1)) as f64;
        put(
            out,
            &format!("{name}_{suffix}{{realm=\"eu-west-00\"{bound}}} "),
            Some(value),
        );
    }
}

/// Writes a gauge or a counter, one of `each` in its family.
fn write_plain(
    out: &mut Vec<u8>,
    (what, unit, kind): (&str, &str, &str),
    (at, each): (usize, usize),
    value: f64,
) {
    let (family, event) = (at / each, at % each);
    let name = format!("game_{what}_{family:02}_{unit}");
    if event == 0 {
        put(
            out,
            &format!("# HELP {name} What the simulation does.\n# TYPE {name} {kind}\n"),
            None,
        );
    }
    let labels = format!("event=\"e{event:02}\",realm=\"eu-west-{:02}\"", event % 7);
    put(out, &format!("{name}{{{labels}}} "), Some(value));
}

fn put(out: &mut Vec<u8>, text: &str, value: Option<f64>) {
    out.extend_from_slice(text.as_bytes());
    if let Some(value) = value {
        write_number(out, value);
        out.push(b'\n');
    }
}
