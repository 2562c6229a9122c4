//! What is measured of one server.
//!
//! **Invariant:** plain readings; what is made of them (per sample, per series, ratios) is for `figures`.

use crate::{
    frame::{
        measure::{Bystanders, Resident, ThreadTime, Usage},
        ticks::Ticks,
    },
    load::{
        fleet::schedule::Schedule,
        paced::{Class, Event},
    },
    record::{Figure, OwnCost},
};
use std::time::{Duration, Instant};

/// The readings at one end of the window.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) at: Instant,
    pub(super) at_ms: i64,
    pub(super) usage: Usage,
    /// CPU that making the fleet's texts took.
    pub(super) making: Duration,
    pub(super) bystanders: Bystanders,
    pub(super) thread: ThreadTime,
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
    /// What the data directory takes on its device, and the sum of its files' lengths.
    pub(super) disk_bytes: (u64, u64),
    pub(super) schedule: Schedule,
    /// The queries of each class, due within the window.
    pub(super) asked: Vec<(Class, Vec<Event>)>,
    pub(super) replaced: usize,
    /// Medians of queries that were asked alone.
    pub(super) alone: Vec<Figure>,
    pub(super) recovery: Recovery,
    pub(super) own_costs: Vec<OwnCost>,
    pub(super) ticks: Ticks,
}
