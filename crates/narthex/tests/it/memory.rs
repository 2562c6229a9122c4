//! A server of 512 MiB under attacks that want more: each is refused, and nobody else notices.
//!
//! **Invariant:** while attacks go on, a target of good will is scraped every second and `/-/healthy` is asked all the
//! time; what is counted is counted in rounds, because the machine may be busy with much else.

use crate::{
    client,
    hostile::{self, Villain, bomb, compressed, head, resident_kb},
    support::{self, Running, until},
    target::Target,
};
use narthex_testkit::{
    TempDir, http,
    remote_write::{self, Request, Series},
    scaled,
};
use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

const LIMIT_MB: u64 = 512;
/// Milliseconds between scrapes of the good target.
const INTERVAL_MS: i64 = 1000;

/// What is behind a megabyte of gzip.
fn gigabyte() -> &'static [u8] {
    static BOMB: OnceLock<Vec<u8>> = OnceLock::new();
    BOMB.get_or_init(|| bomb("gzip", 1 << 30))
}

/// Lines of `count` series that no page had before.
fn fresh_series(number: u64, from: u64, count: u64) -> String {
    let mut lines = String::new();
    for at in from..from + count {
        let _ = writeln!(lines, "m{number}_{at} 1");
    }
    lines
}

const TEXT: &str = "Content-Type: text/plain; version=0.0.4\r\n";

/// What targets do to the scraper.
const TARGETS: &[(&str, hostile::Deed)] = &[
    ("gigabyte", |stream, _| {
        compressed(stream, "gzip", gigabyte())
    }),
    ("ten-million", |stream, number| {
        head(stream, TEXT)?;
        for piece in 0..1000 {
            stream.write_all(fresh_series(number, piece * 10_000, 10_000).as_bytes())?;
        }
        Ok(())
    }),
    // Short enough to be read, and more series than one target may have.
    ("short-names", |stream, _| {
        head(stream, TEXT)?;
        for piece in 0..60 {
            stream.write_all(fresh_series(0, piece * 10_000, 10_000).as_bytes())?;
        }
        Ok(())
    }),
    // Every page has other series: the head fills, page by page.
    ("churn", |stream, number| {
        head(stream, TEXT)?;
        stream.write_all(fresh_series(number, 0, 10_000).as_bytes())
    }),
];

fn configure(dir: &TempDir, villains: &[Villain], good: &Target) -> std::path::PathBuf {
    let mut text =
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n".to_owned();
    for villain in villains {
        let interval = if villain.name == "churn" { "2s" } else { "8s" };
        let _ = writeln!(
            text,
            "- job_name: {}\n  scrape_interval: {interval}\n  scrape_timeout: {interval}\n  static_configs: \
             [{{targets: ['{}']}}]",
            villain.name, villain.address
        );
    }
    let _ = writeln!(
        text,
        "- job_name: good\n  static_configs: [{{targets: ['{}']}}]",
        good.address
    );
    dir.write("p.yml", text)
}

/// Asks for health all the time.
struct Pulse {
    stop: Arc<AtomicBool>,
    asking: thread::JoinHandle<Vec<Duration>>,
}

impl Pulse {
    fn start(url: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (url, ended) = (format!("{url}/-/healthy"), Arc::clone(&stop));
        let asking = thread::spawn(move || {
            let mut times = Vec::new();
            while !ended.load(Ordering::SeqCst) {
                let start = Instant::now();
                let answer = http::get(&url).unwrap();
                assert_eq!(answer.status, 200);
                times.push(start.elapsed());
                thread::sleep(Duration::from_millis(20));
            }
            times.sort();
            times
        });
        Self { stop, asking }
    }

    fn end(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::SeqCst);
        self.asking.join().unwrap()
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, content.len());
    out.extend_from_slice(content);
}

/// A request of version 2 with a symbol of a megabyte, and `series` times the same series.
fn one_long_symbol(series: &[u8], count: usize) -> Vec<u8> {
    let mut body = Vec::new();
    field(&mut body, 4, b"");
    field(&mut body, 4, b"__name__");
    field(&mut body, 4, &vec![b'x'; 1_000_000]);
    for _ in 0..count {
        field(&mut body, 5, series);
    }
    body
}

/// What a sender does to the receiver; returns the statuses.
fn write_attacks(server: &Running) -> Vec<u16> {
    let version_2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
    let mut statuses = Vec::new();
    let mut send = |content_type: &str, plain: &[u8]| {
        let body = remote_write::snappy(plain);
        let answer = remote_write::send(&server.url, content_type, &body).unwrap();
        statuses.push(answer.status);
    };
    // Labels that name it, without a sample; metadata that does; an exemplar that does.
    let sample = [0x12, 0x0b, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x10, 1];
    let no_sample = b"\x0a\x04\x01\x02\x02\x02".to_vec();
    let metadata = [b"\x0a\x02\x01\x02\x2a\x04\x08\x01\x18\x02", &sample[..]].concat();
    let exemplar = [b"\x0a\x02\x01\x02\x22\x04\x0a\x02\x01\x02", &sample[..]].concat();
    for series in [no_sample, metadata, exemplar] {
        send(version_2, &one_long_symbol(&series, 100_000));
    }
    // Labels without a name or a value, one for every two bytes.
    let mut request = Vec::new();
    field(&mut request, 1, &b"\x0a\x00".repeat(8 << 20));
    send("application/x-protobuf", &request);
    statuses
}

