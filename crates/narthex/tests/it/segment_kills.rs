//! Workers written with every client library, killed at random times while they count, read by a server or by an agent
//! that is killed too: what each library certainly counted is there, once.

use crate::{
    client,
    segment_writers::{Library, length, libraries},
    segments::{config, total},
    support::{self, Running, until},
};
use narthex_testkit::{TempDir, process::Server, rng::SplitMix64, scaled};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Workers of each library that run at once.
const EACH: usize = 2;

/// The running workers of all libraries, and the logs of those that ever ran.
struct Pool {
    libraries: Vec<Library>,
    dir: TempDir,
    running: Vec<Worker>,
    /// Every worker's library and log.
    logs: Vec<(usize, PathBuf)>,
}

struct Worker {
    library: usize,
    process: Server,
    log: PathBuf,
}

impl Pool {
    fn segments(&self) -> PathBuf {
        self.dir.join("segments")
    }

    /// Starts what is missing.
    fn fill(&mut self) {
        for at in 0..self.libraries.len() {
            let of_library = self.running.iter().filter(|worker| worker.library == at);
            for _ in of_library.count()..EACH {
                let log = self.dir.join(format!("log-{}", self.logs.len()));
                self.running.push(Worker {
                    library: at,
                    process: self.libraries[at].start(&self.segments(), &log, 0),
                    log: log.clone(),
                });
                self.logs.push((at, log));
            }
        }
    }

    fn kill(&mut self, at: usize) {
        self.running.swap_remove(at).process.kill9();
    }

    /// Kills a worker that counts; one of four may still be about to begin.
    fn kill_one(&mut self, rng: &mut SplitMix64) {
        let at = rng.index(self.running.len());
        if rng.below(4) > 0 {
            let log = &self.running[at].log;
            until("the worker counts", || (length(log) > 0).then_some(()));
        }
        self.kill(at);
    }

    /// Returns how much a library certainly counted, and how much it counted at most: a worker may have been killed
    /// before it said so.
    fn counted(&self, library: usize) -> (f64, f64) {
        let logs = self.logs.iter().filter(|(at, _)| *at == library);
        let (mut least, mut most) = (0, 0);
        for (_, log) in logs {
            least += length(log);
            most += length(log) + 1;
        }
        (least as f64, most as f64)
    }
}

/// Returns the sum of each application's counters.
fn sums(server: &Running) -> BTreeMap<String, f64> {
    let vector = client::vector(&server.url, "sum by (app) (pool_requests_total)", None);
    let pairs = vector.into_iter().map(|(app, (_, value))| (app, value));
    pairs.collect()
}

/// Watches all counters grow for a random time.
fn watch(rng: &mut SplitMix64, server: &Running, last: &mut BTreeMap<String, f64>) {
    let end = Instant::now() + Duration::from_millis(rng.below(150));
    while Instant::now() < end {
        for (app, now) in sums(server) {
            let before = last.insert(app.clone(), now).unwrap_or_default();
            assert!(now >= before, "{app}: {now} after {before}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// What reads the segments, and where its series are asked for.
struct Reader {
    start: Box<dyn Fn() -> Running>,
    process: Running,
    /// The server that an agent sends to, which lives on.
    receiver: Option<Running>,
}

impl Reader {
    fn new(start: impl Fn() -> Running + 'static, receiver: Option<Running>) -> Self {
        Self {
            process: start(),
            start: Box::new(start),
            receiver,
        }
    }

    fn asked(&self) -> &Running {
        self.receiver.as_ref().unwrap_or(&self.process)
    }
}

#[test]
fn killed_workers_and_servers_lose_and_repeat_nothing() {
    let dir = TempDir::new("kills");
    let segments = dir.join("segments");
    let config = config(&dir, &segments, "");
    let data = dir.join("data");
    let reader = Reader::new(move || Running::start(&data, &config), None);
    kill_workers_and(reader, dir, &mut support::rng(0x5e6));
}

#[test]
fn killed_workers_and_agents_lose_and_repeat_nothing() {
    let dir = TempDir::new("kills-agent");
    let idle = support::config(&dir, "1h", &[]);
    let receiver = Running::of(
        support::server_in(&dir.join("receiver"))
            .arg(support::config_flag(&idle))
            .arg("--web.enable-remote-write-receiver"),
    );
    let config = config(
        &dir,
        &dir.join("segments"),
        &format!(
            "remote_write:\n- url: {}/api/v1/write\n  queue_config: {{batch_send_deadline: 20ms, max_backoff: 100ms}}\n",
            receiver.url
        ),
    );
    let path = format!("--storage.agent.path={}", dir.join("agent").display());
    let start = move || {
        let agent = support::narthex().args(["agent", "--web.listen-address=127.0.0.1:0", &path]);
        Running::of(agent.arg(support::config_flag(&config)))
    };
    let reader = Reader::new(start, Some(receiver));
    kill_workers_and(reader, dir, &mut support::rng(0x5e7));
}

fn kill_workers_and(mut reader: Reader, dir: TempDir, rng: &mut SplitMix64) {
    let mut pool = Pool {
        libraries: libraries(&dir),
        dir,
        running: Vec::new(),
        logs: Vec::new(),
    };
    // Not every library creates it.
    fs::create_dir_all(pool.segments()).unwrap();
    let mut last = BTreeMap::new();
    let kills = scaled(50);
    for round in 0..kills {
        pool.fill();
        watch(rng, reader.asked(), &mut last);
        pool.kill_one(rng);
        if round % 10 == 9 {
            reader.process.process.kill9();
            // Some end while nobody looks.
            pool.kill_one(rng);
            reader.process = (reader.start)();
        }
    }
    // Those that were just started may not have begun.
    for at in 0..pool.libraries.len() {
        until("every library counts", || {
            (pool.counted(at).0 > 20.0).then_some(())
        });
    }
    while !pool.running.is_empty() {
        pool.kill(0);
    }
    let segments = pool.segments();
    until("all segments are taken over", || {
        let mut left = support::files_below(&segments, ".segment");
        // What a worker was creating when it was killed stays for a minute.
        left.retain(|path| path.extension().is_some_and(|ending| ending == "segment"));
        left.is_empty().then_some(())
    });
    for (at, library) in pool.libraries.iter().enumerate() {
        let (least, most) = pool.counted(at);
        let is_right = |value: &f64| (least..=most).contains(value);
        println!(
            "{}: {least} counted, in {} workers",
            library.app,
            most - least
        );
        for query in [
            "sum(pool_requests_total{app='{}'})",
            "pool_seconds_count{app='{}'}",
        ] {
            let query = query.replace("{}", library.app);
            until(&format!("{query} is from {least} to {most}"), || {
                total(reader.asked(), &query).filter(is_right)
            });
        }
    }
    for query in [
        "sum(resets(pool_requests_total[1h]))",
        "sum(resets(pool_seconds_bucket[1h]))",
    ] {
        assert_eq!(total(reader.asked(), query), Some(0.0), "{query}");
    }
    println!("{} workers were killed", pool.logs.len());
    reader.process.stop();
}
