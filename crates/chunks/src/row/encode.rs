//! The encoder of a strip: one row of floats in, one row of bytes out.
//!
//! Invariant: after `encode` the state equals that of a decoder that read the bytes; an error leaves it unchanged.

use super::blocks::{BlockWriter, spare_bytes};
use super::order::{Watch, put_order};
use super::state::{RowState, raw_mask};
use super::switch::Switch;
use super::wire::{Events, Toggles};
use super::{BLOCK_COLUMNS, MAX_COLUMNS, flag};
use crate::bits::{put_signed, put_varint};
use crate::decimal::{FAST_LIMIT, MAGIC, POW10, RAW, find_exp, to_int};
use crate::error::ChunkError;
use narthex_model::Histogram;

/// One round of a strip.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// Time of the values, ms.
    pub time_ms: i64,
    /// One float per column; an absent column's value is ignored. A longer slice than before appends columns.
    pub values: &'a [f64],
    /// One bit per column, column 0 lowest in the first word; `None` when every column has a float.
    pub present: Option<&'a [u64]>,
    /// Columns that end in this row with a staleness marker, ascending; not present.
    pub stale: &'a [u32],
    /// Columns that hold a native histogram in this row, ascending; not present.
    pub histograms: &'a [(u32, &'a Histogram)],
}

/// Encodes the rows of one strip.
///
/// The first row is a key row: decoding can start there. Rows must be kept in order, each with its length.
#[derive(Clone, Debug, Default)]
pub struct RowEncoder {
    state: RowState,
    key_wanted: bool,
    snapshot_wanted: bool,
    started: bool,
    watch: Option<Box<Watch>>,
    /// Order that the next row adopts.
    order: Option<Vec<u16>>,
    /// Exponent switches of the current row; empty between rows.
    switches: Vec<Switch>,
}

impl RowEncoder {
    /// Returns an encoder without columns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the state after the last row, for reading the last values or decoding backwards.
    #[must_use]
    pub fn state(&self) -> &RowState {
        &self.state
    }