/// Series that nobody has sent before, a request's worth at a time.
fn flood_of_series(server: &Running, requests: u64) -> Vec<u16> {
    let time_ms = now_ms();
    let statuses = (0..requests).map(|number| {
        let series = (0..20_000).map(|at| {
            let name = format!("w{number}_{at}");
            Series::new(&[("__name__", &name), ("job", "flood")], &[(time_ms, 1.0)])
        });
        let request = Request {
            series: series.collect(),
            ..Request::default()
        };
        request.send(&server.url).unwrap().status
    });
    statuses.collect()
}

/// Clients that ask for everything and read a byte a second.
fn slow_readers(server: &Running) -> Vec<TcpStream> {
    let ask = |at: usize| {
        let mut stream = TcpStream::connect(server.address()).ok()?;
        let path = match at % 2 {
            0 => "/federate?match[]=%7B__name__%3D~%22.%2B%22%7D",
            _ => "/api/v1/query?query=%7B__name__%3D~%22.%2B%22%7D",
        };
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
        Some(stream)
    };
    (0..40).filter_map(ask).collect()
}

fn last_error(server: &Running, job: &str) -> Option<String> {
    let targets = server.data("/api/v1/targets", &[("scrapePool", job)]);
    let target = &targets["activeTargets"][0];
    let down = target["health"] == "down";
    down.then(|| target["lastError"].as_str().unwrap().to_owned())
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn attacks_on_memory_are_refused_and_nobody_else_notices() {
    let stop = Arc::new(AtomicBool::new(false));
    let dir = TempDir::new("memory");
    gigabyte();
    let villains: Vec<Villain> = TARGETS
        .iter()
        .map(|(name, deed)| Villain::start(name, *deed, &stop))
        .collect();
    let good =
        Target::start(|number| format!("# TYPE pages_total counter\npages_total {number}\n"));
    let config = configure(&dir, &villains, &good);
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .arg(format!("--memory.limit={LIMIT_MB}MB"))
        .arg("--web.enable-remote-write-receiver");
    let server = Running::of(spawn);
    let pulse = Pulse::start(&server.url);
    let mut refused = Vec::new();
    let mut taken = Vec::new();
    for round in 0..scaled(1) {
        refused.extend(write_attacks(&server));
        taken.extend(flood_of_series(&server, 8 + round));
        let mut readers = slow_readers(&server);
        for _ in 0..3 {
            for stream in &mut readers {
                let patience = Some(Duration::from_millis(1));
                let _ = stream.set_read_timeout(patience);
                let _ = stream.read(&mut [0]);
            }
        }
    }
    println!("malformed writes {refused:?}, floods {taken:?}");
    let expected = |status: &u16| matches!(status, 400..=499 | 503 | 204);
    assert!(refused.iter().chain(&taken).all(expected));
    for (job, words) in [
        ("gigabyte", "no memory for"),
        ("ten-million", "memory"),
        ("short-names", "memory"),
    ] {
        let error = until(job, || last_error(&server, job));
        println!("{job}: {error}");
        assert!(error.contains(words), "{job}: {error}");
    }
    let churn = &villains[3];
    let rounds = churn.asked.load(Ordering::SeqCst) + scaled(3);
    until("pages of other series", || {
        (churn.asked.load(Ordering::SeqCst) >= rounds).then_some(())
    });
    // What was refused for a while is not refused for ever.
    until("queries are answered", || {
        let pressure = server.metric("narthex_memory_pressure ")?;
        (pressure < 3.0).then_some(())
    });
    for share in server.data("/api/v1/status/memory", &[])["shares"]
        .as_array()
        .unwrap()
    {
        println!("{share}");
    }
    let times = pulse.end();
    let (p99, most) = (times[times.len() * 99 / 100], times[times.len() - 1]);
    let peak = resident_kb(&server, "VmHWM:");
    println!(
        "healthy {} times, p99 {p99:?}, at most {most:?}; {peak} KiB resident at most",
        times.len()
    );
    assert!(peak < LIMIT_MB << 10, "{peak} KiB");
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
    let up = client::matrix(&server.url, "up{job=\"good\"}[1h]");
    let scrapes: Vec<i64> = up
        .values()
        .flat_map(|samples| samples.keys().copied())
        .collect();
    let rounds = (scrapes[scrapes.len() - 1] - scrapes[0] + INTERVAL_MS / 2) / INTERVAL_MS + 1;
    let missed = rounds - scrapes.len() as i64;
    let all_up = up.values().flat_map(|samples| samples.values());
    let failed = all_up.filter(|bits| f64::from_bits(**bits) != 1.0).count();
    println!("{missed} of {rounds} rounds missed, {failed} failed");
    assert!(
        missed <= 1 + rounds / 4 && failed <= 1,
        "{missed} missed, {failed} failed"
    );
    let log = server.stop();
    assert!(!log.contains("panicked"), "{log}");
    stop.store(true, Ordering::SeqCst);
}
