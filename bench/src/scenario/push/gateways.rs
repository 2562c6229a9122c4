//! The gateways of one run, one or one for each host, as one thing that is measured.
//!
//! **Invariant:** what is said of them is the sum of all.

use super::{
    fleet::Fleet,
    pushers::Sent,
    stored::{Reader, Stored},
};
use crate::{
    frame::{
        error::BenchError,
        measure::Usage,
        server::{RunningServer, ServerSpec},
    },
    load::client::Client,
};
use libdeflater::Decompressor;
use narthex_testkit::http::Response;
use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Longest start, stop and restart.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a scraper sleeps before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(50);
/// What a Prometheus that wants text asks for.
const ACCEPT: (&str, &str) = ("Accept", "text/plain;version=0.0.4");
/// Longest page that is unpacked.
const LONGEST_PAGE: usize = 4 << 30;

/// Running gateways.
#[derive(Debug)]
pub(crate) struct Gateways {
    servers: Vec<RunningServer>,
    addresses: Vec<SocketAddr>,
}

/// One scrape of all gateways.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scrape {
    pub(crate) took: Duration,
    /// Bytes of the bodies as they came.
    pub(crate) bytes: u64,
    pub(crate) is_success: bool,
}

impl Gateways {
    /// Starts as many as the fleet wants and waits until all are ready.
    pub(crate) fn start(fleet: &Fleet, spec: &ServerSpec, base: &Path) -> Result<Self, BenchError> {
        let mut gateways = Self {
            servers: Vec::with_capacity(fleet.gateways()),
            addresses: Vec::with_capacity(fleet.gateways()),
        };
        for number in 0..fleet.gateways() {
            let mut spec = spec.clone();
            if fleet.gateways() > 1 {
                spec.label = format!("{}-{number}", spec.label);
            }
            let server = RunningServer::start(&spec, base, &[])?;
            gateways.addresses.push(server.address().into());
            gateways.servers.push(server);
        }
        for server in &mut gateways.servers {
            server.wait_ready(LIMIT)?;
        }
        Ok(gateways)
    }

    /// Returns where they listen.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Fails when one has ended.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        self.servers.iter_mut().try_for_each(RunningServer::check)
    }

    /// Returns what all have used and hold.
    pub(crate) fn usage(&self) -> Result<Usage, BenchError> {
        let mut all = Usage::default();
        for server in &self.servers {
            let one = Usage::read_tree(server.pid())?;
            all.cpu += one.cpu;
            all.rss_bytes += one.rss_bytes;
            all.peak_rss_bytes += one.peak_rss_bytes;
            all.write_bytes += one.write_bytes;
            all.processes += one.processes;
            all.threads += one.threads;
        }
        Ok(all)
    }

    /// Scrapes all once.
    pub(crate) fn scrape(&self, limit: Duration, gzip: bool) -> Scrape {
        Scraping::new(&self.addresses, limit, gzip).once()
    }

    /// Reads everything back and compares it with what was pushed.
    pub(crate) fn compare(
        &self,
        fleet: &Fleet,
        sent: &[Sent],
        limit: Duration,
    ) -> Result<Stored, BenchError> {
        let mut reader = Reader::new(fleet);
        let mut scraping = Scraping::new(&self.addresses, limit, true);
        for at in 0..self.addresses.len() {
            let page = scraping.get(at).and_then(|answer| page_of(&answer));
            let page =
                page.map_err(BenchError::io(format!("read {}", self.servers[at].label())))?;
            reader.read(&page);
        }
        Ok(reader.compare(sent))
    }

    /// Ends all as an operator does, starts them again, and returns how long it took until all were ready.
    pub(crate) fn restart(&mut self) -> Result<Duration, BenchError> {
        for server in &mut self.servers {
            server.stop(LIMIT)?;
        }
        let started = Instant::now();
        for server in &mut self.servers {
            server.restart()?;
        }
        for server in &mut self.servers {
            server.wait_ready(LIMIT)?;
        }
        Ok(started.elapsed())
    }
}

