//! Requests under construction: samples are encoded as they are read from the queue.
//!
//! **Invariant:** a finished request is a valid message of its version, and its counts are those of what is in it.

mod fields;
mod frames;
mod histogram;
mod v1;
mod v2;

use crate::{
    Message,
    frames::SAMPLES,
    queue::{FamilyRef, Item, Symbols, Value},
};
use narthex_model::histogram::CUSTOM_BUCKETS;
pub(crate) use v1::metadata;

/// Numbers of samples by kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) samples: u64,
    pub(crate) exemplars: u64,
    pub(crate) histograms: u64,
}

impl Counts {
    /// Returns all of them together, which a request's limit is about.
    pub(crate) fn total(self) -> u64 {
        self.samples + self.exemplars + self.histograms
    }
}

/// What became of an item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pushed {
    Added,
    /// A histogram with custom buckets, which version 1 does not have.
    CustomBuckets,
    /// An exemplar without a sample, which version 2 does not have.
    LoneExemplar,
}

/// A request under construction; reused for the next one.
#[derive(Debug)]
pub(crate) struct RequestBuilder {
    version: Version,
    counts: Counts,
    /// Buffer for one series.
    series: Vec<u8>,
}

#[derive(Debug)]
enum Version {
    V1(v1::Request),
    V2(v2::Request),
    Frames(Box<frames::Request>),
}

/// Length from which a request of frames is finished within a round.
const FRAMES_BYTES: usize = 1 << 20;
/// How many times the samples of other messages a request of frames may have: a sample takes a byte or two.
const FRAMES_FACTOR: u64 = 10;

impl RequestBuilder {
    pub(crate) fn new(message: Message) -> Self {
        let version = match message {
            Message::V1 => Version::V1(v1::Request::default()),
            Message::V2 => Version::V2(v2::Request::default()),
            Message::Frames => Version::Frames(Box::new(frames::Request::new())),
        };
        Self {
            version,
            counts: Counts::default(),
            series: Vec::new(),
        }
    }

    /// Reports whether the request is to be finished before the next item; `most` is the limit on its samples.
    pub(crate) fn is_full(&self, most: u64) -> bool {
        let total = self.counts.total();
        match &self.version {
            Version::Frames(request) => {
                // Most requests end with a round; the rest of one this large is another row.
                let many = most.saturating_mul(4 * FRAMES_FACTOR).min(SAMPLES as u64);
                total >= many || (total > 0 && request.len() >= FRAMES_BYTES)
            }
            _ => total >= most,
        }
    }

    /// Reports whether the request is to be finished before the next round.
    pub(crate) fn ends_with_round(&self, most: u64) -> bool {
        let is_of_frames = matches!(self.version, Version::Frames(_));
        is_of_frames && self.counts.total() >= most.saturating_mul(FRAMES_FACTOR)
    }

    /// Reports whether the request must be finished before another file of the queue is read.
    pub(crate) fn ends_with_file(&self) -> bool {
        matches!(self.version, Version::Frames(_)) && self.counts.total() > 0
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, symbols: &Symbols, item: &Item<'_>) -> Pushed {
        let exemplars = item.exemplars.len() as u64;
        match (&item.value, &self.version) {
            (Value::Histogram(one), Version::V1(_)) if one.histogram_schema == CUSTOM_BUCKETS => {
                return Pushed::CustomBuckets;
            }
            (Value::Nothing, Version::V2(_) | Version::Frames(_)) => return Pushed::LoneExemplar,
            (Value::Nothing, Version::V1(_)) => {}
            (Value::Histogram(_), _) => self.counts.histograms += 1,
            (Value::Float(_), _) => self.counts.samples += 1,
        }
        self.counts.exemplars += exemplars;
        self.series.clear();
        match &mut self.version {
            Version::V1(request) => request.push(symbols, item, &mut self.series),
            Version::V2(request) => request.push(symbols, item, &mut self.series),
            Version::Frames(request) => request.push(symbols, item),
        }
        Pushed::Added
    }

    /// Forgets what was remembered of a file's numbers: another one is read.
    pub(crate) fn begin_file(&mut self) {
        match &mut self.version {
            Version::V1(_) => {}
            Version::V2(request) => request.begin_file(),
            Version::Frames(request) => request.begin_file(),
        }
    }

    /// Appends the message to `out` and begins another one; returns what it holds.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Counts {
        match &mut self.version {
            Version::V1(request) => request.finish(out),
            Version::V2(request) => request.finish(out),
            Version::Frames(request) => request.finish(out),
        }
        std::mem::take(&mut self.counts)
    }
}

/// Returns the family of an item's series.
fn family_of<'a>(symbols: &'a Symbols, item: &Item<'_>) -> Option<FamilyRef<'a>> {
    symbols.family(item.series.family()?)
}

#[cfg(test)]
mod tests;
