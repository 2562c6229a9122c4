//! The parts of one row's bytes, located and checked before any state changes.
//!
//! Invariant: a parsed [`RowView`] can be applied or undone without reading beyond its bytes.

use super::blocks::Blocks;
use super::order::{order_len, read_order};
use super::switch::Switch;
use super::{MAX_COLUMNS, event, flag};
use crate::bits::{Reader, put_varint};
use crate::error::ChunkError;

/// One parsed row.
pub(crate) struct RowView<'a> {
    /// Change of the time step, ms.
    pub(crate) step_change_ms: i64,
    pub(crate) columns_before: usize,
    pub(crate) columns: usize,
    pub(crate) blocks: Blocks<'a>,
    pub(crate) len: usize,
    /// Parts that most rows lack; boxed, so that common rows parse quickly.
    rare: Option<Box<Rare<'a>>>,
}

#[derive(Default)]
struct Rare<'a> {
    snapshot: Option<&'a [u8]>,
    /// For each position, its previous position.
    order: Option<Vec<u16>>,
    toggles: Option<Toggles<'a>>,
    events: Option<Events<'a>>,
    switches: Vec<Switch>,
}

/// Columns whose presence changes.
#[derive(Clone, Copy)]
pub(crate) struct Toggles<'a> {
    pub(crate) list: Option<ColumnList<'a>>,
    pub(crate) bitmap: &'a [u8],
}

/// Ascending columns, as varint gaps.
#[derive(Clone, Copy)]
pub(crate) struct ColumnList<'a> {
    count: usize,
    bytes: &'a [u8],
}

/// Non-numeric changes of columns in this row.
#[derive(Clone, Copy)]
pub(crate) struct Events<'a> {
    pub(crate) gone_are_stale: bool,
    pub(crate) stale: ColumnList<'a>,
    pub(crate) histograms: Option<HistogramList<'a>>,
}

/// A row's histograms.
#[derive(Clone, Copy)]
pub(crate) enum HistogramList<'a> {
    /// Columns, and a histogram by itself for each.
    Whole(&'a [u8]),
    /// Columns, and a change for each.
    Changes(&'a [u8]),
    /// A change for each column that has had one.
    SameColumns(&'a [u8]),
}

/// A row that has nothing but differences, as most do, before its blocks are located. Histograms may change, too, in the
/// columns that have had one.
#[derive(Clone, Copy)]
pub(crate) struct PlainRow<'a> {
    /// Change of the time step, ms.
    pub(crate) step_change_ms: i64,
    pub(crate) bitmap: bool,
    pub(crate) histograms: Option<HistogramList<'a>>,
    /// The blocks, and what is behind them.
    pub(crate) blocks: &'a [u8],
    /// Bytes before the blocks.
    pub(crate) offset: usize,
}

impl<'a> PlainRow<'a> {
    /// Parses the front of the row at the front of `bytes`; `None` if it has more than differences.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<Self>, ChunkError> {
        let mut r = Reader::new(bytes);
        let flags = r.byte()?;
        if !is_plain(flags & !flag::EVENTS) {
            return Ok(None);
        }
        let step_change_ms = step_change(flags, &mut r)?;
        let mut histograms = None;
        if flags & flag::EVENTS != 0 {
            if r.byte()? != event::CHANGES | event::SAME_COLUMNS {
                return Ok(None);
            }
            histograms = Some(HistogramList::SameColumns(r.sized()?));
        }
        Ok(Some(Self {
            step_change_ms,
            bitmap: flags & flag::BITMAP != 0,
            histograms,
            blocks: r.rest(),
            offset: r.offset(),
        }))
    }
}

fn is_plain(flags: u8) -> bool {
    flags & !(flag::TIME | flag::BITMAP) == 0
}

fn step_change(flags: u8, r: &mut Reader<'_>) -> Result<i64, ChunkError> {
    if flags & flag::TIME == 0 {
        Ok(0)
    } else {
        r.signed()
    }
}

/// A decoder's knowledge of the number of columns.
#[derive(Clone, Copy)]
pub(crate) enum Known {
    /// Nothing: only a key row can be decoded.
    Nothing,
    /// The number of columns before the row.
    Before(usize),
    /// The number of columns after the row.
    After(usize),
}

impl<'a> RowView<'a> {
    /// Parses the row at the front of `bytes`.
    pub(crate) fn parse(bytes: &'a [u8], known: Known) -> Result<Self, ChunkError> {
        let mut r = Reader::new(bytes);
        let flags = r.byte()?;
        let step_change_ms = step_change(flags, &mut r)?;
        let (rare, columns_before, columns) = match known {
            Known::Before(n) | Known::After(n) if is_plain(flags) => (None, n, n),
            _ => {
                let (rare, before, after) = Rare::parse(flags, &mut r, known)?;
                (Some(Box::new(rare)), before, after)
            }
        };
        let (blocks, len) = Blocks::parse(r.rest(), flags & flag::BITMAP != 0, columns)?;
        let len = r.offset() + len;
        Ok(Self {
            step_change_ms,
            columns_before,
            columns,
            blocks,
            len,
            rare,
        })
    }

