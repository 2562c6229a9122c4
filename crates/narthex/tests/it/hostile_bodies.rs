//! Hostile bodies for the receivers of pushes and of remote write: every one is answered or cut off, memory stays flat,
//! and honest senders are served in between.
//!
//! `NARTHEX_TEST_SCALE=40` sends the ten thousand of a soak.

use crate::{
    hostile::bomb,
    support::{self, Running, rng},
    target::now_ms,
};
use narthex_testkit::{
    TempDir, http,
    proc::ProcFile,
    remote_write::{Request, Series, snappy},
    rng::SplitMix64,
    scaled, workspace_root,
};
use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

const LIMIT: &str = "256MB";
/// How much more memory may be resident after the second half than after the first.
const GROWTH_BYTES: f64 = 24e6;
/// Time within which a body without end is cut off: as long as a receiver waits, and reads on for its answer's sake.
const CUT_OFF: Duration = Duration::from_secs(20);

const V1: &str = "application/x-protobuf";
const V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
const FRAMES: &str = "application/vnd.narthex.frames;version=2";

/// Where a body is sent, and as what.
#[derive(Clone, Copy, Debug)]
struct Way {
    path: &'static str,
    content_type: &'static str,
    encoding: &'static str,
}

const WAYS: [Way; 7] = [
    write_as(V1),
    write_as(V2),
    write_as(FRAMES),
    push_as("/metrics/job/hostile", "text/plain", ""),
    push_as("/metrics/job/hostile", "text/plain", "gzip"),
    push_as("/metrics/job/hostile", "text/plain", "snappy"),
    push_as("/api/v1/push?group-by=job", "text/plain", "gzip"),
];

const fn write_as(content_type: &'static str) -> Way {
    Way {
        path: "/api/v1/write",
        content_type,
        encoding: "snappy",
    }
}

const fn push_as(path: &'static str, content_type: &'static str, encoding: &'static str) -> Way {
    Way {
        path,
        content_type,
        encoding,
    }
}

/// Bodies that are made once.
struct Stock {
    gzip: Vec<u8>,
    snappy: Vec<u8>,
    honest: Vec<Vec<u8>>,
}

impl Stock {
    fn new() -> Self {
        let series = |at: u64| {
            let name = format!("honest_{at}");
            Series::new(&[("__name__", &*name), ("job", "j")], &[(now_ms(), 1.0)])
        };
        let request = Request {
            series: (0..50).map(series).collect(),
            ..Request::default()
        };
        let frames = workspace_root().join("testdata/formats/v2/remote_frames_first.bin");
        Self {
            gzip: bomb("gzip", 256 << 20),
            snappy: snappy(&vec![b'#'; 31 << 20]),
            honest: vec![
                snappy(&request.v1()),
                snappy(&request.v2()),
                snappy(&fs::read(frames).unwrap()),
                b"# TYPE m gauge\nm 1\nm{a=\"b\"} 2\n".to_vec(),
            ],
        }
    }

    /// Returns a body, and how many bytes it claims to have.
    fn body(&self, rng: &mut SplitMix64) -> (Vec<u8>, usize) {
        let mut body = rng.pick(&self.honest).clone();
        match rng.below(8) {
            0 => {
                body.resize(rng.index(1 << 16), 0);
                body.fill_with(|| rng.next_u64() as u8);
            }
            1 => body.truncate(rng.index(body.len())),
            2 => {
                for _ in 0..=rng.below(8) {
                    let at = rng.index(body.len());
                    body[at] ^= 1 << rng.below(8);
                }
            }
            3 => body.clone_from(&self.gzip),
            4 => body.clone_from(&self.snappy),
            // A block that claims to be of four gigabytes, or of as much as is allowed.
            5 => body = [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &body].concat(),
            6 => body = [&[0x80, 0x80, 0x80, 0x10][..], &body].concat(),
            _ => {
                let claimed = body.len() + (1 << rng.below(30));
                return (body, claimed);
            }
        }
        let claimed = body.len();
        (body, claimed)
    }
}

