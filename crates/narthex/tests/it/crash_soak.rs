//! Rounds of ingest, a system fault and `kill -9`: after the restart every acknowledged sample is there with its value,
//! and nothing that was never sent.
//!
//! Samples come by remote write, since a sender knows which are acknowledged. They are of one origin, so that they make
//! rows; the log goes on in another file every few dozen requests, and many of its files begin with something else: with
//! late samples, or with series that are new. Faults are the system's: no descriptors left, a disk that fills and may
//! be freed, a limit on file size (which kills the process during a write), signals at any moment.
//!
//! `NARTHEX_TEST_SCALE=20` runs the thousand rounds of a soak.

use crate::{
    client::{self, Matrix},
    disk::Tmpfs,
    support::{self, PATIENCE, Running, until},
    target::now_ms,
};
use narthex_testkit::{
    TempDir,
    process::SIGKILL,
    remote_write::{Request, Series, snappy},
    rng::SplitMix64,
    scaled,
};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Series of a request that makes a row; fewer of an origin would make none.
const SERIES: usize = 20;
/// Bytes after which the log goes on in another file.
const LOG_FILE_BYTES: u64 = 8_000;
/// Rounds until everything is compared once more and the next ones start with an empty disk.
const GENERATION: u64 = 25;
/// Longest life of a server: most end before maintenance runs, some after.
const SHORT_MS: u64 = 400;
const LONG_MS: u64 = 1_600;

/// Fault during a life, and how it ends.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// No fault before the kill.
    Kill,
    /// No descriptors are left from some moment on.
    Descriptors,
    /// The disk is full for a while.
    Full,
    /// File size is limited: the kernel kills the process during a write.
    FileSize,
    /// SIGTERM, and perhaps SIGKILL before the process has ended.
    Terminate,
}

const TROUBLES: [Trouble; 5] = [
    Trouble::Kill,
    Trouble::Descriptors,
    Trouble::Full,
    Trouble::FileSize,
    Trouble::Terminate,
];

/// Samples sent, by whether they were acknowledged.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) acknowledged: Matrix,
    /// Samples that may be stored: their requests failed or got no response.
    pub(crate) uncertain: Matrix,
    step: i64,
    requests: u64,
}

pub(crate) fn add(to: &mut Matrix, samples: &[(String, i64, f64)]) {
    for (series, time_ms, value) in samples {
        let samples = to.entry(series.clone()).or_default();
        samples.insert(*time_ms, client::bits(*value));
    }
}

impl Sent {
    /// Returns the next request: its body, and its samples as they are read back.
    pub(crate) fn next(
        &mut self,
        first_ms: i64,
        round: u64,
        rng: &mut SplitMix64,
    ) -> (Vec<u8>, Vec<(String, i64, f64)>) {
        self.step += 1;
        let time_ms = first_ms + self.step * 50;
        let mut samples = Vec::new();
        let mut request = Request::default();
        let (late, fresh) = (rng.one_in(3), rng.one_in(8));
        for at in 0..SERIES {
            if late && rng.below(SERIES as u64) > 1 {
                continue;
            }
            // Some series exist for one round only, and some for one request.
            let name = match at {
                0 if fresh => format!("{round}-step-{}", self.step),
                0..3 => format!("{round}-{at}"),
                _ => at.to_string(),
            };
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let value = (rng.below(1 << 40) as f64) / 8.0;
            // One series is late, so its samples are not in the same row as the others; all of some requests are.
            let time_ms = if at == 5 || late {
                time_ms - 1_000_025
            } else {
                time_ms
            };
            let labels = [
                ("__name__", "crash"),
                ("instance", "i"),
                ("job", "j"),
                ("s", &name),
            ];
            request
                .series
                .push(Series::new(&labels, &[(time_ms, value)]));
            let series = format!("crash{{instance=\"i\",job=\"j\",s={name:?}}}");
            samples.push((series, time_ms, value));
        }
        (snappy(&request.v1()), samples)
    }

