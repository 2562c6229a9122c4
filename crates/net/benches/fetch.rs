//! Client CPU per line for fetching 850 keep-alive targets of 588 lines, ours compared with hyper's.
//!
//! The targets are one process (this binary again) with 850 listeners, so that this process's CPU time, kernel time
//! included, is the client's alone. Rounds of all clients alternate, and the median round counts: the machine's load
//! changes over seconds.
//!
//! `cargo bench -p narthex-net --bench fetch [-- ROUNDS]`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark reports on stdout and has nobody to hand errors to"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use narthex_net::{Client, ClientConfig, Encoding, Request, Url, decompress, gzip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const TARGETS: usize = 850;
const LINES: usize = 588;
const LINE_BYTES: usize = 185;
const LIMIT_BYTES: usize = 1 << 20;
const CLIENTS: [&str; 4] = [
    "narthex-net",
    "hyper, own connections",
    "hyper-util, pool",
    "blocking reads",
];

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|a| a != "--bench").collect();
    if let [_, command, form] = &arguments[..]
        && command == "serve"
    {
        return serve(form);
    }
    let rounds = arguments.get(1).map_or(9, |n| n.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    println!(
        "{TARGETS} targets x {LINES} lines x {LINE_BYTES} bytes; client CPU, median of {rounds} rounds"
    );
    println!(
        "{:8} {:>11} {:24} {:>8} {:>10}",
        "form", "concurrency", "client", "ns/line", "fetches/s"
    );
    for form in ["length", "chunked", "gzip"] {
        for concurrency in [1, 8] {
            let targets = Targets::start(form);
            let mut clients: Vec<_> = CLIENTS.iter().map(|name| (*name, Vec::new())).collect();
            let fetchers: Vec<Fetchers> = CLIENTS
                .iter()
                .map(|c| runtime.block_on(Fetchers::connect(c, &targets.ports, form, concurrency)))
                .collect();
            let mut fetchers = fetchers;
            for round in 0..=rounds {
                for (fetchers, (_name, costs)) in fetchers.iter_mut().zip(&mut clients) {
                    let cost = runtime.block_on(fetchers.round());
                    // The first round opens connections and grows buffers.
                    if round > 0 {
                        costs.push(cost);
                    }
                }
            }
            for (name, mut costs) in clients {
                costs.sort_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns));
                let Cost {
                    cpu_ns,
                    fetches_per_s,
                } = costs[costs.len() / 2];
                println!(
                    "{form:8} {concurrency:>11} {name:24} {cpu_ns:>8.1} {fetches_per_s:>10.0}"
                );
            }
        }
    }
}

/// The serving process; ends when its standard input closes.
struct Targets {
    child: Child,
    ports: Vec<u16>,
}

impl Targets {
    fn start(form: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve", form])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ports = line
            .split_whitespace()
            .map(|p| p.parse().unwrap())
            .collect();
        Self { child, ports }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn page() -> Vec<u8> {
    let mut page = Vec::new();
    for i in 0..LINES {
        let (le, value) = (i % 12, i * 7919);
        let mut line = format!(
            "http_request_duration_seconds_bucket{{handler=\"/api/v1/handler/{:03}\",method=\"GET\",code=\"200\",\
             zone=\"eu-central-1a\",instance_type=\"general-purpose-large\",le=\"{le}\"}} {value}",
            i / 12
        );
        let padding = "x".repeat(LINE_BYTES - 1 - line.len());
        line.insert_str(line.find("large").unwrap(), &padding);
        page.extend_from_slice(line.as_bytes());
        page.push(b'\n');
    }
    assert_eq!(page.len(), LINES * LINE_BYTES);
    page
}

fn answer(form: &str) -> Vec<u8> {
    let page = page();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nDate: Fri, 20 Nov 2026 18:00:00 GMT\r\n";
    let mut out = head.as_bytes().to_vec();
    match form {
        // The output of Go's net/http for a handler that writes through a 4 KiB buffer.
        "chunked" => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for piece in page.chunks(4096) {
                out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"0\r\n\r\n");
        }
        "gzip" => {
            let packed = gzip(&page).unwrap();
            let headers = format!(
                "Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                packed.len()
            );
            out.extend_from_slice(headers.as_bytes());
            out.extend_from_slice(&packed);
        }
        _ => {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", page.len()).as_bytes());
            out.extend_from_slice(&page);
        }
    }
    out
}

#[tokio::main(flavor = "current_thread")]
async fn serve(form: &str) {
    let answer: Arc<[u8]> = answer(form).into();
    let mut ports = String::new();
    for _ in 0..TARGETS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        ports += &format!("{} ", listener.local_addr().unwrap().port());
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            while let Ok((stream, _peer)) = listener.accept().await {
                tokio::spawn(serve_one(stream, Arc::clone(&answer)));
            }
        });
    }
    println!("{ports}");
    std::io::stdout().flush().unwrap();
    let wait = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
    std::process::exit(0);
}

