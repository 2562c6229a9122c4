//! Blocks of up to 32 differences: their control bytes, masks and packed payload.
//!
//! Control byte: the low six bits hold the width − 1, the high two bits the mode. The plain modes never use width
//! 64; that code means two widths instead: all columns' low bits, then the high bits of a few. All control bytes come
//! first, then the masks, then the payloads, so a reader of one column adds up lengths without touching payloads.
//!
//! Invariant: a control byte never describes an all-zero block; the bitmap leaves those out.

use super::BLOCK_COLUMNS;
use crate::bits::{get_bits, pack_into, packed_len, unpack8, width_of, zigzag};
use crate::error::ChunkError;

const SPARSE: u8 = 0x40;
const PLAIN: u8 = 0x80;
/// Two widths; with the `SPARSE` bit set the differences are plain.
const PATCHED: u8 = 0xbf;

/// Most bytes a block takes in front (control, mask) and behind (payload), for reserving space.
const FRONT_MAX: usize = 7;
/// Bytes of the mask of a block of 32 columns, and the most blocks of a row.
const MASK_BYTES: usize = BLOCK_COLUMNS / 8;
const BLOCKS: usize = super::MAX_COLUMNS / BLOCK_COLUMNS;
const PAYLOAD_MAX: usize = 8 * BLOCK_COLUMNS + 16;

/// Returns an upper bound of the bytes that writing a row of `columns` columns takes beyond those of the row.
pub(crate) fn spare_bytes(columns: usize) -> usize {
    4 + columns.div_ceil(BLOCK_COLUMNS) * FRONT_MAX + PAYLOAD_MAX
}

/// Writes the blocks of one row: payloads straight to the output, fronts to a small gap ahead of them.
pub(crate) struct BlockWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    total: usize,
    nonzero: u32,
    fronts: [Front; BLOCK_COLUMNS],
    coded: usize,
    payload: usize,
    end: usize,
}

/// The part that precedes a block's payload.
#[derive(Clone, Copy, Default)]
struct Front {
    control: u8,
    /// Low width, and high width − 1, of a patched block.
    widths: Option<[u8; 2]>,
    mask: u32,
    mask_len: u8,
}

impl<'o> BlockWriter<'o> {
    /// Starts a row of `total` blocks.
    pub(crate) fn new(out: &'o mut Vec<u8>, total: usize) -> Self {
        let start = out.len();
        let payload = start + 4 + total * FRONT_MAX;
        out.resize(payload, 0);
        Self {
            out,
            start,
            total,
            nonzero: 0,
            fronts: [Front::default(); BLOCK_COLUMNS],
            coded: 0,
            payload,
            end: payload,
        }
    }

