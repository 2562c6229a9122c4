//! A disk that fills and gets room again while targets with series churn are scraped and a sender writes: nothing
//! acknowledged is lost, memory stays within its limit, and everything resumes without a restart.
//!
//! It takes `NARTHEX_SOAK_MINUTES`, at least twelve because blocks are written every five, and an ext4 of 320 MiB,
//! because ext4 frees space late and, when full, fails other calls than tmpfs. Build containers rarely have the loop
//! device this needs: run it with `make soak ONLY=disk`.

use crate::{
    client,
    crash_soak::{Sender, Sent, add, fill},
    disk::Loop,
    hostile::resident_kb,
    support::{self, Job, Running, until},
    target::{Target, now_ms},
};
use narthex_testkit::{
    TempDir, http,
    process::{SIGHUP, SIGKILL},
    rng::SplitMix64,
};
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

const LEAST_MINUTES: u32 = 12;
const LIMIT_MB: u64 = 256;
const TARGETS: usize = 4;
/// Pause between requests of the sender.
const PACE: Duration = Duration::from_millis(50);
/// Bytes freed on the full disk from time to time, so that it fills up during different operations.
const CRUMBS: u64 = 192 << 10;

/// Duration of each phase, and amount of data.
struct Scale {
    series: usize,
    /// Pages after which six tenths of the series are replaced.
    replaced_every: u64,
    before: Duration,
    full: Duration,
    after: Duration,
}

impl Scale {
    fn new(minutes: u32) -> Self {
        let all = Duration::from_secs(60) * minutes;
        Self {
            series: 5_000,
            replaced_every: 30,
            before: all / 4,
            full: all / 4,
            after: all / 2,
        }
    }

    fn live(&self) -> f64 {
        (self.series * TARGETS) as f64
    }

    fn page(&self, number: u64) -> String {
        let generation = number / self.replaced_every;
        let mut page = String::from("# TYPE m gauge\n");
        for at in 0..self.series {
            let generation = if at % 10 < 6 { generation } else { 0 };
            let _ = writeln!(
                page,
                "m{{at=\"{at}\",pod=\"with-a-long-name-{generation}\"}} {number}"
            );
        }
        page
    }
}

/// The server, its sender, and what was observed.
struct Scene {
    server: Running,
    sender: Option<Sender>,
    sent: Sent,
    rng: SplitMix64,
    first_ms: i64,
    /// Distinct responses of `/-/ready`.
    said: Vec<String>,
    refused: u64,
    peak_kb: u64,
}

impl Scene {
    /// Sends a request; without a response the connection is dropped.
    fn send(&mut self) -> bool {
        let (body, samples) = self.sent.next(self.first_ms, 0, &mut self.rng);
        if self.sender.is_none() {
            self.sender = Sender::new(&self.server).ok();
        }
        let answer = self.sender.as_mut().map(|sender| sender.send(&body));
        let taken = matches!(answer, Some(Ok(204)));
        if !matches!(answer, Some(Ok(_))) {
            self.sender = None;
        }
        let to = if taken {
            &mut self.sent.acknowledged
        } else {
            self.refused += 1;
            &mut self.sent.uncertain
        };
        add(to, &samples);
        taken
    }

    /// Sends for a while, and observes the server every second.
    fn run(&mut self, length: Duration, mut each_second: impl FnMut()) {
        let begin = Instant::now();
        let mut looked = 0;
        while begin.elapsed() < length {
            self.send();
            thread::sleep(PACE);
            if begin.elapsed().as_secs() > looked {
                looked = begin.elapsed().as_secs();
                self.look();
                each_second();
            }
        }
    }

    fn look(&mut self) {
        let healthy = client::get(&format!("{}/-/healthy", self.server.url));
        assert_eq!(healthy.status, 200);
        let ready = http::get(&format!("{}/-/ready", self.server.url)).unwrap();
        let text = ready.text().trim().to_owned();
        assert!(
            ready.status == 200 || (ready.status == 503 && !text.is_empty()),
            "{} {text:?}",
            ready.status
        );
        if !self.said.contains(&text) {
            self.said.push(text);
        }
        self.peak_kb = self.peak_kb.max(resident_kb(&self.server, "VmRSS:"));
    }

    fn metric(&self, name: &str) -> f64 {
        self.server.metric(&format!("{name} ")).unwrap_or_default()
    }
}

fn shorten(ballast: &Path, bytes: u64) {
    if let Ok(file) = OpenOptions::new().write(true).open(ballast)
        && let Ok(meta) = file.metadata()
    {
        let _ = file.set_len(meta.len().saturating_sub(bytes));
    }
}

fn start(data: &Path, config: &Path) -> Running {
    Running::of(
        support::server_in(data)
            .arg(support::config_flag(config))
            .arg("--web.enable-remote-write-receiver")
            .arg(format!("--memory.limit={LIMIT_MB}MB")),
    )
}

