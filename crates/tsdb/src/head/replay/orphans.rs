//! Rows after a lost one: they are differences to a missing row, until a key row gives the state they led to.
//!
//! From there they are undone one by one, back to the first after the gap, and encoded again.
//!
//! **Invariant:** only an unbroken run of rows that directly precedes the key row is rebuilt, and only if one encoder
//! wrote both.

use crate::{head::strip::PAGE_COLUMNS, wal::record::Pages};
use narthex_chunks::row::{Row, RowBack, RowEncoder, RowState};
use narthex_model::{
    Histogram,
    cell::{self, Cell},
};

/// The rows of a strip after a gap, oldest first.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    rows: Vec<Vec<Vec<u8>>>,
    /// Lower bound of their numbers.
    from: u64,
    /// Low byte of the last one's number.
    last: u8,
}

/// An encoded row that needs only the rebuilt rows before it.
#[derive(Debug)]
pub(super) struct Rebuilt {
    pub(super) time_ms: i64,
    pub(super) columns: usize,
    pub(super) pages: Vec<Vec<u8>>,
}

/// One page of a row, decoded.
#[derive(Default)]
struct Decoded {
    cells: Vec<f64>,
    histograms: Vec<(u32, Histogram)>,
}

impl Orphans {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// Keeps a row numbered `from` or higher; returns how many rows are given up because it does not follow them.
    pub(super) fn push(&mut self, sequence: u8, pages: Pages<'_>, from: u64) -> u64 {
        if self.rows.is_empty() {
            self.from = from;
        }
        let follows = self.rows.is_empty() || self.last.wrapping_add(1) == sequence;
        let given_up = if follows { 0 } else { self.give_up() };
        self.rows.push(pages.map(<[u8]>::to_vec).collect());
        self.last = sequence;
        given_up
    }

    /// Forgets all rows; returns how many there were.
    pub(super) fn give_up(&mut self) -> u64 {
        let count = self.rows.len() as u64;
        self.rows = Vec::new();
        count
    }

    /// Rebuilds the rows that directly precede `key`, a key row numbered `row`; all or none.
    pub(super) fn rebuild(&self, row: u64, key: Pages<'_>) -> Option<Vec<Rebuilt>> {
        let ends_there = self.last.wrapping_add(1) == (row & 0xff) as u8;
        if self.rows.is_empty() || !ends_there {
            return None;
        }
        let mut decoded: Vec<Vec<Decoded>> = Vec::new();
        decoded.resize_with(self.rows.len(), Vec::new);
        let mut times_ms = vec![None; self.rows.len()];
        for (page, key) in key.enumerate() {
            let newest = self.rows.last()?;
            if page >= newest.len() {
                break;
            }
            let mut back = RowBack::new(RowState::before(key).ok()??);
            for (at, pages) in self.rows.iter().enumerate().rev() {
                // A page added with a new column exists only in the later rows.
                let Some(bytes) = pages.get(page) else { break };
                let mut histograms = Vec::new();
                let stepped = back.step_with(bytes, |column, histogram| {
                    histograms.push((column as u32, histogram.to_histogram()));
                });
                stepped.ok()?;
                if *times_ms[at].get_or_insert(back.time_ms()) != back.time_ms() {
                    return None;
                }
                decoded[at].push(Decoded {
                    cells: back.cells().to_vec(),
                    histograms,
                });
            }
        }
        encode(&self.rows, decoded, &times_ms)
    }
}

fn encode(
    rows: &[Vec<Vec<u8>>],
    decoded: Vec<Vec<Decoded>>,
    times_ms: &[Option<i64>],
) -> Option<Vec<Rebuilt>> {
    let mut encoders: Vec<RowEncoder> = Vec::new();
    let mut rebuilt: Vec<Rebuilt> = Vec::new();
    for ((row, time_ms), pages) in decoded.into_iter().zip(times_ms).zip(rows) {
        let time_ms = (*time_ms)?;
        let ascends = rebuilt.last().is_none_or(|before| before.time_ms < time_ms);
        // Only the last page of a row may have room for more columns.
        let full = row
            .split_last()?
            .1
            .iter()
            .all(|page| page.cells.len() == PAGE_COLUMNS);
        if row.len() != pages.len() || !ascends || !full {
            return None;
        }
        let columns = row.iter().map(|page| page.cells.len()).sum();
        encoders.resize_with(encoders.len().max(row.len()), RowEncoder::new);
        let encoded = row.iter().zip(&mut encoders);
        let pages = encoded.map(|(page, encoder)| page.encode(time_ms, encoder));
        rebuilt.push(Rebuilt {
            time_ms,
            columns,
            pages: pages.collect::<Option<_>>()?,
        });
    }
    Some(rebuilt)
}

impl Decoded {
    fn encode(&self, time_ms: i64, encoder: &mut RowEncoder) -> Option<Vec<u8>> {
        let mut present = vec![0u64; self.cells.len().div_ceil(64)];
        let mut stale = Vec::new();
        for (at, value) in self.cells.iter().enumerate() {
            match Cell::decode(*value) {
                Cell::Float(_) => present[at / 64] |= 1 << (at % 64),
                Cell::Stale => stale.push(at as u32),
                Cell::Absent | Cell::Histogram(_) => {}
            }
        }
        let values: Vec<f64> = self
            .cells
            .iter()
            .map(|value| if cell::is_float(*value) { *value } else { 0.0 })
            .collect();
        let histograms = self.histograms.iter();
        let histograms: Vec<_> = histograms.map(|(column, own)| (*column, own)).collect();
        let row = Row {
            time_ms,
            values: &values,
            present: Some(&present),
            stale: &stale,
            histograms: &histograms,
        };
        let mut bytes = Vec::new();
        encoder.encode(&row, &mut bytes).ok()?;
        Some(bytes)
    }
}
