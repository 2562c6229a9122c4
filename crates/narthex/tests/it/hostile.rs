//! Hostile targets and clients: memory stays bounded, and everybody else is served on time.
//!
//! **Invariant:** the second phase repeats everything done in the first, so growth in between means that the server
//! keeps something of it.

use crate::{
    client, messages,
    support::{self, Running, until},
    target::Target,
};
use narthex_testkit::{TempDir, http, proc::ProcFile, scaled};
use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Milliseconds between two scrapes.
const INTERVAL_MS: i64 = 500;
/// Longest page, in bytes.
const BODY_BYTES: usize = 1 << 20;

/// A target's reaction to a request, which it gets with the request's number.
pub(crate) type Deed = fn(&mut TcpStream, u64) -> io::Result<()>;

/// A target that answers each connection with a deed and closes it.
pub(crate) struct Villain {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    pub(crate) asked: Arc<AtomicU64>,
}

impl Villain {
    pub(crate) fn start(
        name: &'static str,
        deed: impl Fn(&mut TcpStream, u64) -> io::Result<()> + Clone + Send + 'static,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (asked, stop) = (Arc::new(AtomicU64::new(0)), Arc::clone(stop));
        let count = Arc::clone(&asked);
        // Ends with the process, since it blocks on accept.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let number = count.fetch_add(1, Ordering::SeqCst);
                let deed = deed.clone();
                thread::spawn(move || {
                    let mut stream = stream;
                    let patience = Some(Duration::from_secs(5));
                    let _ = stream.set_read_timeout(patience);
                    let _ = stream.set_write_timeout(patience);
                    let asked = BufReader::new(&stream)
                        .lines()
                        .map_while(Result::ok)
                        .find(String::is_empty);
                    if asked.is_some() {
                        // The other side may hang up midway; that is the point.
                        let _ = deed(&mut stream, number);
                    }
                });
            }
        });
        Self {
            name,
            address,
            asked,
        }
    }
}

pub(crate) fn head(stream: &mut TcpStream, more: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\n{more}\r\n")
}

/// Sends a complete page.
fn page(stream: &mut TcpStream, content_type: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    head(
        stream,
        &format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\n"),
    )?;
    stream.write_all(body)
}

const TEXT: &str = "text/plain; version=0.0.4";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0";
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Returns this many well compressible bytes, compressed by `program`.
pub(crate) fn bomb(program: &str, bytes: usize) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(["-c", "-9"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut into = child.stdin.take().unwrap();
    let feeding = thread::spawn(move || {
        let piece = vec![b'#'; 1 << 20];
        (0..bytes >> 20).try_for_each(|_| into.write_all(&piece))
    });
    let mut packed = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut packed)
        .unwrap();
    feeding.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success() && packed.len() < bytes / 100);
    packed
}

pub(crate) fn compressed(stream: &mut TcpStream, encoding: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    head(
        stream,
        &format!(
            "Content-Type: {TEXT}\r\nContent-Encoding: {encoding}\r\nContent-Length: {length}\r\n"
        ),
    )?;
    stream.write_all(body)
}

fn for_ever(stream: &mut TcpStream, piece: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(piece)?;
    }
}