#[test]
#[ignore = "takes minutes and a loop device: make soak ONLY=disk"]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn a_disk_that_fills_and_empties_costs_nothing_that_was_acknowledged() {
    let minutes = std::env::var("NARTHEX_SOAK_MINUTES");
    let minutes = minutes.map_or(LEAST_MINUTES, |text| text.parse().unwrap());
    // In less time no block is written while the disk is full, and none are merged afterwards.
    assert!(
        minutes >= LEAST_MINUTES,
        "NARTHEX_SOAK_MINUTES is less than {LEAST_MINUTES}"
    );
    let scale = Arc::new(Scale::new(minutes));
    let dir = TempDir::new("full-disk");
    let disk = Loop::ext4(&dir.join("image"), dir.join("disk"), 320 << 20);
    let (data, ballast) = (disk.path().join("data"), disk.path().join("ballast"));
    let targets: Vec<Target> = (0..TARGETS)
        .map(|_| {
            let scale = Arc::clone(&scale);
            Target::start(move |number| scale.page(number))
        })
        .collect();
    let job = || Job {
        name: "fleet",
        targets: targets.iter().map(|target| &*target.address).collect(),
        more: "",
    };
    let config = support::config(&dir, "1s", &[job()]);
    let mut scene = Scene {
        server: start(&data, &config),
        sender: None,
        sent: Sent::default(),
        rng: support::rng(0x000f_0115),
        // Old enough for maintenance to write blocks at once.
        first_ms: now_ms() - 5 * 3_600_000,
        said: Vec::new(),
        refused: 0,
        peak_kb: 0,
    };
    scene.run(scale.before, || {});
    assert_eq!(scene.refused, 0, "{:?}", scene.said);
    let asked = targets[0].count();
    let before_kb = scene.peak_kb;

    fill(&ballast, true);
    let mut seconds = 0;
    scene.run(scale.full, || {
        seconds += 1;
        // Filling starts by emptying the file, so for a moment there is room.
        match seconds % 20 {
            0 | 5 => fill(&ballast, true),
            _ => shorten(&ballast, CRUMBS),
        }
    });
    assert!(scene.refused > 0, "the disk was full");
    assert!(targets[0].count() > asked, "scraping goes on");
    let while_full_kb = scene.peak_kb;
    println!(
        "full: {} refused, readiness said {:?}, {} failed flushes, {} failed writes, {before_kb} KiB before, {while_full_kb} KiB",
        scene.refused,
        scene.said,
        scene.metric("prometheus_tsdb_compactions_failed_total"),
        scene.metric("prometheus_tsdb_wal_writes_failed_total"),
    );

    fill(&ballast, false);
    until("writes are taken again", || scene.send().then_some(()));
    let (flushes, merges) = (
        scene.metric("prometheus_tsdb_compactions_total"),
        scene.metric("narthex_tsdb_merges_total"),
    );
    let refused = scene.refused;
    scene.run(scale.after, || {});
    assert_eq!(scene.refused, refused, "there is room");
    goes_on(&mut scene, flushes, merges);
    scene.sent.check(&scene.server.url, 0);
    let up = "count(up == 1)";
    scene.server.wait_vector(up, |up| {
        up.values().any(|(_, value)| *value == TARGETS as f64)
    });
    assert_eq!(scene.metric("narthex_tsdb_poisoned"), 0.0);
    // The count grows with every generation until older ones are flushed and forgotten.
    let series = until("series are forgotten", || {
        scene.send();
        let series = scene.metric("prometheus_tsdb_head_series");
        (series < 3.0 * scale.live()).then_some(series)
    });
    println!("{series} series in the head of {} live ones", scale.live());
    let resident_kb = resident_kb(&scene.server, "VmRSS:");
    println!(
        "at most {} KiB resident, {resident_kb} KiB at the end; {} samples acknowledged",
        scene.peak_kb,
        scene.sent.count()
    );
    assert!(scene.peak_kb < LIMIT_MB << 10, "{} KiB", scene.peak_kb);

    // Checks what a restart finds after a kill.
    scene.server.process.signal(SIGKILL);
    scene.server.process.wait_exit(support::PATIENCE);
    (scene.server, scene.sender) = (start(&data, &config), None);
    scene.sent.check(&scene.server.url, 1);
    for counter in [
        "prometheus_tsdb_wal_corruptions_total",
        "narthex_tsdb_block_corruptions_total",
        "narthex_tsdb_poisoned",
    ] {
        assert_eq!(scene.metric(counter), 0.0, "{counter}");
    }
    retention_makes_room(&mut scene, &config, &ballast);
    let log = scene.server.stop();
    assert!(!log.contains("panicked"), "{log}");
}

/// Fails unless blocks are written and merged, the WAL is truncated, and retention deletes blocks.
fn goes_on(scene: &mut Scene, flushes: f64, merges: f64) {
    until("blocks are written", || {
        scene.send();
        (scene.metric("prometheus_tsdb_compactions_total") > flushes).then_some(())
    });
    until("blocks are merged", || {
        scene.send();
        (scene.metric("narthex_tsdb_merges_total") > merges).then_some(())
    });
}

/// Fails unless retention that becomes due while the disk is full makes room for writes.
fn retention_makes_room(scene: &mut Scene, config: &Path, ballast: &Path) {
    until("a block", || {
        (scene.metric("prometheus_tsdb_blocks_loaded") > 0.0).then_some(())
    });
    fill(ballast, true);
    until("a write is refused", || (!scene.send()).then_some(()));
    let text = fs::read_to_string(config).unwrap();
    let bounded = format!("{text}storage: {{tsdb: {{retention: {{size: 100KB}}}}}}\n");
    fs::write(config, bounded).unwrap();
    scene.server.process.signal(SIGHUP);
    until("retention removes blocks", || {
        (scene.metric("prometheus_tsdb_size_retentions_total") > 0.0).then_some(())
    });
    until("writes are taken again", || scene.send().then_some(()));
    fill(ballast, false);
}