    /// Returns the heap bytes held.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let watch = self.watch.as_ref().map_or(0, |_| 2 * self.state.columns());
        self.state.heap_bytes() + watch + self.switches.capacity() * size_of::<Switch>()
    }

    /// Returns how many bytes beyond those of a row without new columns encoding it may use for a while.
    #[must_use]
    pub fn spare_bytes(&self) -> usize {
        spare_bytes(self.state.columns())
    }

    /// Makes the next row a key row.
    pub fn request_key(&mut self) {
        self.key_wanted = true;
    }

    /// Makes the next row carry a snapshot, so that decoding can start there too; column statistics are kept.
    pub fn request_snapshot(&mut self) {
        self.snapshot_wanted = true;
    }

    /// Appends the bytes of `row` to `out`; returns their number.
    ///
    /// # Errors
    /// Fails on fewer columns than before, more than [`MAX_COLUMNS`], or events that are not ascending or belong to
    /// present columns.
    pub fn encode(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<usize, ChunkError> {
        self.check(row)?;
        let start = out.len();
        let key = self.key_wanted || !self.started;
        if !self.started {
            self.state.time_ms = row.time_ms;
        }
        out.push(0);
        let mut flags = 0;
        let step = row.time_ms.wrapping_sub(self.state.time_ms);
        let change = step.wrapping_sub(self.state.step_ms);
        if change != 0 {
            flags |= flag::TIME;
            put_signed(out, change);
        }
        if key || self.snapshot_wanted {
            flags |= flag::KEY;
            self.put_snapshot(out);
        }
        if key {
            self.watch = Some(Box::default());
        }
        self.state.time_ms = row.time_ms;
        self.state.step_ms = step;
        flags |= self.put_growth_and_order(row.values.len(), out);
        flags |= self.put_presence(row, out);
        let switches_at = out.len();
        if self.put_blocks(row, key && self.started, out) {
            flags |= flag::BITMAP;
        }
        if !self.switches.is_empty() {
            flags |= flag::SWITCHES;
            self.put_switches(switches_at, out);
        }
        out[start] = flags;
        self.started = true;
        self.key_wanted = false;
        self.snapshot_wanted = false;
        self.end_watch();
        Ok(out.len() - start)
    }

    fn check(&self, row: &Row<'_>) -> Result<(), ChunkError> {
        let (got, have) = (row.values.len(), self.state.columns());
        if got < have || got > MAX_COLUMNS {
            return Err(ChunkError::Columns {
                got,
                expected: if got < have { have } else { MAX_COLUMNS },
            });
        }
        let bad = |what| Err(ChunkError::Malformed { what, offset: 0 });
        if row.present.is_some_and(|p| p.len() < got.div_ceil(64)) {
            return bad("presence words");
        }
        let absent = |c: u32| {
            let c = c as usize;
            c < got && row.present.is_some_and(|p| p[c / 64] >> (c % 64) & 1 == 0)
        };
        if !row.stale.iter().all(|c| absent(*c)) || !row.stale.is_sorted_by(|a, b| a < b) {
            return bad("stale events");
        }
        if !row.histograms.iter().all(|h| absent(h.0))
            || !row.histograms.is_sorted_by(|a, b| a.0 < b.0)
        {
            return bad("histogram events");
        }
        Ok(())
    }

    fn put_snapshot(&self, out: &mut Vec<u8>) {
        let mut snapshot = vec![];
        self.state.put_snapshot(&mut snapshot);
        put_varint(out, snapshot.len() as u64);
        out.extend_from_slice(&snapshot);
    }

    fn put_growth_and_order(&mut self, columns: usize, out: &mut Vec<u8>) -> u8 {
        let mut flags = 0;
        let before = self.state.columns();
        if columns > before {
            flags |= flag::GROW;
            put_varint(out, (columns - before) as u64);
            self.state.grow(columns);
            // A pending order does not cover the added columns: they stay at the end.
            if let Some(order) = &mut self.order {
                order.extend(before as u16..columns as u16);
            }
        }
        if let Some(order) = self.order.take() {
            flags |= flag::ORDER;
            put_order(&order, out);
            self.state.reorder(&order);
            if let Some(watch) = &mut self.watch {
                watch.reorder(&order);
            }
        }
        flags
    }

    fn put_presence(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> u8 {
        let n = self.state.columns();
        if row.present.is_none() && self.state.absent == 0 {
            return 0;
        }
        let mut toggles = [0u64; MAX_COLUMNS / 64];
        let (mut any, mut gone_any) = (0, 0);
        let mut gone_are_stale = true;
        let mut stale = [0u64; MAX_COLUMNS / 64];
        for &c in row.stale {
            stale[c as usize / 64] |= 1 << (c % 64);
        }
        let words = n.div_ceil(64);
        for (k, word) in self.state.present.iter_mut().enumerate() {
            let all = if k + 1 == words && !n.is_multiple_of(64) {
                (1 << (n % 64)) - 1
            } else {
                u64::MAX
            };
            let wanted = row.present.map_or(all, |p| p[k] & all);
            toggles[k] = *word ^ wanted;
            let gone = *word & !wanted;
            gone_are_stale &= gone == stale[k];
            gone_any |= gone;
            any |= toggles[k];
            *word = wanted;
        }
        let mut flags = 0;
        if any != 0 {
            flags |= flag::PRESENCE;
            self.state.count_absent();
            Toggles::put_words(&toggles[..words], n, out);
        }
        let mut changes = vec![];
        let histograms = &mut self.state.histograms;
        let same = histograms.put_changes(row.histograms, row.stale, &mut changes);
        let changes = same.map(|same| (same, changes.as_slice()));
        if Events::put_events(gone_are_stale && gone_any != 0, row.stale, changes, out) {
            flags |= flag::EVENTS;
        }
        flags
    }

    fn put_blocks(&mut self, row: &Row<'_>, relax: bool, out: &mut Vec<u8>) -> bool {
        let n = self.state.columns();
        let total = n.div_ceil(BLOCK_COLUMNS);
        let mut writer = BlockWriter::new(out, total);
        for index in 0..total {
            if n - index * BLOCK_COLUMNS <= 8 {
                self.put_block::<8>(index, row.values, relax, &mut writer);
            } else {
                self.put_block::<BLOCK_COLUMNS>(index, row.values, relax, &mut writer);
            }
        }
        writer.finish()
    }

    #[inline(always)]
    fn put_block<const N: usize>(
        &mut self,
        index: usize,
        values: &[f64],
        relax: bool,
        writer: &mut BlockWriter<'_>,
    ) {
        let state = &mut self.state;
        let from = index * BLOCK_COLUMNS;
        let to = (from + N.min(BLOCK_COLUMNS)).min(state.order.len());
        let block_columns = to - from;
        let (order, last, exp) = (
            &state.order[from..to],
            &mut state.last[from..to],
            &mut state.exp[from..to],
        );
        let (mut x, mut p, mut old) = ([0.0; N], [1.0; N], [0i64; N]);
        for (k, (&column, &e)) in order.iter().zip(exp.iter()).enumerate() {
            x[k] = values[usize::from(column)];
            p[k] = POW10[usize::from(e & 15)];
        }
        old[..block_columns].copy_from_slice(last);
        let mut m = [0i64; N];
        let mut d = [0i64; N];
        let missed = differences(&x, &p, &old, &mut m, &mut d);
        let mut raw = 0;
        if missed || relax || state.absent > 0 {
            let present = &state.present;
            let mut slow = Slow {
                from,
                relax,
                switches: &mut self.switches,
            };
            for k in 0..block_columns {
                let column = usize::from(order[k]);
                if present[column / 64] >> (column % 64) & 1 == 0 {
                    (m[k], d[k]) = (old[k], 0);
                } else {
                    (m[k], d[k]) = slow.encode(k, x[k], old[k], &mut exp[k]);
                }
            }
            raw = raw_mask(exp);
        }
        last.copy_from_slice(&m[..block_columns]);
        if let Some(watch) = &mut self.watch {
            watch.note(from, &d[..block_columns], exp);
        }
        writer.put_block(index, block_columns, &d, raw);
    }

    fn put_switches(&mut self, at: usize, out: &mut Vec<u8>) {
        let mut bytes = vec![];
        put_varint(&mut bytes, self.switches.len() as u64);
        let mut after = 0;
        for switch in &self.switches {
            switch.encode_into(after, &mut bytes);
            after = switch.position + 1;
        }
        out.splice(at..at, bytes);
        // Switches are rare after the first row, so give the memory back.
        self.switches = vec![];
    }

    fn end_watch(&mut self) {
        let n = self.state.columns();
        if let Some(watch) = &mut self.watch {
            if n > BLOCK_COLUMNS {
                self.order = watch.end_row(n);
            }
            if n <= BLOCK_COLUMNS || watch.is_done() {
                self.watch = None;
            }
        }
    }
}

/// Computes each column's integer and its difference to the previous one; returns whether a column needs the slow path.
#[inline(always)]
fn differences<const N: usize>(
    x: &[f64; N],
    p: &[f64; N],
    old: &[i64; N],
    m: &mut [i64; N],
    d: &mut [i64; N],
) -> bool {
    let mut missed = 0;
    for k in 0..N {
        let t = x[k] * p[k] + MAGIC;
        let r = t - MAGIC;
        let q = r / p[k];
        let inside = r.abs() < FAST_LIMIT;
        missed |= (q.to_bits() ^ x[k].to_bits()) | u64::from(!inside);
        m[k] = (t.to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64);
        d[k] = m[k].wrapping_sub(old[k]);
    }
    missed != 0
}

/// The slow path of one column.
struct Slow<'a> {
    from: usize,
    relax: bool,
    switches: &'a mut Vec<Switch>,
}

