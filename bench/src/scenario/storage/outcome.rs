//! What is measured of one server.
//!
//! **Invariant:** plain readings; what is made of them (per sample, per series, ratios) is for `figures`.

use super::query::Latency;
use crate::{
    frame::measure::{Resident, Usage},
    load::{
        fleet::schedule::Schedule,
        paced::{Class, Event},
    },
    record::OwnCost,
};
use std::time::{Duration, Instant};

/// One reading while a server runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    pub(super) at: Duration,
    pub(super) usage: Usage,
    pub(super) disk_bytes: u64,
    pub(super) answered: u64,
    pub(super) samples: u64,
}

/// After `kill -9`, counted from the new start.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) ready: Duration,
    /// Until a question about the time before has the answer it had then; None when it had another one to the end.
    pub(super) correct: Option<Duration>,
    pub(super) first_scrape: Duration,
    pub(super) all_scraped: Duration,
    /// Scrapes that were answered in the time before the crash, and of them those that are stored.
    pub(super) answered: u64,
    pub(super) stored: u64,
}

/// All that was measured of one server.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) ready: Duration,
    /// Until the first scrape after the first start.
    pub(super) scraping: Duration,
    /// CPU until every target had been scraped once, start included.
    pub(super) first_round_cpu: Duration,
    pub(super) window: Duration,
    pub(super) samples: u64,
    pub(super) from: Usage,
    pub(super) to: Usage,
    pub(super) resident: Resident,
    pub(super) peak_with_queries_bytes: u64,
    /// Samples since the start, which is what the directory holds.
    pub(super) stored_samples: u64,
    pub(super) disk_bytes: u64,
    pub(super) disk_apparent_bytes: u64,
    pub(super) schedule: Schedule,
    /// The queries of each class, due within the window.
    pub(super) asked: Vec<(Class, Vec<Event>)>,
    pub(super) started: Instant,
    /// The window, in the time since the start.
    pub(super) measured: (Duration, Duration),
    pub(super) replaced: u64,
    pub(super) latencies: Vec<Latency>,
    pub(super) recovery: Recovery,
    pub(super) own_costs: Vec<OwnCost>,
    pub(super) ticks: Vec<Tick>,
}