    /// Appends block `index` with differences `d`; `raw` marks columns that hold XORed bits.
    #[inline(always)]
    #[expect(
        clippy::too_many_lines,
        reason = "one pass over a row, whose state stays in registers"
    )]
    pub(crate) fn put_block<const N: usize>(
        &mut self,
        index: usize,
        block_columns: usize,
        d: &[i64; N],
        raw: u32,
    ) {
        let mut all = 0i64;
        let mut changed = 0usize;
        for &v in d {
            all |= v;
            changed += usize::from(v != 0);
        }
        if all == 0 {
            return;
        }
        let mut z = [0u64; N];
        let mut mode = 0;
        let width = if all > 0 {
            mode = PLAIN;
            for (z, &d) in z.iter_mut().zip(d) {
                *z = d as u64;
            }
            width_of(all as u64)
        } else {
            let mut any = 0;
            for (z, &d) in z.iter_mut().zip(d) {
                *z = zigzag(d);
            }
            if raw != 0 {
                for k in (0..N).filter(|k| raw >> k & 1 == 1) {
                    z[k] = d[k] as u64;
                }
            }
            for z in &z {
                any |= z;
            }
            width_of(any)
        };
        // The output stays longer than the written bytes, so that each byte is zeroed once instead of once per block.
        let end = self.end;
        if self.out.len() < end + PAYLOAD_MAX {
            self.out.resize(end + PAYLOAD_MAX, 0);
        }
        let dst = &mut self.out[end..end + PAYLOAD_MAX];
        let mut front = Front {
            control: mode | (width - 1) as u8,
            ..Front::default()
        };
        let mask_len = block_columns.div_ceil(8);
        let dense_len = packed_len(block_columns, width);
        let sparse_len = packed_len(changed, width) + mask_len;
        let patched = if width > 5 {
            patch_width(&z, block_columns, width)
        } else {
            None
        };
        let len = match patched {
            Some((low, len)) if len + 1 < dense_len.min(sparse_len) => {
                front.control = PATCHED | if mode == PLAIN { SPARSE } else { 0 };
                front.widths = Some([low as u8, (width - low - 1) as u8]);
                let mut high = z.map(|z| z >> low);
                let count = high.iter().filter(|h| **h != 0).count();
                front.mask = compact(&mut high);
                z.iter_mut().for_each(|z| *z &= (1 << low) - 1);
                let low_len = packed_len(block_columns, low);
                pack_into(&z[..block_columns], low, dst);
                pack_into(&high[..count], width - low, &mut dst[low_len..]);
                low_len + packed_len(count, width - low)
            }
            _ if sparse_len < dense_len => {
                front.control |= SPARSE;
                front.mask = compact(&mut z);
                pack_into(&z[..changed], width, dst);
                sparse_len - mask_len
            }
            _ => {
                pack_into(&z[..block_columns], width, dst);
                dense_len
            }
        };
        front.mask_len = front_len(front.control, block_columns).min(mask_len) as u8;
        self.end = end + len;
        self.nonzero |= 1 << index;
        self.fronts[self.coded] = front;
        self.coded += 1;
    }

    /// Moves everything into place; returns whether a bitmap of non-zero blocks was written.
    pub(crate) fn finish(self) -> bool {
        let bitmap = self.coded < self.total;
        let mut at = self.start;
        if bitmap {
            let len = self.total.div_ceil(8);
            self.out[at..at + len].copy_from_slice(&self.nonzero.to_le_bytes()[..len]);
            at += len;
        }
        let fronts = &self.fronts[..self.coded];
        for front in fronts {
            self.out[at] = front.control;
            at += 1;
        }
        for front in fronts.iter().filter(|f| f.mask_len > 0) {
            if let Some(widths) = front.widths {
                self.out[at..at + 2].copy_from_slice(&widths);
                at += 2;
            }
            let len = usize::from(front.mask_len);
            self.out[at..at + len].copy_from_slice(&front.mask.to_le_bytes()[..len]);
            at += len;
        }
        self.out.copy_within(self.payload..self.end, at);
        self.out.truncate(at + self.end - self.payload);
        bitmap
    }
}

/// Finds the low width that makes a patched block smallest; returns it and the block's length including its front.
fn patch_width<const N: usize>(
    z: &[u64; N],
    block_columns: usize,
    width: u32,
) -> Option<(u32, usize)> {
    // Two widths can only win when few columns need more than half the bits.
    let wide: usize = z.iter().map(|z| usize::from(z >> (width / 2) != 0)).sum();
    if wide * 2 > block_columns {
        return None;
    }
    let mut counts = [0u8; 65];
    for z in &z[..block_columns] {
        counts[width_of(*z) as usize] += 1;
    }
    let front = 2 + block_columns.div_ceil(8);
    let mut above = 0;
    let mut best = None;
    for low in (0..width).rev() {
        above += usize::from(counts[low as usize + 1]);
        let len = front + packed_len(block_columns, low) + packed_len(above, width - low);
        if best.is_none_or(|(_, least)| len < least) {
            best = Some((low, len));
        }
    }
    best
}

/// Moves the non-zero values to the front; returns a mask of their places.
fn compact<const N: usize>(z: &mut [u64; N]) -> u32 {
    let mut mask = 0;
    let mut at = 0;
    for k in 0..N {
        let v = z[k];
        z[at] = v;
        let set = usize::from(v != 0);
        at += set;
        mask |= (set as u32) << k;
    }
    mask
}

/// The blocks of one row, with lengths checked.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    /// From the first control byte to the end of the input: payload reads may run ahead.
    bytes: &'a [u8],
    columns: usize,
    nonzero: u32,
    payloads: usize,
    /// Of each coded block.
    places: [Place; BLOCKS],
}

/// Where a row's blocks begin.
struct Fronts<'a> {
    /// Bytes before the control bytes.
    at: usize,
    /// From the first control byte on.
    base: &'a [u8],
    controls: &'a [u8],
    nonzero: u32,
}