    pub(crate) fn snapshot(&self) -> Option<&'a [u8]> {
        self.rare.as_ref()?.snapshot
    }

    pub(crate) fn order(&self) -> Option<&[u16]> {
        self.rare.as_ref()?.order.as_deref()
    }

    pub(crate) fn toggles(&self) -> Option<&Toggles<'a>> {
        self.rare.as_ref()?.toggles.as_ref()
    }

    pub(crate) fn events(&self) -> Option<&Events<'a>> {
        self.rare.as_ref()?.events.as_ref()
    }

    pub(crate) fn histograms(&self) -> Option<&HistogramList<'a>> {
        self.events()?.histograms.as_ref()
    }

    pub(crate) fn switches(&self) -> &[Switch] {
        self.rare.as_ref().map_or(&[], |rare| &rare.switches)
    }
}

impl<'a> Rare<'a> {
    /// Reads the part between the time and the blocks; also returns the column counts before and after.
    #[cold]
    fn parse(
        flags: u8,
        r: &mut Reader<'a>,
        known: Known,
    ) -> Result<(Self, usize, usize), ChunkError> {
        let mut rare = Self::default();
        if flags & flag::KEY != 0 {
            let len = r.count(r.rest().len(), "snapshot length")?;
            rare.snapshot = Some(r.slice(len)?);
        }
        let (before, columns) = rare.columns(flags, r, known)?;
        if flags & flag::ORDER != 0 {
            let offset = r.offset();
            rare.order = Some(read_order(r.slice(order_len(columns))?, columns, offset)?);
        }
        if flags & flag::PRESENCE != 0 {
            rare.toggles = Some(Toggles::read(r, columns)?);
        }
        if flags & flag::EVENTS != 0 {
            rare.events = Some(Events::read(r, columns)?);
        }
        if flags & flag::SWITCHES != 0 {
            let count = r.count(columns, "exponent switch count")?;
            let mut after = 0;
            for _ in 0..count {
                let switch = Switch::read(r, after, columns)?;
                after = switch.position + 1;
                rare.switches.push(switch);
            }
        }
        Ok((rare, before, columns))
    }

    fn columns(
        &self,
        flags: u8,
        r: &mut Reader<'a>,
        known: Known,
    ) -> Result<(usize, usize), ChunkError> {
        let mut grown = |max: usize| {
            if flags & flag::GROW == 0 {
                Ok(0)
            } else {
                r.count(max, "column growth")
            }
        };
        let before = match (known, self.snapshot) {
            (Known::Before(n), _) => n,
            (Known::After(n), _) => return Ok((n - grown(n)?, n)),
            (Known::Nothing, Some(s)) => Reader::new(s).count(MAX_COLUMNS, "column count")?,
            (Known::Nothing, None) => return Err(ChunkError::NotAKeyRow),
        };
        Ok((before, before + grown(MAX_COLUMNS - before)?))
    }
}

impl<'a> Toggles<'a> {
    /// Appends the set bits of `words` (`columns` bits) in the shorter form.
    pub(crate) fn put_words(words: &[u64], columns: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let list: Vec<u32> = set_bits(words).collect();
        put_varint(out, (list.len() as u64) << 1);
        put_columns(&list, out);
        let bitmap = columns.div_ceil(8);
        if out.len() - start > 1 + bitmap {
            out.truncate(start);
            out.push(1);
            out.extend(words.iter().flat_map(|w| w.to_le_bytes()).take(bitmap));
        }
    }

    fn read(r: &mut Reader<'a>, columns: usize) -> Result<Self, ChunkError> {
        let head = r.count(2 * columns + 1, "presence list")?;
        if head & 1 == 0 {
            let list = ColumnList::read(r, head >> 1, columns)?;
            return Ok(Self {
                list: Some(list),
                bitmap: &[],
            });
        }
        let bitmap = r.slice(columns.div_ceil(8))?;
        let spare = bitmap.len() * 8 - columns;
        if bitmap
            .last()
            .is_some_and(|b| spare > 0 && b >> (8 - spare) != 0)
        {
            return Err(r.malformed("presence bitmap"));
        }
        Ok(Self { list: None, bitmap })
    }

    /// Flips the columns in `words`.
    pub(crate) fn flip(&self, words: &mut [u64]) {
        for (k, &b) in self.bitmap.iter().enumerate() {
            words[k / 8] ^= u64::from(b) << (k % 8 * 8);
        }
        for c in self.list.iter().flat_map(ColumnList::iter) {
            words[c / 64] ^= 1 << (c % 64);
        }
    }
}

