//! The gateways of one run, one or one for each host, measured as one subject.
//!
//! **Invariant:** all figures are sums over the gateways.

use super::{
    fleet::Fleet,
    pushers::Sent,
    stored::{Reader, Stored},
};
use crate::{
    harness::{BenchError, RunningServer, ServerSpec, Usage},
    load::{Scraper, gzip::gunzip},
};
use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

/// Timeout of a start, stop and restart.
const LIMIT: Duration = Duration::from_secs(120);

/// Running gateways.
#[derive(Debug)]
pub(crate) struct Gateways {
    servers: Vec<RunningServer>,
}

impl Gateways {
    /// Starts as many as the fleet needs and waits until all are ready.
    pub(crate) fn start(fleet: &Fleet, spec: &ServerSpec, base: &Path) -> Result<Self, BenchError> {
        let start = |number| {
            let mut spec = spec.clone();
            if fleet.gateways() > 1 {
                spec.label = format!("{}-{number}", spec.label);
            }
            RunningServer::start(&spec, base, &[])
        };
        let servers = (0..fleet.gateways()).map(start).collect::<Result<_, _>>()?;
        let mut gateways = Self { servers };
        gateways.wait_ready()?;
        Ok(gateways)
    }

    fn wait_ready(&mut self) -> Result<(), BenchError> {
        self.servers
            .iter_mut()
            .try_for_each(|server| server.wait_ready(LIMIT))
    }

    /// Returns their addresses.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers
            .iter()
            .map(|server| server.address().into())
            .collect()
    }

    /// Fails if one has ended.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        self.servers.iter_mut().try_for_each(RunningServer::check)
    }

    /// Returns the total usage.
    pub(crate) fn usage(&self) -> Result<Usage, BenchError> {
        let mut all = Usage::default();
        for server in &self.servers {
            all += server.usage()?;
        }
        Ok(all)
    }

    pub(crate) fn scraper(&self, limit: Duration) -> Scraper {
        let label = self.servers.first().map_or("", RunningServer::label);
        Scraper::new(label, &self.addresses(), "/metrics", limit)
    }

    /// Reads everything back and compares it with what was pushed.
    pub(crate) fn compare(
        &self,
        fleet: &Fleet,
        sent: &[Sent],
        limit: Duration,
    ) -> Result<Stored, BenchError> {
        let mut reader = Reader::new(fleet);
        let mut scraper = self.scraper(limit).gzip();
        for (at, server) in self.servers.iter().enumerate() {
            let mut answer = scraper.get(at)?;
            let read = BenchError::io(format!("read {}'s page", server.label()));
            if answer
                .header("Content-Encoding")
                .is_some_and(|encoding| encoding == "gzip")
            {
                answer.body = gunzip(&answer.body).map_err(read)?;
            }
            reader.read(&String::from_utf8_lossy(&answer.body));
        }
        Ok(reader.compare(sent))
    }

    /// Stops all as an operator does, starts them again, and returns how long it took until all were ready.
    pub(crate) fn restart(&mut self) -> Result<Duration, BenchError> {
        for server in &mut self.servers {
            server.stop(LIMIT)?;
        }
        let started = Instant::now();
        self.servers
            .iter_mut()
            .try_for_each(RunningServer::restart)?;
        self.wait_ready()?;
        Ok(started.elapsed())
    }
}