impl<'a> Fronts<'a> {
    #[inline]
    fn find(bytes: &'a [u8], bitmap: bool, columns: usize) -> Result<Self, ChunkError> {
        let total = columns.div_ceil(BLOCK_COLUMNS);
        let every = if total == 32 {
            u32::MAX
        } else {
            (1u32 << total) - 1
        };
        let (mut nonzero, mut at) = (every, 0);
        if bitmap {
            at = total.div_ceil(8);
            let mut b = [0u8; 4];
            b[..at].copy_from_slice(slice(bytes, 0, at)?);
            nonzero = u32::from_le_bytes(b);
            if nonzero & !every != 0 {
                return Err(ChunkError::Malformed {
                    what: "block bitmap",
                    offset: 0,
                });
            }
        }
        Ok(Self {
            at,
            base: &bytes[at..],
            controls: slice(bytes, at, nonzero.count_ones() as usize)?,
            nonzero,
        })
    }
}

/// Returns the index of the last block of which anything changed.
fn last_of(nonzero: u32) -> usize {
    BLOCK_COLUMNS - 1 - nonzero.leading_zeros() as usize
}

/// Where a block's mask is, and where its payload among all payloads.
#[derive(Clone, Copy, Default)]
struct Place {
    mask: u16,
    payload: u16,
}

/// One coded block.
pub(crate) struct Block<'a> {
    /// Index among all blocks of the row.
    pub(crate) index: usize,
    pub(crate) block_columns: usize,
    pub(crate) width: u32,
    /// Whether differences are stored without zigzag coding.
    pub(crate) plain: bool,
    /// Columns with a value in the payload, or with high bits in a patched block.
    pub(crate) mask: u32,
    /// Set bits of the mask, or all columns of a dense block.
    count: usize,
    pub(crate) sparse: bool,
    /// Width of the high bits of a patched block, else zero.
    high_width: u32,
    payload: &'a [u8],
}

impl<'a> Blocks<'a> {
    /// Checks the blocks of a row of `columns` columns at the front of `bytes`; returns them and their length.
    pub(crate) fn parse(
        bytes: &'a [u8],
        bitmap: bool,
        columns: usize,
    ) -> Result<(Self, usize), ChunkError> {
        let fronts = Fronts::find(bytes, bitmap, columns)?;
        let (at, base, coded) = (fronts.at, fronts.base, fronts.controls.len());
        let mut blocks = Self {
            bytes: base,
            columns,
            nonzero: fronts.nonzero,
            payloads: coded,
            places: [Place::default(); BLOCKS],
        };
        let Some((&control, full)) = fronts.controls.split_last() else {
            return Ok((blocks, at));
        };
        let (mut mask_at, mut len) = (coded, 0);
        for (place, control) in blocks.places.iter_mut().zip(full) {
            (place.mask, place.payload) = (mask_at as u16, len as u16);
            len += full_payload_len(base, *control, mask_at);
            mask_at += front_len(*control, BLOCK_COLUMNS);
        }
        let last = &mut blocks.places[full.len()];
        (last.mask, last.payload) = (mask_at as u16, len as u16);
        // Only the last block of a row can be narrower than 32 columns.
        let index = last_of(fronts.nonzero);
        blocks.payloads = mask_at + front_len(control, block_columns_of(columns, index));
        slice(base, 0, blocks.payloads)?;
        let block = blocks.block(index, full.len());
        block.check_mask(at + mask_at)?;
        len += block.payload_len();
        slice(base, blocks.payloads, len)?;
        Ok((blocks, at + blocks.payloads + len))
    }

