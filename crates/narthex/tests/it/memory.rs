//! A server of little memory under attacks that want more: each is refused, and nobody else notices.
//!
//! A second server runs without attacks: its punctuality shows how busy the machine is.
//!
//! **Invariant:** during attacks, well-behaved targets are scraped every second and `/-/healthy` is requested all the
//! time; the attacked server's delays are compared with the other one's at the same time.

mod attacks;
mod group;
mod levels;

use crate::{
    hostile::resident_kb,
    support::{self, Running, until},
    target::Target,
};
use attacks::{ATTACKS, Attack, Victim};
use group::Group;
use narthex_testkit::{TempDir, http, process::Spawn, scaled};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Milliseconds between scrapes of good targets.
const INTERVAL_MS: i64 = 1000;
const GOOD_TARGETS: usize = 5;
/// Scrapes of each good target before the first attack.
const CALM_SCRAPES: u64 = 8;

/// Longest time until pressure falls after attacks: the state of targets that are gone is flushed and forgotten after a
/// while.
const RELIEF: Duration = Duration::from_secs(180);

/// The server's memory: so little that attacks in twos come near to it, twice as much where each is made alone before.
fn limit_bytes() -> u64 {
    scaled(256).min(512) << 20
}

/// A limit from a flag is kept like that of a control group, which the kernel enforces too. One of the two is tested,
/// and both at a larger scale; there each attack is made alone, too.
#[test]
fn attacks_on_memory_are_refused() {
    let group = Group::create(limit_bytes());
    if let Err(error) = &group {
        println!("no control group can be made here: {error}");
    }
    if group.is_err() || scaled(1) > 1 {
        endure(None);
    }
    if let Ok(group) = group {
        endure(Some(group));
    }
}

fn configure(dir: &TempDir, name: &str, jobs: &[(&str, &str)], good: &[Target]) -> PathBuf {
    let mut text =
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n".to_owned();
    for (job, address) in jobs {
        // A page that is to be refused for its size must have come so far before its time is over.
        let seconds = if attacks::HUGE.contains(job) { 6 } else { 2 };
        let _ = writeln!(
            text,
            "- job_name: {job}\n  scrape_interval: {seconds}s\n  scrape_timeout: {seconds}s\n  static_configs: [{{targets: ['{address}']}}]"
        );
    }
    let good: Vec<&str> = good.iter().map(|target| &*target.address).collect();
    let _ = writeln!(
        text,
        "- job_name: good\n  static_configs: [{{targets: {good:?}}}]"
    );
    dir.write(name, text)
}

/// A server that scrapes good targets, and its constant health checks.
struct Watched {
    server: Running,
    good: Vec<Target>,
    pulse: Pulse,
    /// Offset in the interval at which each target is due.
    phases_ms: Vec<i64>,
}

impl Watched {
    fn start(
        program: Spawn,
        dir: &Path,
        config: &Path,
        good: Vec<Target>,
        flags: &[String],
    ) -> Self {
        let spawn = support::server_of(program, dir)
            .arg(support::config_flag(config))
            .args(flags);
        let server = Running::of(spawn);
        Self {
            pulse: Pulse::start(&server.url),
            server,
            good,
            phases_ms: Vec::new(),
        }
    }

    /// Waits for a few scrapes of all targets and determines when each is due.
    fn settle(&mut self) {
        until("good targets are scraped", || {
            let done = |target: &Target| target.count() > CALM_SCRAPES;
            self.good.iter().all(done).then_some(())
        });
        let phase = |target: &Target| {
            let first_ms = target.asked_ms(1).unwrap();
            let apart = (2..=CALM_SCRAPES).filter_map(|n| target.asked_ms(n));
            // Offset from the first scrape, in either direction.
            let apart = apart.map(|at_ms| around(at_ms - first_ms));
            first_ms + apart.min().unwrap_or(0).min(0)
        };
        self.phases_ms = self.good.iter().map(phase).collect();
    }