/// Everything that is done to a scraper.
const DEEDS: &[(&str, Deed)] = &[
    ("endless", |stream, _| {
        head(stream, &format!("Content-Type: {TEXT}\r\n"))?;
        for_ever(stream, &b"endless{a=\"b\"} 1\n".repeat(1000))
    }),
    ("endless-chunks", |stream, _| {
        head(
            stream,
            &format!("Content-Type: {TEXT}\r\nTransfer-Encoding: chunked\r\n"),
        )?;
        for_ever(stream, b"6\r\na{} 1\n\r\n")
    }),
    ("endless-line", |stream, _| {
        head(stream, &format!("Content-Type: {TEXT}\r\n"))?;
        for_ever(stream, &[b'a'; 1 << 16])
    }),
    ("line", |stream, _| {
        page(stream, TEXT, &vec![b'a'; BODY_BYTES - 2])
    }),
    ("endless-head", |stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\n")?;
        for_ever(stream, b"X-More: more and more\r\n")
    }),
    ("endless-status", |stream, _| {
        for_ever(stream, b"HTTP/1.1 200 ")
    }),
    ("gzip", |stream, number| {
        static BOMB: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let bomb = BOMB.get_or_init(|| bomb("gzip", 64 << 20));
        compressed(
            stream,
            if number.is_multiple_of(2) {
                "gzip"
            } else {
                "zstd"
            },
            bomb,
        )
    }),
    ("zstd", |stream, _| {
        compressed(
            stream,
            "zstd",
            b"\x28\xb5\x2f\xfd\xe4\xff\xff\xff\xff\xff\xff\xff\x7f\0",
        )
    }),
    ("new-names", |stream, number| {
        let mut body = String::new();
        for at in 0..20_000_u64 {
            let _ = writeln!(body, "m{{l{}=\"v\"}} 1", number * 20_000 + at);
        }
        page(stream, TEXT, body.as_bytes())
    }),
    ("new-labels", |stream, number| {
        let mut body = "m{".to_owned();
        for at in 0..20_000_u64 {
            let _ = write!(body, "l{}=\"v\",", number * 20_000 + at);
        }
        body.push_str("} 1\n");
        page(stream, TEXT, body.as_bytes())
    }),
    ("lengths", |stream, number| {
        let claims: [&[u8]; 4] = [
            b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x0a\x01a",
            b"\x80\x80\x80\x80\x08\x0a\xff\xff\xff\x7f",
            b"\x0c\x0a\x01a\x18\x04\x22\x05\x3a\x03\x6a\xff\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        page(stream, PROTOBUF, claims[number as usize % claims.len()])
    }),
    ("deep", |stream, _| {
        // A message nested 5,000 levels deep.
        let deep = (0..5_000).fold(messages::Message::new(), |inner, _| {
            messages::Message::new().part(4, inner)
        });
        page(stream, PROTOBUF, &deep.delimited())
    }),
    ("buckets", |stream, number| {
        let mut body = "# TYPE h histogram\n".to_owned();
        for at in 0..20_000_u64 {
            let _ = writeln!(body, "h_bucket{{le=\"{}\"}} {number}", at + number % 3);
        }
        body.push_str("h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n");
        page(stream, TEXT, body.as_bytes())
    }),
    ("native-buckets", |stream, _| {
        let spans = (0..30_000).map(|_| messages::span(1, 1));
        let native = messages::Message::new()
            .integer(1, 1)
            .double(2, 1.0)
            .signed(5, 3);
        let native = native.parts(12, spans);
        let family = messages::family("h", 4).part(4, messages::metric(&[]).part(7, native));
        page(stream, PROTOBUF, &family.delimited())
    }),
    ("exemplar", |stream, _| {
        let text = "x".repeat(BODY_BYTES / 2);
        let body = format!("# TYPE a counter\na_total 1 # {{trace=\"{text}\"}} 1\n# EOF\n");
        page(stream, OPENMETRICS, body.as_bytes())
    }),
    ("no-end", |stream, _| {
        page(stream, OPENMETRICS, b"# TYPE a counter\na_total 1\n")
    }),
    ("too-short", |stream, _| {
        head(
            stream,
            &format!("Content-Type: {TEXT}\r\nContent-Length: 900000000000\r\n"),
        )?;
        stream.write_all(b"a 1\n")
    }),
    ("too-long", |stream, _| {
        head(
            stream,
            &format!("Content-Type: {TEXT}\r\nContent-Length: 4\r\n"),
        )?;
        for_ever(stream, b"a 1\n")
    }),
    ("odd-length", |stream, number| {
        let lengths = [
            "-1",
            "99999999999999999999",
            "4\r\nContent-Length: 5",
            "0x10",
        ];
        let length = lengths[number as usize % lengths.len()];
        head(
            stream,
            &format!("Content-Type: {TEXT}\r\nContent-Length: {length}\r\n"),
        )?;
        stream.write_all(b"a 1\n")
    }),
    ("odd-chunks", |stream, number| {
        head(stream, "Transfer-Encoding: chunked\r\n")?;
        let chunks: [&[u8]; 3] = [b"ffffffffffffffff\r\na", b"-5\r\n", b"2;x=\"\r\n\r\n"];
        stream.write_all(chunks[number as usize % chunks.len()])
    }),
    ("loop", |stream, _| {
        write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: /metrics\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    }),
    ("slow", |stream, _| {
        head(stream, &format!("Content-Type: {TEXT}\r\n"))?;
        for _ in 0..8 {
            stream.write_all(b"#")?;
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }),
    ("silent", |stream, _| stream.read(&mut [0]).map(|_| ())),
    ("gone", |_, _| Ok(())),
];

fn configure(dir: &TempDir, villains: &[Villain], good: &[Target]) -> std::path::PathBuf {
    let mut text = format!(
        "global: {{scrape_interval: {INTERVAL_MS}ms, scrape_timeout: {INTERVAL_MS}ms}}\nscrape_configs:\n"
    );
    for villain in villains {
        let _ = writeln!(
            text,
            "- job_name: {}\n  body_size_limit: {BODY_BYTES}B\n  sample_limit: 1000\n  label_limit: 100\n  \
             scrape_native_histograms: true\n  native_histogram_bucket_limit: 100\n  \
             convert_classic_histograms_to_nhcb: {}\n  static_configs: [{{targets: ['{}']}}]",
            villain.name,
            villain.name == "buckets",
            villain.address
        );
    }
    let addresses: Vec<&str> = good.iter().map(|target| target.address.as_str()).collect();
    let _ = writeln!(
        text,
        "- job_name: good\n  static_configs: [{{targets: {addresses:?}}}]"
    );
    dir.write("p.yml", text)
}

/// Opens connections that stay idle, or nearly.
fn idlers(address: &str) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for at in 0..200 {
        // The server refuses connections beyond its limit.
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        let _ = match at % 4 {
            0 => Ok(()),
            1 => stream.write_all(b"GET /api/v1/query?query=up HTTP/1.1\r\nHost: "),
            2 => stream.write_all(
                b"POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx",
            ),
            // Requests everything and reads nothing.
            _ => stream.write_all(
                b"GET /federate?match[]=%7B__name__%3D~%22.%2B%22%7D HTTP/1.1\r\nHost: x\r\n\r\n",
            ),
        };
        held.push(stream);
    }
    held
}