/// Connections to all gateways.
struct Scraping {
    clients: Vec<Client>,
    headers: Vec<(&'static str, &'static str)>,
}

impl Scraping {
    fn new(addresses: &[SocketAddr], limit: Duration, gzip: bool) -> Self {
        let client = |address: &SocketAddr| Client::new(*address, limit);
        let mut headers = vec![ACCEPT];
        if gzip {
            headers.push(("Accept-Encoding", "gzip"));
        }
        Self {
            clients: addresses.iter().map(client).collect(),
            headers,
        }
    }

    fn get(&mut self, at: usize) -> io::Result<Response> {
        let answer = self.clients[at].get("/metrics", &self.headers)?;
        if answer.status == 200 {
            return Ok(answer);
        }
        let reason: String = answer.text().chars().take(300).collect();
        Err(io::Error::other(format!(
            "status {}: {reason}",
            answer.status
        )))
    }

    fn once(&mut self) -> Scrape {
        let started = Instant::now();
        let (mut bytes, mut is_success) = (0, true);
        for at in 0..self.clients.len() {
            match self.get(at) {
                Ok(answer) => bytes += answer.body.len() as u64,
                Err(_) => is_success = false,
            }
        }
        Scrape {
            took: started.elapsed(),
            bytes,
            is_success,
        }
    }
}

/// Scrapes at an interval until it is stopped.
#[derive(Debug)]
pub(crate) struct Scraper {
    stop: Arc<AtomicBool>,
    scrapes: Arc<Mutex<Vec<Scrape>>>,
    thread: Option<JoinHandle<()>>,
}

impl Scraper {
    /// Starts with a first scrape half an interval from now. One that takes longer than the interval delays the next.
    pub(crate) fn start(
        gateways: &Gateways,
        every: Duration,
        limit: Duration,
    ) -> Result<Self, BenchError> {
        let (stop, scrapes) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (stopped, kept) = (Arc::clone(&stop), Arc::clone(&scrapes));
        let mut scraping = Scraping::new(&gateways.addresses, limit, true);
        let mut due = Instant::now() + every / 2;
        let run = move || {
            while !stopped.load(Relaxed) {
                let left = due.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    thread::sleep(left.min(NAP));
                    continue;
                }
                let scrape = scraping.once();
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(scrape);
                due = (due + every).max(Instant::now());
            }
        };
        let thread = thread::Builder::new().name("scraper".to_owned()).spawn(run);
        Ok(Self {
            stop,
            scrapes,
            thread: Some(thread.map_err(BenchError::io("start a thread"))?),
        })
    }

    /// Lets the scrape that is under way end and returns all.
    pub(crate) fn stop(mut self) -> Vec<Scrape> {
        self.join();
        let mut scrapes = self.scrapes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *scrapes)
    }

    fn join(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say but what it kept.
            let _ = thread.join();
        }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.join();
    }
}

/// Returns a page's text.
fn page_of(answer: &Response) -> io::Result<String> {
    let is_gzip = answer
        .header("Content-Encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("gzip"));
    let bytes = if is_gzip {
        gunzip(&answer.body)?
    } else {
        answer.body.clone()
    };
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Unpacks gzip whose length nobody said.
fn gunzip(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = vec![0; (packed.len() * 8).max(1 << 16)];
    loop {
        match Decompressor::new().gzip_decompress(packed, &mut plain) {
            Ok(length) => {
                plain.truncate(length);
                return Ok(plain);
            }
            Err(libdeflater::DecompressionError::InsufficientSpace)
                if plain.len() < LONGEST_PAGE =>
            {
                let length = plain.len() * 2;
                plain.resize(length, 0);
            }
            Err(e) => return Err(io::Error::other(e)),
        }
    }
}