async fn serve_one(mut stream: tokio::net::TcpStream, answer: Arc<[u8]>) {
    stream.set_nodelay(true).unwrap();
    let mut request = Vec::with_capacity(4096);
    while stream
        .read_buf(&mut request)
        .await
        .is_ok_and(|read| read > 0)
    {
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_ns: f64,
    fetches_per_s: f64,
}

fn cpu_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// One client's workers; each owns a share of the targets and one body buffer.
struct Fetchers {
    workers: Vec<Worker>,
}

struct Worker {
    fetch: Fetch,
    body: Vec<u8>,
    wire: Vec<u8>,
    gzip: bool,
}

enum Fetch {
    Ours(Client, Vec<Request>),
    Hyper(Vec<SendRequest<Empty<Bytes>>>),
    Pool(Pooled<HttpConnector, Empty<Bytes>>, Vec<http::Uri>),
    Blocking(Vec<TcpStream>, usize),
}

impl Fetchers {
    async fn connect(client: &str, ports: &[u16], form: &str, concurrency: usize) -> Self {
        let ours = Client::new(ClientConfig::default());
        let pool = Pooled::builder(TokioExecutor::new()).build_http();
        let answer_bytes = answer(form).len();
        let mut workers = Vec::new();
        for worker in 0..concurrency {
            let ports = ports.iter().skip(worker).step_by(concurrency);
            let url = |port: &u16| format!("http://127.0.0.1:{port}/metrics");
            let fetch = match client {
                "narthex-net" => {
                    let request = |port| Request::new(Url::parse(&url(port)).unwrap());
                    Fetch::Ours(ours.clone(), ports.map(request).collect())
                }
                "hyper, own connections" => Fetch::Hyper(hyper_connections(ports).await),
                "hyper-util, pool" => Fetch::Pool(
                    pool.clone(),
                    ports.map(|port| url(port).parse().unwrap()).collect(),
                ),
                _ => {
                    let connect = |port: &u16| {
                        let stream = TcpStream::connect(("127.0.0.1", *port)).unwrap();
                        stream.set_nodelay(true).unwrap();
                        stream
                    };
                    Fetch::Blocking(ports.map(connect).collect(), answer_bytes)
                }
            };
            workers.push(Worker {
                fetch,
                body: Vec::new(),
                wire: Vec::new(),
                gzip: form == "gzip",
            });
        }
        Self { workers }
    }

    /// Fetches every target once.
    async fn round(&mut self) -> Cost {
        let (cpu, start) = (cpu_ns(), Instant::now());
        let tasks: Vec<_> = self
            .workers
            .drain(..)
            .map(|w| tokio::spawn(w.round()))
            .collect();
        for task in tasks {
            self.workers.push(task.await.unwrap());
        }
        let lines = (TARGETS * LINES) as f64;
        Cost {
            cpu_ns: (cpu_ns() - cpu) / lines,
            fetches_per_s: TARGETS as f64 / start.elapsed().as_secs_f64(),
        }
    }
}

async fn hyper_connections(ports: impl Iterator<Item = &u16>) -> Vec<SendRequest<Empty<Bytes>>> {
    let mut out = Vec::new();
    for port in ports {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", *port))
            .await
            .unwrap();
        stream.set_nodelay(true).unwrap();
        let io = TokioIo::new(stream);
        let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        out.push(sender);
    }
    out
}

impl Worker {
    async fn round(mut self) -> Self {
        let Self {
            fetch,
            body,
            wire,
            gzip,
        } = &mut self;
        match fetch {
            Fetch::Ours(client, requests) => {
                for request in requests {
                    client
                        .get(request, body)
                        .await
                        .unwrap()
                        .require_ok()
                        .unwrap();
                    check(body);
                }
            }
            Fetch::Hyper(senders) => {
                for sender in senders {
                    sender.ready().await.unwrap();
                    let request = http::Request::get("/metrics")
                        .header("host", "x")
                        .body(Empty::new());
                    let response = sender.send_request(request.unwrap()).await.unwrap();
                    collect(response.into_body(), *gzip, wire, body).await;
                }
            }
            Fetch::Pool(pool, uris) => {
                for uri in uris {
                    let response = pool.get(uri.clone()).await.unwrap();
                    collect(response.into_body(), *gzip, wire, body).await;
                }
            }
            // The lower bound: no parsing, no checks, one thread per worker, the response's length known.
            Fetch::Blocking(streams, answer_bytes) => {
                wire.resize(*answer_bytes, 0);
                for stream in streams {
                    stream
                        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                        .unwrap();
                    tokio::task::block_in_place(|| stream.read_exact(wire).unwrap());
                }
            }
        }
        self
    }
}

async fn collect(mut incoming: Incoming, gzip: bool, wire: &mut Vec<u8>, body: &mut Vec<u8>) {
    let target = if gzip { &mut *wire } else { &mut *body };
    target.clear();
    while let Some(frame) = incoming.frame().await {
        if let Some(data) = frame.unwrap().data_ref() {
            target.extend_from_slice(data);
        }
    }
    if gzip {
        decompress(Encoding::Gzip, wire, LIMIT_BYTES, body).unwrap();
    }
    check(body);
}

fn check(body: &[u8]) {
    assert_eq!(body.len(), LINES * LINE_BYTES);
}