impl<'a> ColumnList<'a> {
    const EMPTY: Self = Self {
        count: 0,
        bytes: &[],
    };

    fn read(r: &mut Reader<'a>, count: usize, columns: usize) -> Result<Self, ChunkError> {
        let bytes = r.rest();
        let start = r.offset();
        let mut next = 0;
        for _ in 0..count {
            next = next_column(r, next, columns)? + 1;
        }
        Ok(Self {
            count,
            bytes: &bytes[..r.offset() - start],
        })
    }

    /// Iterates over the columns, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + use<'a> {
        let mut r = Reader::new(self.bytes);
        let mut next = 0;
        (0..self.count).map_while(move |_| {
            let c = next_column(&mut r, next, MAX_COLUMNS).ok()?;
            next = c + 1;
            Some(c)
        })
    }
}

impl<'a> Events<'a> {
    /// Appends the events of a row, if any: what is stale, and `changes` of histograms, which are of the same columns as
    /// before or not. Returns whether anything was written.
    pub(crate) fn put_events(
        gone_are_stale: bool,
        stale: &[u32],
        changes: Option<(bool, &[u8])>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut flags = 0;
        for (set, bit) in [
            (gone_are_stale, event::GONE_ARE_STALE),
            (!stale.is_empty() && !gone_are_stale, event::STALE),
            (changes.is_some(), event::CHANGES),
            (changes.is_some_and(|(same, _)| same), event::SAME_COLUMNS),
        ] {
            flags |= if set { bit } else { 0 };
        }
        if flags == 0 {
            return false;
        }
        out.push(flags);
        if flags & event::STALE != 0 {
            put_varint(out, stale.len() as u64);
            put_columns(stale, out);
        }
        out.extend_from_slice(changes.map_or(&[], |(_, bytes)| bytes));
        true
    }

    fn read(r: &mut Reader<'a>, columns: usize) -> Result<Self, ChunkError> {
        let flags = r.byte()?;
        if flags == 0 || flags > 31 {
            return Err(r.malformed("event flags"));
        }
        let of_histograms = flags & (event::HISTOGRAMS | event::CHANGES | event::SAME_COLUMNS);
        let mut stale = ColumnList::EMPTY;
        if flags & event::STALE != 0 {
            let count = r.count(columns, "stale count")?;
            stale = ColumnList::read(r, count, columns)?;
        }
        const SAME_COLUMNS: u8 = event::CHANGES | event::SAME_COLUMNS;
        let histograms = match of_histograms {
            0 => None,
            event::HISTOGRAMS => Some(HistogramList::read_whole(r, columns)?),
            event::CHANGES => Some(HistogramList::Changes(r.sized()?)),
            SAME_COLUMNS => Some(HistogramList::SameColumns(r.sized()?)),
            _ => return Err(r.malformed("event flags")),
        };
        Ok(Self {
            gone_are_stale: flags & event::GONE_ARE_STALE != 0,
            stale,
            histograms,
        })
    }
}

impl<'a> HistogramList<'a> {
    /// Reads histograms by themselves, which no length precedes.
    fn read_whole(r: &mut Reader<'a>, columns: usize) -> Result<Self, ChunkError> {
        let (rest, start) = (r.rest(), r.offset());
        walk(r, columns, |_, _| Ok(()))?;
        Ok(Self::Whole(&rest[..r.offset() - start]))
    }
}

/// Passes what is listed for columns to `each`.
pub(crate) fn walk<'a>(
    r: &mut Reader<'a>,
    columns: usize,
    mut each: impl FnMut(usize, &'a [u8]) -> Result<(), ChunkError>,
) -> Result<(), ChunkError> {
    let count = r.count(columns, "histogram count")?;
    let mut next = 0;
    for _ in 0..count {
        let column = next_column(r, next, columns)?;
        next = column + 1;
        each(column, r.sized()?)?;
    }
    Ok(())
}

/// Appends ascending `columns` as varint gaps.
fn put_columns(columns: &[u32], out: &mut Vec<u8>) {
    let mut next = 0;
    for &c in columns {
        put_varint(out, u64::from(c - next));
        next = c + 1;
    }
}

fn next_column(r: &mut Reader<'_>, next: usize, columns: usize) -> Result<usize, ChunkError> {
    let malformed = r.malformed("column");
    let c = next + r.count(columns, "column")?;
    if c < columns { Ok(c) } else { Err(malformed) }
}

/// Iterates over the set bits of `words`, ascending.
pub(crate) fn set_bits(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    words.iter().enumerate().flat_map(|(k, &w)| {
        let mut w = w;
        std::iter::from_fn(move || {
            let bit = w.trailing_zeros();
            w &= w.checked_sub(1)?;
            Some(k as u32 * 64 + bit)
        })
    })
}
