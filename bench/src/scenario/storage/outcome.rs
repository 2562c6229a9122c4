//! Measurements of one server.
//!
//! **Invariant:** plain readings; `figures` derives everything else (per sample, per series, ratios).

use crate::{
    harness::{measure::Resident, ticks::Ticks},
    load::{
        fleet::{meter::Edge, schedule::Schedule},
        paced::{Class, Event},
    },
    record::{Figure, OwnCost},
};
use std::time::{Duration, Instant};

/// After `kill -9`, counted from the new start.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) ready: Duration,
    /// Until a question about the time before gets its former answer; `None` if it never did.
    pub(super) correct: Option<Duration>,
    pub(super) first_scrape: Duration,
    pub(super) all_scraped: Duration,
    /// Scrapes answered before the crash, and how many of them are stored.
    pub(super) answered: u64,
    pub(super) stored: u64,
}

/// All measurements of one server.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) started: Instant,
    pub(super) ready: Duration,
    /// Until the first scrape after the first start.
    pub(super) scraping: Duration,
    /// CPU until every target had been scraped once, start included.
    pub(super) first_round_cpu: Duration,
    /// The window.
    pub(super) from: Edge,
    pub(super) to: Edge,
    pub(super) resident: Resident,
    pub(super) peak_with_queries_bytes: u64,
    /// Disk usage of the data directory, and the sum of its files' lengths.
    pub(super) disk_bytes: (u64, u64),
    pub(super) schedule: Schedule,
    /// The queries of each class, due within the window.
    pub(super) asked: Vec<(Class, Vec<Event>)>,
    pub(super) replaced: usize,
    /// Medians of queries without other load.
    pub(super) alone: Vec<Figure>,
    pub(super) recovery: Recovery,
    pub(super) own_costs: Vec<OwnCost>,
    pub(super) ticks: Ticks,
}