    #[inline(always)]
    fn block(&self, index: usize, coded: usize) -> Block<'a> {
        let (control, place) = (self.bytes[coded], self.places[coded]);
        let (mask_at, before) = (usize::from(place.mask), usize::from(place.payload));
        let payload = self.payloads + before;
        Block::new(self.bytes, self.columns, index, control, mask_at, payload)
    }

    /// Passes some blocks of a row of `columns` columns at the front of `bytes` to `take`: those of the ascending numbers in
    /// `wanted`, where anything changed, with their indexes in it. Returns the length of all, which are checked as `parse` does.
    #[inline]
    pub(crate) fn pass(
        bytes: &'a [u8],
        bitmap: bool,
        columns: usize,
        wanted: impl Iterator<Item = usize>,
        mut take: impl FnMut(usize, Block<'a>),
    ) -> Result<usize, ChunkError> {
        let fronts = Fronts::find(bytes, bitmap, columns)?;
        let Fronts {
            base,
            controls,
            nonzero,
            ..
        } = fronts;
        let coded = controls.len();
        let Some((last, full)) = controls.split_last() else {
            return Ok(fronts.at);
        };
        let last_columns = block_columns_of(columns, last_of(nonzero));
        let of_full = full
            .iter()
            .map(|control| front_len(*control, BLOCK_COLUMNS));
        let payloads = coded + of_full.sum::<usize>() + front_len(*last, last_columns);
        slice(base, 0, payloads)?;
        let (mut mask_at, mut payload, mut passed) = (coded, payloads, 0);
        let mut find = |index: usize, number: usize| {
            for control in &controls[passed..number] {
                payload += full_payload_len(base, *control, mask_at);
                mask_at += front_len(*control, BLOCK_COLUMNS);
            }
            passed = number;
            let control = controls[number];
            (
                Block::new(base, columns, index, control, mask_at, payload),
                mask_at,
                payload,
            )
        };
        for (asked, index) in wanted.enumerate() {
            if nonzero >> index & 1 == 1 {
                let before = nonzero & ((1 << index) - 1);
                take(asked, find(index, before.count_ones() as usize).0);
            }
        }
        // Only the last block of a row can be narrower than 32 columns.
        let (block, mask_at, payload) = find(last_of(nonzero), coded - 1);
        block.check_mask(fronts.at + mask_at)?;
        let end = payload + block.payload_len();
        slice(base, 0, end)?;
        Ok(fronts.at + end)
    }

    /// Returns block `index`, or `None` when nothing in it changed.
    #[inline]
    pub(crate) fn find(&self, index: usize) -> Option<Block<'a>> {
        if self.nonzero >> index & 1 == 0 {
            return None;
        }
        let coded = (self.nonzero & ((1 << index) - 1)).count_ones() as usize;
        Some(self.block(index, coded))
    }

    /// Iterates over the coded blocks in ascending order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Block<'a>> {
        let mut nonzero = self.nonzero;
        let indexes = std::iter::from_fn(move || {
            let index = nonzero.trailing_zeros() as usize;
            nonzero &= nonzero.checked_sub(1)?;
            Some(index)
        });
        let coded = indexes.enumerate();
        coded.map(|(coded, index)| self.block(index, coded))
    }
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn new(
        bytes: &'a [u8],
        columns: usize,
        index: usize,
        control: u8,
        mask_at: usize,
        payload: usize,
    ) -> Self {
        let block_columns = block_columns_of(columns, index);
        let mask_len = block_columns.div_ceil(8);
        let (mut sparse, mut plain) = (control & SPARSE != 0, control & PLAIN != 0);
        let (mut width, mut high_width) = (u32::from(control & 0x3f) + 1, 0);
        let (mut mask, mut count) = (full_mask(block_columns), block_columns);
        if control & PATCHED == PATCHED {
            plain = sparse;
            sparse = false;
            [width, high_width] = patched_widths(bytes, mask_at);
            mask = load_mask(bytes, mask_at + 2, mask_len);
            count = mask.count_ones() as usize;
        } else if sparse {
            mask = load_mask(bytes, mask_at, mask_len);
            count = mask.count_ones() as usize;
        }
        Self {
            index,
            block_columns,
            width,
            plain,
            mask,
            count,
            sparse,
            high_width,
            payload: bytes.get(payload..).unwrap_or_default(),
        }
    }

    fn check_mask(&self, offset: usize) -> Result<(), ChunkError> {
        if self.mask & !full_mask(self.block_columns) == 0 {
            return Ok(());
        }
        Err(ChunkError::Malformed {
            what: "block mask",
            offset,
        })
    }
}