    /// Fails unless everything acknowledged is served, and nothing that was not sent.
    pub(crate) fn check(&self, base: &str, round: u64) {
        let found = client::matrix(base, "crash[1d]");
        for (series, samples) in &self.acknowledged {
            let kept = found.get(series);
            for (time_ms, bits) in samples {
                assert_eq!(
                    kept.and_then(|kept| kept.get(time_ms)),
                    Some(bits),
                    "round {round}: {series} at {time_ms} was acknowledged and is lost or changed"
                );
            }
        }
        for (series, samples) in &found {
            for (time_ms, bits) in samples {
                let sent = [&self.acknowledged, &self.uncertain];
                let known = |all: &&Matrix| {
                    all.get(series).and_then(|samples| samples.get(time_ms)) == Some(bits)
                };
                assert!(
                    sent.iter().any(known),
                    "round {round}: {series} at {time_ms} was never sent"
                );
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.acknowledged.values().map(BTreeMap::len).sum()
    }
}

/// A connection that is kept open, since a server without descriptors cannot accept another.
pub(crate) struct Sender {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Sender {
    pub(crate) fn new(server: &Running) -> io::Result<Self> {
        let stream = TcpStream::connect(server.address())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            address: server.address().to_owned(),
        })
    }

    /// Sends a request; returns the status.
    pub(crate) fn send(&mut self, body: &[u8]) -> io::Result<u16> {
        let head = format!(
            "POST /api/v1/write HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
             X-Prometheus-Remote-Write-Version: 0.1.0\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let message = [head.as_bytes(), body].concat();
        self.stream.get_mut().write_all(&message)?;
        Ok(narthex_testkit::http::read_response(&mut self.stream, true)?.status)
    }
}

/// Sets a soft limit of a running process.
fn limit(server: &Running, resource: Resource, current: u64) {
    let pid = Pid::from_raw(server.process.pid().cast_signed());
    let limits = Rlimit {
        current: Some(current),
        maximum: rustix::process::getrlimit(resource).maximum,
    };
    prlimit(pid, resource, limits).expect("the limit of a child can be set");
}

fn descriptors(server: &Running) -> u64 {
    let path = format!("/proc/{}/fd", server.process.pid());
    fs::read_dir(path).map_or(0, |entries| entries.count() as u64)
}

/// Fills a round's disk, or frees it again.
pub(crate) fn fill(ballast: &Path, full: bool) {
    if !full {
        let _ = fs::remove_file(ballast);
        return;
    }
    let Ok(mut file) = fs::File::create(ballast) else {
        return;
    };
    for size in [1 << 20, 1 << 12, 1] {
        let zeros = vec![0; size];
        while file.write_all(&zeros).is_ok() {}
    }
}

/// One life of a server, from start to death.
struct Life<'a> {
    data: &'a Path,
    ballast: &'a Path,
    config: &'a Path,
    first_ms: i64,
    round: u64,
}

impl Life<'_> {
    fn start(&self) -> Running {
        Running::of(
            support::server_in(self.data)
                .arg(support::config_flag(self.config))
                .arg("--web.enable-remote-write-receiver")
                .arg(format!("--storage.tsdb.wal-segment-size={LOG_FILE_BYTES}B")),
        )
    }

