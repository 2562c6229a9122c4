//! A decoded request: flat lists that refer into the decompressed body.
//!
//! **Invariant:** every range and index is within its list; labels are not decoded until a series is seen for the first
//! time.

use crate::{
    allowance::Allowance,
    block_labels::{self, BlockLabels},
    error::RemoteError,
    histogram::Decoded,
};
use foldhash::fast::RandomState;
use narthex_model::{Exemplar, Histogram, cell, metadata::Family, storage::Budget};
use std::{hash::BuildHasher, ops::Range, sync::Arc};

/// Contents of a request.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) series: Vec<IncomingSeries>,
    pub(crate) floats: Vec<FloatSample>,
    pub(crate) histograms: Vec<HistogramSample>,
    pub(crate) exemplars: Vec<(u32, Exemplar)>,
    pub(crate) families: Vec<Family>,
    /// Errors of parts of the request, in the order found; the rest is still valid.
    pub(crate) objections: Objections,
    pub(crate) labels: LabelSource<'a>,
    pub(crate) allowance: Allowance,
}

/// Maximum objections returned to a sender; further ones are only counted.
const MAX_OBJECTIONS: usize = 100;
/// Maximum length of an objection: a sender's labels may have any length.
const MAX_OBJECTION_BYTES: usize = 4 << 10;

/// Errors of parts of a request, limited in number and length whatever the request contains.
#[derive(Debug, Default)]
pub(crate) struct Objections {
    texts: Vec<String>,
    more: usize,
}

impl Objections {
    /// Adds the text of `text`; beyond the maximum, only counts it without formatting the text.
    pub(crate) fn push_with(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() >= MAX_OBJECTIONS {
            self.more += 1;
            return;
        }
        let mut text = text();
        if text.len() > MAX_OBJECTION_BYTES {
            text.truncate(text.floor_char_boundary(MAX_OBJECTION_BYTES));
            text.push_str("...");
            text.shrink_to_fit();
        }
        self.texts.push(text);
    }

    /// Adds a text unless it is already there.
    pub(crate) fn push_new(&mut self, text: String) {
        if !self.texts.contains(&text) {
            self.push_with(|| text);
        }
    }

    /// Returns the texts, and the number of those left out.
    pub(crate) fn finish(self) -> (Vec<String>, usize) {
        (self.texts, self.more)
    }
}

/// One entry of the request's list of series.
#[derive(Clone, Debug)]
pub(crate) struct IncomingSeries {
    /// Equal for byte-identical labels.
    pub(crate) key: u128,
    /// Range of the labels in the source.
    pub(crate) labels: Range<u32>,
    /// Number of its samples and histograms.
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
    /// The histogram, or why it is invalid.
    pub(crate) histogram: Result<Arc<Histogram>, String>,
}

/// Source of the labels.
#[derive(Debug, Default)]
pub(crate) enum LabelSource<'a> {
    #[default]
    None,
    /// Tagged label messages, one after the other.
    Blocks(BlockLabels<'a>),
    /// Indices of symbols.
    Symbols {
        symbols: Vec<&'a [u8]>,
        refs: Vec<u32>,
    },
}

impl<'a> Incoming<'a> {
    /// Returns the empty list for a body, to be decoded within `memory`.
    ///
    /// # Errors
    /// Fails if there is no memory at all.
    pub(crate) fn for_body(body: &'a [u8], memory: &Budget) -> Result<Self, RemoteError> {
        Ok(Self {
            series: Vec::new(),
            floats: Vec::new(),
            histograms: Vec::new(),
            exemplars: Vec::new(),
            families: Vec::new(),
            objections: Objections::default(),
            labels: LabelSource::None,
            allowance: Allowance::for_body(body, memory)?,
        })
    }

    /// Returns the memory of all its contents, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let family = |family: &Family| {
            size_of::<Family>() + family.name.len() + family.unit.len() + family.help.len()
        };
        let labels = |exemplar: &Exemplar| -> usize {
            let labels = exemplar.labels.iter();
            labels.map(|l| l.name().len() + l.value().len()).sum()
        };
        let (texts, families) = (self.objections.texts.iter(), self.families.iter());
        self.series.len() * size_of::<IncomingSeries>()
            + self.floats.len() * size_of::<FloatSample>()
            + self.histograms.len() * size_of::<Histogram>()
            + self.exemplars.len() * size_of::<(u32, Exemplar)>()
            + self
                .exemplars
                .iter()
                .map(|(_, one)| labels(one))
                .sum::<usize>()
            + families.map(family).sum::<usize>()
            + texts.map(String::len).sum::<usize>()
    }

    /// Adds a float sample.
    ///
    /// # Errors
    /// Fails if the allowance is used up.
    #[inline]
    pub(crate) fn push_float(&mut self, sample: FloatSample) -> Result<(), RemoteError> {
        self.allowance.spend(size_of::<FloatSample>())?;
        self.floats.push(sample);
        Ok(())
    }

    /// Adds a histogram; one whose sum is a staleness marker ends its series, as such a float does.
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
    /// Returns the number of a series' labels and an upper bound on the bytes of their texts.
    ///
    /// # Errors
    /// Fails if the labels are malformed.
    pub(crate) fn size(&self, labels: &Range<u32>) -> Result<(usize, usize), RemoteError> {
        match self {
            Self::None => Ok((0, 0)),
            Self::Blocks(blocks) => {
                let block = blocks.bytes(labels);
                Ok((block_labels::count_labels(block)?, block.len()))
            }
            Self::Symbols { symbols, refs } => {
                let refs = &refs[labels.start as usize..labels.end as usize];
                let texts = refs.iter().filter_map(|at| symbols.get(*at as usize));
                Ok((refs.len() / 2, texts.map(|text| text.len()).sum()))
            }
        }
    }

    /// Visits the names and values of a series' labels in the order they were sent.
    ///
    /// # Errors
    /// Fails if an index refers to no symbol.
    pub(crate) fn visit<'s>(
        &'s self,
        labels: &Range<u32>,
        mut visit: impl FnMut(&'s [u8], &'s [u8]),
    ) -> Result<(), RemoteError> {
        match self {
            Self::None => Ok(()),
            Self::Blocks(blocks) => block_labels::visit_labels(blocks.bytes(labels), visit),
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

/// Hashes bytes into 128 bits that nobody outside can predict.
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

    /// Combines the keys of a list; their order matters.
    pub(crate) fn fold(&self, keys: impl Iterator<Item = u128>) -> u128 {
        // Odd multipliers lose no bits: every key and its position affect the result.
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