impl Block<'_> {
    /// Reads the payload: dense columns in order, sparse ones at the front.
    #[inline(always)]
    pub(crate) fn unpack(&self, z: &mut [u64; BLOCK_COLUMNS]) {
        if self.high_width == 0 {
            return unpack_values(self.payload, self.width, self.count, z);
        }
        self.unpack_patched(z);
    }

    fn unpack_patched(&self, z: &mut [u64; BLOCK_COLUMNS]) {
        z.fill(0);
        unpack_values(self.payload, self.width, self.block_columns, z);
        let mut high = [0u64; BLOCK_COLUMNS];
        unpack_values(self.high_payload(), self.high_width, self.count, &mut high);
        let mut mask = self.mask;
        let mut slot = 0;
        while mask != 0 {
            let k = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            z[k] |= high[slot] << self.width;
            slot += 1;
        }
    }

    fn high_payload(&self) -> &[u8] {
        self.payload
            .get(packed_len(self.block_columns, self.width)..)
            .unwrap_or_default()
    }

    /// Reads the value of one column, or `None` when it did not change.
    #[inline(always)]
    pub(crate) fn value(&self, at: usize) -> Option<u64> {
        let width = self.width;
        let set = self.mask >> at & 1 == 1;
        let before = || (self.mask & ((1 << at) - 1)).count_ones() as usize;
        if self.high_width > 0 {
            let low = if width > 0 {
                get_bits(self.payload, at * width as usize, width)
            } else {
                0
            };
            if !set {
                return Some(low);
            }
            let at = before() * self.high_width as usize;
            return Some(low | get_bits(self.high_payload(), at, self.high_width) << width);
        }
        if !set {
            return None;
        }
        let slot = if self.sparse { before() } else { at };
        Some(get_bits(self.payload, slot * width as usize, width))
    }

    #[inline]
    fn payload_len(&self) -> usize {
        if self.high_width == 0 {
            return packed_len(self.count, self.width);
        }
        packed_len(self.block_columns, self.width) + packed_len(self.count, self.high_width)
    }
}

/// Reads `count` values of `width` (0..=64) bits; those up to the next multiple of eight are undefined.
#[inline(always)]
fn unpack_values(src: &[u8], width: u32, count: usize, z: &mut [u64; BLOCK_COLUMNS]) {
    if width == 0 {
        return;
    }
    let w = width as usize;
    let groups = count.div_ceil(8);
    let (chunks, _) = z.as_chunks_mut::<8>();
    let need = groups * w + 8;
    if let Some(src) = src.get(..need) {
        for (g, chunk) in chunks[..groups].iter_mut().enumerate() {
            unpack8(&src[g * w..], width, chunk);
        }
    } else {
        let mut pad = [0u8; PAYLOAD_MAX];
        pad[..src.len()].copy_from_slice(src);
        for (g, chunk) in chunks[..groups].iter_mut().enumerate() {
            unpack8(&pad[g * w..], width, chunk);
        }
    }
}

fn block_columns_of(columns: usize, index: usize) -> usize {
    (columns - index * BLOCK_COLUMNS).min(BLOCK_COLUMNS)
}

fn full_mask(block_columns: usize) -> u32 {
    u32::MAX >> (BLOCK_COLUMNS - block_columns)
}

/// Returns the number of bytes of a block between the control bytes and the payloads.
#[inline]
fn front_len(control: u8, block_columns: usize) -> usize {
    if control & PATCHED == PATCHED {
        2 + block_columns.div_ceil(8)
    } else if control & SPARSE == 0 {
        0
    } else {
        block_columns.div_ceil(8)
    }
}

/// Returns the bytes of the payload of a block of 32 columns.
#[inline(always)]
fn full_payload_len(bytes: &[u8], control: u8, mask_at: usize) -> usize {
    let width = u32::from(control & 0x3f) + 1;
    let some = |mask_at: usize| load_mask(bytes, mask_at, MASK_BYTES).count_ones() as usize;
    if control & PATCHED == PATCHED {
        let [low, high] = patched_widths(bytes, mask_at);
        packed_len(BLOCK_COLUMNS, low) + packed_len(some(mask_at + 2), high)
    } else if control & SPARSE == 0 {
        packed_len(BLOCK_COLUMNS, width)
    } else {
        packed_len(some(mask_at), width)
    }
}

/// Returns the width of a patched block's low bits and that of its high bits. Any two bytes are valid widths.
#[inline(always)]
fn patched_widths(bytes: &[u8], at: usize) -> [u32; 2] {
    let [low, high] = bytes.get(at..at + 2).map_or([0; 2], |two| [two[0], two[1]]);
    [u32::from(low & 0x3f), u32::from(high & 0x3f) + 1]
}

#[inline(always)]
fn load_mask(bytes: &[u8], at: usize, len: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(b) if len == 4 => u32::from_le_bytes(b.try_into().expect("four bytes were sliced")),
        _ => {
            let mut b = [0u8; 4];
            let src = bytes.get(at..at + len).unwrap_or_default();
            b[..src.len()].copy_from_slice(src);
            u32::from_le_bytes(b)
        }
    }
}

fn slice(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], ChunkError> {
    bytes.get(at..at + len).ok_or(ChunkError::Truncated {
        offset: bytes.len(),
        needed: at + len - bytes.len().min(at + len),
    })
}