/// Sends requests that only an attacker would; each must get a response that is an error.
fn abuse(server: &Running) {
    let write = format!("{}/api/v1/write", server.url);
    let send = |body: &[u8]| {
        let headers = [
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "snappy"),
        ];
        http::request("POST", &write, &headers, body)
    };
    // The first body claims four gigabytes; the second copies itself endlessly.
    let claim = b"\xff\xff\xff\xff\x0f\x00a";
    let mut copies = b"\x80\x80\x80\x10\x00a".to_vec();
    copies.extend(b"\xfe\x01\x00".repeat(100_000));
    for body in [claim.to_vec(), copies, vec![0xff; 1 << 20]] {
        let answer = send(&body).unwrap();
        assert!((400..500).contains(&answer.status), "{}", answer.status);
    }
    let query = format!("{}/api/v1/query", server.url);
    let nested = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let sums = format!("{}up{}", "sum(".repeat(50_000), ")".repeat(50_000));
    // Each pattern is acceptable; together they would take gigabytes.
    let patterns = (0..300).map(|n| format!("up{{a=~\"\\\\pL{{200}}{n}\"}}"));
    let patterns = patterns.collect::<Vec<_>>().join(" or ");
    let doubled = format!(
        "{}up{}",
        "label_join(".repeat(40),
        ",\"job\",\"\",\"job\",\"job\")".repeat(40)
    );
    let wide = "up + ".repeat(200_000) + "up";
    for text in [nested, sums, patterns, doubled, wide] {
        let answer = http::post_form(&query, &[("query", &text)]).unwrap();
        assert!((400..500).contains(&answer.status), "{}", answer.status);
    }
    let form = |body: &[u8]| http::post(&query, "application/x-www-form-urlencoded", body);
    let many = form(&b"a&".repeat(5 << 20)).unwrap();
    assert!([400, 503].contains(&many.status), "{}", many.status);
    let huge = vec![b'a'; 32 << 20];
    // The server may hang up instead of reading all of it.
    if let Ok(answer) = http::post(&query, "application/x-www-form-urlencoded", &huge) {
        assert!((400..500).contains(&answer.status), "{}", answer.status);
    }
    let head = format!("X-{}", "a".repeat(1 << 16));
    if let Ok(answer) = http::request("GET", &query, &[(&head, "b")], b"") {
        assert!((400..500).contains(&answer.status), "{}", answer.status);
    }
}

