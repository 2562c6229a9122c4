//! Requests under construction: samples are encoded as they are read from the queue.
//!
//! **Invariant:** a finished request is a valid message of its version, and its counts are those of what is in it.

mod fields;
mod histogram;
mod v1;
mod v2;

use crate::{
    Message,
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
}

impl RequestBuilder {
    pub(crate) fn new(message: Message) -> Self {
        let version = match message {
            Message::V1 => Version::V1(v1::Request::default()),
            Message::V2 => Version::V2(v2::Request::default()),
        };
        Self {
            version,
            counts: Counts::default(),
            series: Vec::new(),
        }
    }

    /// Returns what the request holds.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, symbols: &Symbols, item: &Item<'_>) -> Pushed {
        let exemplars = item.exemplars.len() as u64;
        match (&item.value, &self.version) {
            (Value::Histogram(one), Version::V1(_)) if one.histogram_schema == CUSTOM_BUCKETS => {
                return Pushed::CustomBuckets;
            }
            (Value::Nothing, Version::V2(_)) => return Pushed::LoneExemplar,
            (Value::Nothing, Version::V1(_)) => {}
            (Value::Histogram(_), _) => self.counts.histograms += 1,
            (Value::Float(_), _) => self.counts.samples += 1,
        }
        self.counts.exemplars += exemplars;
        self.series.clear();
        match &mut self.version {
            Version::V1(request) => request.push(symbols, item, &mut self.series),
            Version::V2(request) => request.push(symbols, item, &mut self.series),
        }
        Pushed::Added
    }

    /// Forgets what was remembered of a file's numbers: another one is read.
    pub(crate) fn begin_file(&mut self) {
        if let Version::V2(request) = &mut self.version {
            request.begin_file();
        }
    }

    /// Appends the message to `out` and begins another one; returns what it holds.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Counts {
        match &mut self.version {
            Version::V1(request) => request.finish(out),
            Version::V2(request) => request.finish(out),
        }
        std::mem::take(&mut self.counts)
    }
}

/// Returns the family of an item's series.
fn family_of<'a>(symbols: &'a Symbols, item: &Item<'_>) -> Option<FamilyRef<'a>> {
    symbols.family(item.series.family()?)
}

/// Calls `visit` with the numbers of a series' labels, sorted by the labels' names.
#[inline]
fn each_label(symbols: &Symbols, item: &Item<'_>, mut visit: impl FnMut(u32, &[u8], &[u8])) {
    let [common, local] = item.series.labels(symbols);
    let (mut left, mut right) = (common.iter().peekable(), local.iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => left.next(),
            (None, Some(_)) => right.next(),
            (Some(a), Some(b)) => {
                let name = |number: u32| symbols.label(number).map(|(name, _)| name);
                if name(**a) <= name(**b) {
                    left.next()
                } else {
                    right.next()
                }
            }
        };
        if let Some(number) = next
            && let Some((name, value)) = symbols.label(*number)
        {
            visit(*number, name, value);
        }
    }
}

#[cfg(test)]
mod tests;