    /// Returns the delays of scrapes since `since_ms`, sorted, in fractions of an interval; a missed scrape counts as
    /// one.
    fn lateness(&self, since_ms: i64) -> Vec<f64> {
        let mut late = Vec::new();
        for (target, phase_ms) in self.good.iter().zip(&self.phases_ms) {
            let asked = (1..=target.count()).filter_map(|n| target.asked_ms(n));
            let asked: Vec<i64> = asked.filter(|at_ms| *at_ms >= since_ms).collect();
            let late_ms = |at_ms: &i64| (at_ms - phase_ms + 5).rem_euclid(INTERVAL_MS) - 5;
            let round = |at_ms: &i64| (at_ms - phase_ms + 5).div_euclid(INTERVAL_MS);
            late.extend(
                asked
                    .iter()
                    .map(|at_ms| late_ms(at_ms) as f64 / INTERVAL_MS as f64),
            );
            let rounds: BTreeSet<i64> = asked.iter().map(round).collect();
            let all = rounds.last().unwrap() - rounds.first().unwrap() + 1;
            late.extend((rounds.len() as i64..all).map(|_| 1.0));
        }
        late.sort_by(f64::total_cmp);
        late
    }
}

/// Returns a time difference modulo the interval, in the half interval either side of zero.
fn around(apart_ms: i64) -> i64 {
    (apart_ms + INTERVAL_MS / 2).rem_euclid(INTERVAL_MS) - INTERVAL_MS / 2
}

fn p95<T: Copy>(sorted: &[T]) -> T {
    sorted[sorted.len() * 95 / 100]
}

fn p99<T: Copy>(sorted: &[T]) -> T {
    sorted[sorted.len() * 99 / 100]
}

/// Requests health all the time, and the pressure now and then.
struct Pulse {
    stop: Arc<AtomicBool>,
    asking: thread::JoinHandle<Vec<Duration>>,
    levels: thread::JoinHandle<BTreeSet<u8>>,
}

impl Pulse {
    fn start(url: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (ended, healthy) = (Arc::clone(&stop), format!("{url}/-/healthy"));
        let asking = thread::spawn(move || {
            let mut times = Vec::new();
            while !ended.load(Ordering::SeqCst) {
                let start = Instant::now();
                let answer = http::get(&healthy).unwrap();
                assert_eq!(answer.status, 200);
                times.push(start.elapsed());
                thread::sleep(Duration::from_millis(20));
            }
            times.sort();
            times
        });
        let (ended, url) = (Arc::clone(&stop), url.to_owned());
        let levels = thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !ended.load(Ordering::SeqCst) {
                seen.extend(pressure(&url));
                thread::sleep(Duration::from_millis(100));
            }
            seen
        });
        Self {
            stop,
            asking,
            levels,
        }
    }

    /// Returns the sorted response times and the levels of pressure seen.
    fn end(self) -> (Vec<Duration>, BTreeSet<u8>) {
        self.stop.store(true, Ordering::SeqCst);
        (self.asking.join().unwrap(), self.levels.join().unwrap())
    }
}

/// Returns the level of pressure a server reports, if it answers.
fn pressure(url: &str) -> Option<u8> {
    let page = http::get(&format!("{url}/metrics")).ok()?.text();
    let mut lines = page.lines();
    let level = lines.find_map(|line| line.strip_prefix("narthex_memory_pressure "))?;
    level.trim().parse().ok()
}

/// Runs an attack and checks its statuses.
fn attack(victim: &Victim, attack: &Attack) {
    let start = Instant::now();
    let statuses = (attack.run)(victim);
    let mut kinds: Vec<u16> = statuses.clone();
    kinds.sort_unstable();
    kinds.dedup();
    println!("{}: {kinds:?} in {:?}", attack.name, start.elapsed());
    let allowed = |status: &u16| attack.answers.contains(status);
    assert!(
        statuses.iter().all(allowed),
        "{}: {statuses:?}",
        attack.name
    );
}

/// Returns the server's peak memory without its program's pages: the kernel drops those when memory is short, and debug
/// information makes them many.
fn most_kb(server: &Running) -> u64 {
    resident_kb(server, "VmHWM:") - resident_kb(server, "RssFile:")
}