pub(crate) fn resident_kb(server: &Running, key: &str) -> u64 {
    let status = ProcFile::read(server.process.pid(), "status").unwrap();
    status.number(key).unwrap()
}

/// Runs everything `rounds` times.
fn phase(server: &Running, villains: &[Villain], rounds: u64) {
    let before: Vec<u64> = villains
        .iter()
        .map(|villain| villain.asked.load(Ordering::SeqCst))
        .collect();
    for _ in 0..rounds {
        let held = idlers(server.address());
        abuse(server);
        drop(held);
    }
    for (villain, before) in villains.iter().zip(before) {
        until(villain.name, || {
            (villain.asked.load(Ordering::SeqCst) >= before + rounds).then_some(())
        });
    }
}

#[test]
fn hostile_targets_and_clients_cost_nobody_else() {
    let stop = Arc::new(AtomicBool::new(false));
    let dir = TempDir::new("hostile");
    let villains: Vec<Villain> = DEEDS
        .iter()
        .map(|(name, deed)| Villain::start(name, *deed, &stop))
        .collect();
    let good: Vec<Target> = (0..5)
        .map(|_| {
            Target::start(|number| format!("# TYPE pages_total counter\npages_total {number}\n"))
        })
        .collect();
    let config = configure(&dir, &villains, &good);
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .arg("--web.enable-remote-write-receiver");
    let server = Running::of(spawn);
    server.wait_vector("count(up{job=\"good\"} == 1)", |found| {
        found.get("{}").is_some_and(|(_, count)| *count == 5.0)
    });
    let begin = resident_kb(&server, "VmRSS:");
    let rounds = scaled(3);
    phase(&server, &villains, rounds);
    let once = resident_kb(&server, "VmRSS:");
    phase(&server, &villains, rounds);
    let twice = resident_kb(&server, "VmRSS:");
    let most = resident_kb(&server, "VmHWM:");
    println!("{rounds} rounds twice: {begin} KiB resident, then {once}, then {twice}; most {most}");
    // The allocator does not keep the same amount every time, on a busy machine a third more or less.
    assert!(
        twice <= once + once / 2 + 30_000,
        "{twice} KiB after {once}"
    );
    assert!(most < 1_000_000, "{most} KiB at most");
    let missed = server
        .metric("narthex_scrape_missed_total ")
        .unwrap_or_default();
    let up = client::matrix(&server.url, "up{job=\"good\"}[1h]");
    assert_eq!(up.len(), 5);
    let mut gaps = 0;
    for samples in up.values() {
        let times: Vec<i64> = samples.keys().copied().collect();
        let span = times[times.len() - 1] - times[0];
        gaps += (span + INTERVAL_MS / 2) / INTERVAL_MS + 1 - times.len() as i64;
    }
    println!("{gaps} gaps, {missed} scrapes left out by a busy machine");
    assert!(gaps as f64 <= missed, "{gaps} gaps, {missed} excused");
    // Refused targets report why and store nothing of their pages.
    let accepted = client::vector(&server.url, "up == 1", None);
    let accepted: Vec<&str> = villains
        .iter()
        .map(|villain| villain.name)
        .filter(|name| {
            accepted
                .keys()
                .any(|labels| labels.contains(&format!("job=\"{name}\"")))
        })
        .collect();
    println!("taken: {accepted:?}");
    let series = server.metric("prometheus_tsdb_head_series ").unwrap();
    assert!(series < 20_000.0, "{series} series");
    let log = server.stop();
    assert!(!log.contains("panicked"), "{log}");
    stop.store(true, Ordering::SeqCst);
}