    fn live(&self, trouble: Trouble, sent: &mut Sent, rng: &mut SplitMix64) {
        let mut server = self.start();
        sent.check(&server.url, self.round);
        let most = if self.round.is_multiple_of(6) {
            LONG_MS
        } else {
            SHORT_MS
        };
        let life = Duration::from_millis(rng.below(most));
        let at = Duration::from_millis(rng.below(most)).min(life);
        let size = rng.below(LOG_FILE_BYTES);
        let begin = Instant::now();
        let (mut began, mut ended) = (false, false);
        if let Ok(mut sender) = Sender::new(&server) {
            while begin.elapsed() < life {
                if !began && begin.elapsed() >= at {
                    began = true;
                    match trouble {
                        Trouble::Descriptors => {
                            let used = descriptors(&server) + rng.below(3);
                            limit(&server, Resource::Nofile, used);
                        }
                        Trouble::Full => fill(self.ballast, true),
                        Trouble::FileSize => limit(&server, Resource::Fsize, size),
                        Trouble::Terminate => server.process.signal(15),
                        Trouble::Kill => {}
                    }
                }
                // In half of the rounds the disk gets room again in the same life.
                if began
                    && !ended
                    && begin.elapsed() >= (at + life) / 2
                    && self.round.is_multiple_of(2)
                {
                    ended = true;
                    fill(self.ballast, false);
                }
                let (body, samples) = sent.next(self.first_ms, self.round, rng);
                sent.requests += 1;
                match sender.send(&body) {
                    Ok(204) => add(&mut sent.acknowledged, &samples),
                    Ok(_) => add(&mut sent.uncertain, &samples),
                    Err(_) => {
                        add(&mut sent.uncertain, &samples);
                        break;
                    }
                }
            }
        }
        // The rest of the life: a random moment of death is the point of this test, this is not a wait for something.
        thread::sleep(life.saturating_sub(begin.elapsed()));
        server.process.signal(SIGKILL);
        server.process.wait_exit(PATIENCE);
        fill(self.ballast, false);
    }
}

#[test]
fn rounds_of_faults_and_kills_lose_nothing_acknowledged() {
    let dir = TempDir::new("crash-soak");
    let config = support::config(&dir, "1h", &[]);
    let mut rng = support::rng(0x000c_7a54);
    let rounds = scaled(50).min(1_000);
    let begun = Instant::now();
    let (mut totals, mut files) = ((0, 0, 0), 0);
    let mut by_trouble: BTreeMap<String, u64> = BTreeMap::new();
    let mut round = 0;
    while round < rounds {
        let disk = Tmpfs::mount(dir.path().join(format!("disk-{round}")), "size=24m");
        let data = disk.path().join("data");
        let ballast = disk.path().join("ballast");
        // Old enough for maintenance to write blocks at once.
        let first_ms = now_ms() - 3 * 3_600_000;
        let mut sent = Sent::default();
        for _ in 0..GENERATION.min(rounds - round) {
            let trouble = TROUBLES[rng.index(TROUBLES.len())];
            *by_trouble.entry(format!("{trouble:?}")).or_default() += 1;
            let life = Life {
                data: &data,
                ballast: &ballast,
                config: &config,
                first_ms,
                round,
            };
            life.live(trouble, &mut sent, &mut rng);
            files = files.max(support::files_below(&data, "/wal/").len());
            round += 1;
        }
        let life = Life {
            data: &data,
            ballast: &ballast,
            config: &config,
            first_ms,
            round,
        };
        let server = life.start();
        sent.check(&server.url, round);
        let blocks = until("blocks", || {
            server
                .metric("prometheus_tsdb_blocks_loaded")
                .filter(|blocks| *blocks > 0.0)
        });
        assert_eq!(server.metric("narthex_tsdb_poisoned"), Some(0.0));
        assert_eq!(
            server.metric("prometheus_tsdb_wal_corruptions_total"),
            Some(0.0)
        );
        assert_eq!(
            server.metric("narthex_tsdb_block_corruptions_total"),
            Some(0.0)
        );
        server.stop();
        let uncertain: usize = sent.uncertain.values().map(BTreeMap::len).sum();
        totals.0 += sent.requests;
        totals.1 += sent.count();
        totals.2 += uncertain;
        println!("after {round} rounds: {blocks} blocks");
    }
    println!(
        "{rounds} rounds in {:?}: {by_trouble:?}; {} requests, {} samples acknowledged and found again, {} of unknown fate",
        begun.elapsed(),
        totals.0,
        totals.1,
        totals.2
    );
    assert!(totals.1 > rounds as usize * 20, "{totals:?}");
    // One for each life if none goes on in another.
    assert!(files > 2 * GENERATION as usize, "{files} files");
}
