//! A decoded request: flat lists that refer into the decompressed body.
//!
//! **Invariant:** every range and number in it is inside the list it is about; labels are not looked at until a
//! series is seen for the first time.

use crate::{error::RemoteError, histogram::Decoded, wire::malformed};
use foldhash::fast::RandomState;
use narthex_model::{Exemplar, Histogram, cell, metadata::Family};
use std::{hash::BuildHasher, ops::Range, sync::Arc};

/// What a request holds.
#[derive(Debug, Default)]
pub(crate) struct Incoming<'a> {
    pub(crate) series: Vec<IncomingSeries>,
    pub(crate) floats: Vec<FloatSample>,
    pub(crate) histograms: Vec<HistogramSample>,
    pub(crate) exemplars: Vec<(u32, Exemplar)>,
    pub(crate) families: Vec<Family>,
    /// What is wrong with parts of the request, the rest of which stands; in the order they were met.
    pub(crate) objections: Vec<String>,
    pub(crate) labels: LabelSource<'a>,
    pub(crate) allowance: Allowance,
}

/// Memory that decoding may still take.
///
/// Two bytes can announce an empty sample that takes thirty: what real senders send stays far below eight times the
/// body's length.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    left_bytes: usize,
}

impl Allowance {
    /// Returns what a body of this length may grow to.
    pub(crate) fn of(body: &[u8]) -> Self {
        Self {
            left_bytes: body.len() * 8 + (64 << 10),
        }
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// Fails when they are not left.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), RemoteError> {
        match self.left_bytes.checked_sub(bytes) {
            Some(left_bytes) => {
                self.left_bytes = left_bytes;
                Ok(())
            }
            None => Err(malformed("more entries than the body's length allows")),
        }
    }
}

/// One entry of the request's list of series.
#[derive(Clone, Debug)]
pub(crate) struct IncomingSeries {
    /// Equal for byte-identical labels.
    pub(crate) key: u128,
    /// Where the labels are in the source.
    pub(crate) labels: Range<u32>,
    /// Samples and histograms it came with.
    pub(crate) samples: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatSample {
    pub(crate) series: u32,
    pub(crate) time_ms: i64,
    pub(crate) start_ms: i64,
    pub(crate) value: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct HistogramSample {
    pub(crate) series: u32,
    pub(crate) time_ms: i64,
    pub(crate) start_ms: i64,
    /// The histogram, or why it is none.
    pub(crate) histogram: Result<Arc<Histogram>, String>,
}

/// Where labels are.
#[derive(Debug, Default)]
pub(crate) enum LabelSource<'a> {
    #[default]
    None,
    /// Label messages with their tags, one after the other.
    Blocks(BlockLabels<'a>),
    /// Numbers of symbols.
    Symbols {
        symbols: Vec<&'a [u8]>,
        refs: Vec<u32>,
    },
}

/// Label messages of version 1.
#[derive(Debug, Default)]
pub(crate) struct BlockLabels<'a> {
    pub(crate) body: &'a [u8],
    /// Labels that do not stand side by side in the body, copied; ranges behind the body's end are in here.
    pub(crate) moved: Vec<u8>,
}

impl BlockLabels<'_> {
    pub(crate) fn bytes(&self, range: &Range<u32>) -> &[u8] {
        let (from, to) = (range.start as usize, range.end as usize);
        match from.checked_sub(self.body.len()) {
            None => self.body.get(from..to).unwrap_or_default(),
            Some(from) => self
                .moved
                .get(from..to - self.body.len())
                .unwrap_or_default(),
        }
    }
}

impl<'a> Incoming<'a> {
    /// Returns the empty list for a body.
    pub(crate) fn of(body: &'a [u8]) -> Self {
        Self {
            allowance: Allowance::of(body),
            ..Self::default()
        }
    }

    /// Returns the bytes that series and samples take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.series.len() * size_of::<IncomingSeries>()
            + self.floats.len() * size_of::<FloatSample>()
            + self.histograms.len() * size_of::<Histogram>()
            + self.exemplars.len() * size_of::<(u32, Exemplar)>()
    }

    /// Adds a float sample.
    ///
    /// # Errors
    /// Fails when the allowance is used up.
    #[inline]
    pub(crate) fn push_float(&mut self, sample: FloatSample) -> Result<(), RemoteError> {
        self.allowance.take(size_of::<FloatSample>())?;
        self.floats.push(sample);
        Ok(())
    }

    /// Adds a histogram; one whose sum is a staleness marker ends its series, as a float does.
    pub(crate) fn push_histogram(&mut self, series: u32, decoded: Decoded) {
        let Decoded {
            time_ms,
            start_ms,
            histogram,
        } = decoded;
        if let Ok(ends) = &histogram
            && cell::is_stale(ends.sum)
        {
            self.floats.push(FloatSample {
                series,
                time_ms,
                start_ms: 0,
                value: cell::STALE,
            });
            return;
        }
        self.histograms.push(HistogramSample {
            series,
            time_ms,
            start_ms,
            histogram,
        });
    }
}

impl LabelSource<'_> {
    /// Visits names and values of a series' labels in the order they were sent.
    ///
    /// # Errors
    /// Fails when a number names no symbol.
    pub(crate) fn visit(
        &self,
        labels: &Range<u32>,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), RemoteError> {
        match self {
            Self::None => Ok(()),
            Self::Blocks(blocks) => crate::v1::visit_labels(blocks.bytes(labels), visit),
            Self::Symbols { symbols, refs } => {
                let refs = &refs[labels.start as usize..labels.end as usize];
                for pair in refs.chunks_exact(2) {
                    let symbol = |at: u32| symbols.get(at as usize).copied().unwrap_or_default();
                    visit(symbol(pair[0]), symbol(pair[1]));
                }
                Ok(())
            }
        }
    }
}

/// Hashes bytes into 128 bits that nobody outside can foresee.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyHasher {
    low: RandomState,
    high: RandomState,
}

impl KeyHasher {
    #[inline]
    pub(crate) fn key(&self, bytes: &[u8]) -> u128 {
        let (low, high) = (self.low.hash_one(bytes), self.high.hash_one(bytes));
        u128::from(low) | u128::from(high) << 64
    }

    /// Combines the keys of a list, whose order counts.
    pub(crate) fn fold(&self, keys: impl Iterator<Item = u128>) -> u128 {
        // Odd multipliers: every key stays visible in the result, and its place with it.
        const LOW: u64 = 0x9e37_79b9_7f4a_7c15;
        const HIGH: u64 = 0xd6e8_feb8_6659_fd93;
        let (mut low, mut high) = (0_u64, 0_u64);
        for key in keys {
            low = (low.rotate_left(25) ^ key as u64).wrapping_mul(LOW);
            high = (high.rotate_left(29) ^ (key >> 64) as u64).wrapping_mul(HIGH);
        }
        u128::from(low) | u128::from(high) << 64
    }
}
