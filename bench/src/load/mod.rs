//! Load generators: fleets that are scraped, requests that are sent, and the clocks that both follow.
//!
//! **Invariant:** load follows its own schedule, never the server's responses, and reports its own cost.

mod answer;
pub(crate) mod api;
mod dataset;
pub(crate) mod fleet;
pub(crate) mod gzip;
mod latency;
pub(crate) mod open_loop;
pub(crate) mod paced;
pub(crate) mod remote_write;
pub(crate) mod scraper;

pub(crate) use dataset::{Churn, DatasetConfig, POD_SERIES};
pub(crate) use latency::{Histogram, Latencies};
pub(crate) use paced::{Class, Event, PacedLoad};
pub(crate) use scraper::{Scrape, Scraper};

#[cfg(test)]
mod tests;