/// Attacks a server with two attacks at once, at a larger scale with each alone before, and compares it with an unattacked one.
fn endure(group: Option<Group>) {
    let stop = Arc::new(AtomicBool::new(false));
    let dir = TempDir::new("memory");
    let villains = attacks::villains(&stop);
    let good = || -> Vec<Target> {
        let page = |number: u64| format!("# TYPE pages_total counter\npages_total {number}\n");
        (0..GOOD_TARGETS).map(|_| Target::start(page)).collect()
    };
    let (ours, others) = (good(), good());
    let jobs: Vec<(&str, &str)> = (villains.iter())
        .map(|(villain, _)| (villain.name, &*villain.address))
        .collect();
    let config = configure(&dir, "attacked.yml", &jobs, &ours);
    let mut flags = vec![
        "--web.enable-remote-write-receiver".to_owned(),
        "--web.remote-write-receiver.max-wait=1s".to_owned(),
    ];
    let program = match &group {
        Some(group) => group.server(),
        None => {
            flags.push(format!("--memory.limit={}MB", limit_bytes() >> 20));
            support::narthex()
        }
    };
    let mut attacked = Watched::start(program, &dir.join("attacked"), &config, ours, &flags);
    let config = configure(&dir, "alone.yml", &[], &others);
    let mut alone = Watched::start(support::narthex(), &dir.join("alone"), &config, others, &[]);
    attacked.settle();
    alone.settle();
    let limit = attacked.server.metric("narthex_memory_limit_bytes ");
    assert_eq!(limit, Some(limit_bytes() as f64));

    let begin_ms = crate::target::now_ms();
    let victim = Victim {
        url: attacked.server.url.clone(),
        villains,
    };
    let say_peak = || {
        println!("  {} KiB at most", most_kb(&attacked.server));
    };
    if scaled(1) > 1 {
        for one in ATTACKS {
            attack(&victim, one);
            say_peak();
        }
    }
    for two in ATTACKS.chunks(2) {
        thread::scope(|scope| {
            let victim = &victim;
            two.iter().for_each(|one| {
                scope.spawn(move || attack(victim, one));
            });
        });
        say_peak();
    }
    // Refusals must end some time after the attacks.
    let end = Instant::now() + RELIEF;
    while pressure(&victim.url).is_none_or(|level| level > 1) {
        let shares = http::get(&format!("{}/api/v1/status/memory", victim.url));
        assert!(
            Instant::now() < end,
            "{:?}",
            shares.map(|shares| shares.text())
        );
        thread::sleep(Duration::from_millis(100));
    }
    println!(
        "nothing is refused {:?} after the last attack",
        RELIEF - (end - Instant::now())
    );
    judge(attacked, alone, begin_ms, group.as_ref());
    stop.store(true, Ordering::SeqCst);
}

/// Compares an attacked server with an unattacked one.
fn judge(attacked: Watched, alone: Watched, begin_ms: i64, group: Option<&Group>) {
    let (late, usual) = (attacked.lateness(begin_ms), alone.lateness(begin_ms));
    println!(
        "{} and {} scrapes; late by {:.3} of an interval, p95 {:.3}, p99 {:.3}, at most {:.3}; alone {:.3}, p95 {:.3}, p99 {:.3}, at most {:.3}",
        late.len(),
        usual.len(),
        late[late.len() / 2],
        p95(&late),
        p99(&late),
        late[late.len() - 1],
        usual[usual.len() / 2],
        p95(&usual),
        p99(&usual),
        usual[usual.len() - 1]
    );
    let peak = most_kb(&attacked.server);
    let (asked, levels) = attacked.pulse.end();
    let (asked_alone, _) = alone.pulse.end();
    println!(
        "healthy {} times, p99 {:?}, at most {:?}; alone p99 {:?}; {peak} KiB at most; levels {levels:?}",
        asked.len(),
        p99(&asked),
        asked[asked.len() - 1],
        p99(&asked_alone)
    );
    if let Some(group) = group {
        println!("{} KiB in the group at most", group.most_bytes() >> 10);
        assert_eq!(group.killed(), 0);
    }
    assert!(peak < limit_bytes() >> 10, "{peak} KiB");
    // The slowest twentieth, missed scrapes included, may be later than usual by a quarter of an interval. All targets
    // are late at once, so that a hundredth is a second or two, which a machine with other work may take from a server
    // that is busy.
    assert!(p95(&late) <= p95(&usual) + 0.25, "{late:?}");
    let interval = Duration::from_millis(INTERVAL_MS.unsigned_abs());
    let answered = p99(&asked) <= p99(&asked_alone) + interval.mul_f64(0.1);
    assert!(answered, "{:?}", p99(&asked));
    // How high they come together depends on the machine; `levels` tests each level.
    assert!(levels.contains(&0) && levels.len() > 1, "{levels:?}");
    let log = attacked.server.stop();
    assert!(!log.contains("panicked"), "{log}");
    alone.server.stop();
}