/// Sends a body; returns the status, 0 if the connection was closed without one.
fn send(server: &Running, way: Way, body: &[u8], claimed: usize) -> u16 {
    let url = format!("{}{}", server.url, way.path);
    if claimed == body.len() {
        let headers = [
            ("Content-Type", way.content_type),
            ("Content-Encoding", way.encoding),
        ];
        return http::request("POST", &url, &headers, body).map_or(0, |answer| answer.status);
    }
    let mut stream = connect(server, way, &format!("Content-Length: {claimed}\r\n"));
    // Hangs up in the middle.
    let _ = stream.write_all(body);
    0
}

/// Sends a body without end until the server cuts it off; returns whether it did in time.
fn send_endless(server: &Running, way: Way) -> bool {
    let mut stream = connect(server, way, "Transfer-Encoding: chunked\r\n");
    let chunk = [&b"10000\r\n"[..], &[b'#'; 1 << 16], b"\r\n"].concat();
    let begun = Instant::now();
    while begun.elapsed() < CUT_OFF {
        if stream.write_all(&chunk).is_err() {
            return true;
        }
    }
    false
}

fn connect(server: &Running, way: Way, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    let Way {
        path,
        content_type,
        encoding,
    } = way;
    let address = server.address();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {content_type}\r\nContent-Encoding: {encoding}\r\n{more}\r\n"
    );
    // The server may refuse by the head alone.
    let _ = stream.write_all(head.as_bytes());
    stream
}

/// Returns the least memory that is resident within five seconds: what was freed goes back, but not before the last answer.
fn resident(server: &Running) -> f64 {
    let looks = (0..50).map(|_| {
        thread::sleep(Duration::from_millis(100));
        server.metric("process_resident_memory_bytes ").unwrap()
    });
    looks.fold(f64::INFINITY, f64::min)
}

#[test]
fn hostile_bodies_cost_no_memory_and_hold_up_nobody() {
    let dir = TempDir::new("hostile-bodies");
    let config = dir.write("p.yml", "global: {}\n");
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .arg(format!("--memory.limit={LIMIT}"))
        .args([
            "--web.enable-push-receiver",
            "--web.enable-remote-write-receiver",
            "--web.remote-write-receiver.max-wait=2s",
        ]);
    let server = Running::of(spawn);
    let (stock, mut rng) = (Stock::new(), rng(0xb0d1e5));
    let half = scaled(125);
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    let mut after = [0.0; 2];
    for resident_bytes in &mut after {
        for number in 0..half {
            let way = *rng.pick(&WAYS);
            if number.is_multiple_of(40) {
                assert!(
                    send_endless(&server, way),
                    "{way:?} takes bodies without end"
                );
                continue;
            }
            let (body, claimed) = stock.body(&mut rng);
            *statuses
                .entry(send(&server, way, &body, claimed))
                .or_default() += 1;
            if number.is_multiple_of(25) {
                let write = write_as(V1);
                let honest = &stock.honest[0];
                assert_eq!(send(&server, write, honest, honest.len()), 204);
            }
        }
        *resident_bytes = resident(&server);
    }
    println!(
        "{} bodies, resident after each half {after:?}, statuses {statuses:?}",
        2 * half
    );
    assert!(after[1] < after[0] + GROWTH_BYTES, "{after:?}");
    let status = ProcFile::read(server.process.pid(), "status").unwrap();
    let peak_kb = status.number("VmHWM:").unwrap();
    println!("at most {peak_kb} KiB");
    assert!(peak_kb < 256_000, "{peak_kb} KiB");
    assert!(statuses.keys().any(|status| *status >= 400), "{statuses:?}");
    assert!(!statuses.contains_key(&500), "{statuses:?}");
    server.stop();
}