impl Slow<'_> {
    /// Returns the column's value and difference, switching its exponent when necessary.
    fn encode(&mut self, k: usize, v: f64, old: i64, exp: &mut u8) -> (i64, i64) {
        let wanted = self.wanted_exp(v, *exp);
        let mut base = old;
        if wanted != *exp {
            let (switch, rebased) = Switch::plan(self.from + k, old, *exp, wanted);
            self.switches.push(switch);
            base = rebased;
            *exp = wanted;
        }
        match to_int(v, wanted) {
            Some(m) => (m, m.wrapping_sub(base)),
            None => (v.to_bits() as i64, v.to_bits() as i64 ^ base),
        }
    }

    fn wanted_exp(&self, v: f64, exp: u8) -> u8 {
        if self.relax {
            // Retry a smaller exponent for a column that once needed many decimals or raw bits.
            let least = find_exp(v, 0).map_or(RAW, |(e, _)| e);
            // A great number may fit the least exponent and not the next.
            let fits = exp == RAW || to_int(v, exp).is_some();
            return if fits && exp.saturating_sub(least) < 3 {
                exp
            } else {
                least
            };
        }
        if exp == RAW || to_int(v, exp).is_some() {
            return exp;
        }
        find_exp(v, exp).map_or(RAW, |(e, _)| e)
    }
}
