//! Row chunks: runs of a strip's rows that can be decoded from their own first row.
//!
//! Every page (at most 1,024 columns) has its own encoder and its own stream of bytes; times and the number of rows
//! are shared, so a row appears in all pages at once. The bytes are those in the WAL.
//!
//! **Invariant:** a row's bytes never straddle two pieces; a shared piece never changes; the first row of each page
//! is a key row.

use narthex_chunks::row::{MAX_COLUMNS, RowEncoder, RowState};
use std::sync::Arc;

/// Capacity of a piece of a page's stream, within bounds: for so many bytes of each column, or so many rows as the last one. What
/// is open of a narrow page is not to take more than all that is closed. A piece is closed when the next row may not fit.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 2 << 10..=8 << 10;
const PIECE_COLUMN_BYTES: usize = 32;
const PIECE_ROWS: usize = 4;
/// Bytes before a shared piece: with them it fills the allocator's size class.
const SHARED_BYTES: usize = 2 * size_of::<usize>();
/// A checkpoint, a row at which decoding can begin, is due after this many times the bytes of the last such row.
const CHECKPOINT_SHARE: usize = 16;

/// Readable rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowChunk {
    /// Number of the first row, counted from the strip's start.
    pub(crate) first_row: u64,
    base_ms: i64,
    offsets_ms: Vec<u32>,
    pub(crate) pages: Vec<PageRows>,
    /// Columns at the last row.
    pub(crate) columns: usize,
    /// Columns with anything in any row.
    pub(crate) seen: Vec<u64>,
    /// Whether the rows were encoded again by a replay: the next row chunk's key row then knows nothing of their encoder.
    pub(crate) is_rebuilt: bool,
}

/// The rows of one page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageRows {
    /// Row of the chunk with which this page begins.
    pub(crate) first: usize,
    pieces: Vec<Arc<[u8]>>,
    /// Offset of each piece in the stream.
    piece_starts: Vec<u32>,
    /// Offset of each row's end in the stream.
    ends: Vec<u32>,
}

impl RowChunk {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.offsets_ms.len()
    }

    /// Returns one past the number of the last row.
    pub(crate) fn end_row(&self) -> u64 {
        self.first_row + self.rows() as u64
    }

    /// Returns the time of a row.
    pub(crate) fn time_ms(&self, row: usize) -> i64 {
        self.base_ms + i64::from(self.offsets_ms[row])
    }

    /// Returns the times of the first and the last row.
    pub(crate) fn time_range(&self) -> Option<(i64, i64)> {
        let last = self.rows().checked_sub(1)?;
        Some((self.time_ms(0), self.time_ms(last)))
    }

    /// Returns the first row at or after `time_ms`.
    pub(crate) fn row_at(&self, time_ms: i64) -> usize {
        let is_before = |offset: &u32| self.base_ms + i64::from(*offset) < time_ms;
        // Most ranges begin before the first row or end after the last one, and a search misses the cache at each step.
        match (self.offsets_ms.first(), self.offsets_ms.last()) {
            (Some(first), _) if !is_before(first) => 0,
            (_, Some(last)) if is_before(last) => self.rows(),
            _ => self.offsets_ms.partition_point(is_before),
        }
    }

    /// Reports whether a column has anything in any row.
    pub(crate) fn has_seen(&self, column: u32) -> bool {
        let column = column as usize;
        self.seen
            .get(column / 64)
            .is_some_and(|word| word >> (column % 64) & 1 == 1)
    }

    /// Returns the bytes of all rows.
    pub(crate) fn encoded_bytes(&self) -> usize {
        self.pages
            .iter()
            .map(|page| page.ends.last().map_or(0, |end| *end as usize))
            .sum()
    }
}

impl PageRows {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of one of the page's rows, counted from the page's first.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        let from = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        let to = self.ends[row];
        if from == to {
            // Encoders never write an empty row, but a foreign WAL may hold one.
            return &[];
        }
        let piece = self.piece_starts.partition_point(|start| *start <= from) - 1;
        self.in_piece(piece, from, to)
    }

    fn in_piece(&self, piece: usize, from: u32, to: u32) -> &[u8] {
        let start = self.piece_starts[piece];
        &self.pieces[piece][(from - start) as usize..(to - start) as usize]
    }

    /// Returns a reader of neighbouring rows.
    pub(crate) fn reader(&self) -> PageReader<'_> {
        PageReader {
            page: self,
            piece: 0,
        }
    }
}

/// Reads rows of a page one after the other, in either direction.
pub(crate) struct PageReader<'p> {
    page: &'p PageRows,
    /// The piece of the last row that was read.
    piece: usize,
}

impl<'p> PageReader<'p> {
    /// Returns what [`PageRows::row`] does.
    #[inline]
    pub(crate) fn row(&mut self, row: usize) -> &'p [u8] {
        let page = self.page;
        let from = row.checked_sub(1).map_or(0, |before| page.ends[before]);
        let to = page.ends[row];
        let is_in = |piece: usize| {
            let start = page.piece_starts.get(piece);
            let len = |start: u32| from.wrapping_sub(start) < page.pieces[piece].len() as u32;
            start.is_some_and(|start| len(*start))
        };
        if from < to && !is_in(self.piece) {
            self.piece = page.piece_starts.partition_point(|start| *start <= from) - 1;
        }
        match from < to {
            true => page.in_piece(self.piece, from, to),
            false => page.row(row),
        }
    }
}

/// The row chunk being appended to.
#[derive(Debug, Default)]
pub(crate) struct OpenRowChunk {
    /// Published rows, without the open pieces.
    published: RowChunk,
    pages: Vec<OpenPage>,
    /// Whether decoding can begin at the encoded row, though it is not the first.
    checkpoint: bool,
    /// Columns that the last row has and no row before it, as bits of words of `seen`.
    fresh: Vec<(usize, u64)>,
    /// Bytes of the last row at which decoding can begin, and of all later rows.
    key_bytes: usize,
    rest_bytes: usize,
}

#[derive(Debug, Default)]
struct OpenPage {
    encoder: RowEncoder,
    piece: Vec<u8>,
    piece_start: u32,
    /// Offset of the unpublished row in `piece`.
    encoded: Option<usize>,
    last_len: usize,
    /// Whether the encoder lacks the last row, because it was replayed as bytes.
    replayed: bool,
    /// The state after the last row, if no encoder has it and a reader needed it.
    learned: Option<Box<RowState>>,
}

impl OpenRowChunk {
    /// Returns a row chunk without rows, whose first row will be `first_row`.
    ///
    /// The previous row chunk's encoders are continued, to keep their column statistics.
    pub(crate) fn after(before: Option<Self>, first_row: u64) -> Self {
        let pages = before.map_or_else(Vec::new, |before| before.pages);
        let pages = pages.into_iter().map(|page| {
            let mut encoder = if page.replayed {
                RowEncoder::new()
            } else {
                page.encoder
            };
            encoder.request_key();
            OpenPage {
                encoder,
                ..OpenPage::default()
            }
        });
        let pages: Vec<OpenPage> = pages.collect();
        let published = RowChunk {
            first_row,
            pages: pages.iter().map(|_| PageRows::default()).collect(),
            ..RowChunk::default()
        };
        Self {
            published,
            pages,
            ..Self::default()
        }
    }

    pub(crate) fn published(&self) -> &RowChunk {
        &self.published
    }

    /// Reports whether 32 bits can represent the distance of a row at `time_ms` from the first.
    pub(crate) fn takes_time(&self, time_ms: i64) -> bool {
        self.published.rows() == 0
            || u32::try_from(time_ms.wrapping_sub(self.published.base_ms)).is_ok()
    }

    /// Makes the next encoded row a checkpoint, at which decoding can begin, if one is due and cheap.
    pub(crate) fn checkpoint_if_due(&mut self) {
        let due = self.key_bytes.saturating_mul(CHECKPOINT_SHARE);
        self.checkpoint = self.published.rows() > 0 && self.rest_bytes >= due;
        if self.checkpoint {
            let pages = self.pages.iter_mut();
            pages.for_each(|page| page.encoder.request_snapshot());
        }
    }

    /// Reports whether decoding can begin at the encoded row, though it is not the first.
    pub(crate) fn is_checkpoint(&self) -> bool {
        self.checkpoint
    }

    /// Passes page `at` to `write`, which appends one row's bytes; the row stays invisible until `publish`.
    pub(crate) fn append_row<E>(
        &mut self,
        at: usize,
        write: impl FnOnce(&mut RowEncoder, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.pages.len() <= at {
            if self.pages.len() < FEW_PAGES {
                // Room for four pages would be too much for a small strip.
                self.pages.reserve_exact(1);
                self.published.pages.reserve_exact(1);
            }
            self.pages.push(OpenPage::default());
            let first = self.published.rows();
            self.published.pages.push(PageRows {
                first,
                ..PageRows::default()
            });
        }
        let (page, rows) = (&mut self.pages[at], &mut self.published.pages[at]);
        if !page.piece.is_empty() && page.piece.len() + page.last_len > page.room() {
            page.close_piece(rows);
        }
        let from = page.piece.len();
        page.encoded = Some(from);
        page.learned = None;
        let room = page.room();
        page.reserve(room);
        write(&mut page.encoder, &mut page.piece)?;
        page.last_len = page.piece.len() - from;
        if from > 0 && page.piece.len() > room {
            // The row is larger than the one before it and begins the next piece.
            let row = page.piece.split_off(from);
            page.close_piece(rows);
            page.piece = Vec::with_capacity(room.max(row.len()) + page.encoder.spare_bytes());
            page.piece.extend_from_slice(&row);
            page.encoded = Some(0);
        }
        Ok(())
    }

    /// Appends one row's bytes to page `at`, for replay.
    pub(crate) fn copy_row(&mut self, at: usize, bytes: &[u8]) {
        let copied: Result<(), std::convert::Infallible> = self.append_row(at, |_, piece| {
            piece.extend_from_slice(bytes);
            Ok(())
        });
        match copied {
            Ok(()) => self.pages[at].replayed = true,
        }
    }

    /// Records that the rows were encoded again.
    pub(crate) fn note_rebuilt(&mut self) {
        self.published.is_rebuilt = true;
    }

    /// Returns the encoded row's bytes of each page.
    pub(crate) fn encoded_row(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pages
            .iter()
            .map(|page| page.encoded.map_or(&[][..], |from| &page.piece[from..]))
    }

    /// Makes the encoded row visible.
    pub(crate) fn publish(&mut self, time_ms: i64, columns: usize) {
        let bytes = self.encoded_row().map(<[u8]>::len).sum::<usize>();
        let published = &mut self.published;
        if published.offsets_ms.is_empty() || self.checkpoint {
            (self.key_bytes, self.rest_bytes) = (bytes, 0);
        } else {
            self.rest_bytes += bytes;
        }
        self.checkpoint = false;
        if published.offsets_ms.is_empty() {
            published.base_ms = time_ms;
        }
        let offset = u32::try_from(time_ms - published.base_ms).expect("takes_time said so");
        published.offsets_ms.push(offset);
        published.columns = columns;
        for (page, rows) in self.pages.iter_mut().zip(&mut published.pages) {
            page.encoded = None;
            rows.ends.push(page.piece_start + page.piece.len() as u32);
        }
    }

    /// Records the columns that have something in the published row, until `show_columns` invisibly.
    pub(crate) fn note_seen(&mut self, words: impl Iterator<Item = u64>) {
        for (at, word) in words.enumerate() {
            self.note_word(at, word);
        }
    }

    /// Records that a column has something in the published row.
    pub(crate) fn note_seen_column(&mut self, column: u32) {
        self.note_word(column as usize / 64, 1 << (column % 64));
    }

    fn note_word(&mut self, at: usize, word: u64) {
        let new = word & !self.published.seen.get(at).copied().unwrap_or_default();
        if new != 0 {
            self.fresh.push((at, new));
        }
    }

    /// Reports whether columns are noted that are not visible.
    pub(crate) fn has_fresh_columns(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Makes the noted columns visible.
    pub(crate) fn show_columns(&mut self) {
        let seen = &mut self.published.seen;
        for (at, new) in std::mem::take(&mut self.fresh) {
            if seen.len() <= at {
                seen.resize(at + 1, 0);
            }
            seen[at] |= new;
        }
    }

    /// Reports whether a column has something in any row, visible or not.
    pub(crate) fn has_noted(&self, column: u32) -> bool {
        let (word, bit) = (column as usize / 64, column % 64);
        let mut fresh = self.fresh.iter();
        self.published.has_seen(column) || fresh.any(|(at, new)| *at == word && new >> bit & 1 == 1)
    }

    /// Takes the last published row back, whose columns are noted and not visible; `columns` are those of the row before.
    /// As after `discard_row`, nothing more can be appended.
    pub(crate) fn take_back(&mut self, columns: usize) {
        self.published.offsets_ms.pop();
        self.published.columns = columns;
        self.fresh.clear();
        for (page, rows) in self.pages.iter_mut().zip(&mut self.published.pages) {
            rows.ends.pop();
            let end = rows.ends.last().copied().unwrap_or_default();
            page.encoded = Some((end - page.piece_start) as usize);
        }
        self.discard_row();
    }

    /// Drops the encoded row. The encoders have moved past it: nothing more can be appended, and their state must not
    /// be taken for the state after the WAL's rows.
    pub(crate) fn discard_row(&mut self) {
        for page in &mut self.pages {
            if let Some(from) = page.encoded.take() {
                page.piece.truncate(from);
            }
            page.replayed = true;
        }
        // A page with only the encoded row becomes empty: readers must not see it.
        let empty = self
            .published
            .pages
            .iter()
            .rposition(|page| !page.ends.is_empty())
            .map_or(0, |at| at + 1);
        self.published.pages.truncate(empty);
        self.pages.truncate(empty);
    }

    /// Copies the readable rows, sharing closed pieces.
    pub(crate) fn copied(&self) -> RowChunk {
        let mut row_chunk = self.published.clone();
        for (open, rows) in self.pages.iter().zip(&mut row_chunk.pages) {
            let visible = &open.piece[..open.encoded.unwrap_or(open.piece.len())];
            if !visible.is_empty() {
                rows.pieces.push(visible.into());
                rows.piece_starts.push(open.piece_start);
            }
        }
        row_chunk
    }

    /// Ends the row chunk.
    pub(crate) fn seal(&mut self) -> RowChunk {
        for (open, rows) in self.pages.iter_mut().zip(&mut self.published.pages) {
            open.close_piece(rows);
            rows.ends.shrink_to_fit();
            rows.pieces.shrink_to_fit();
        }
        self.published.offsets_ms.shrink_to_fit();
        std::mem::take(&mut self.published)
    }

    /// Returns the bytes of a published row of a page, counted from the page's first.
    pub(crate) fn row(&self, page: usize, row: usize) -> Option<&[u8]> {
        let (open, rows) = (self.pages.get(page)?, self.published.pages.get(page)?);
        let from = row.checked_sub(1).map_or(0, |before| rows.ends[before]);
        if from < open.piece_start {
            return (row < rows.rows()).then(|| rows.row(row));
        }
        let to = *rows.ends.get(row)?;
        open.piece
            .get((from - open.piece_start) as usize..(to - open.piece_start) as usize)
    }

    /// Returns the state after the last row of a page, or `None` if only the bytes are known.
    pub(crate) fn state(&self, page: usize) -> Option<&RowState> {
        self.pages
            .get(page)
            .filter(|page| !page.replayed)
            .map(|page| page.encoder.state())
    }

    /// Returns the state after the last row of a page, of this row chunk or the one before, for a reader: `learn` may have given it.
    pub(crate) fn known_state(&self, page: usize) -> Option<&RowState> {
        let of_encoder = self.state(page).filter(|state| state.columns() > 0);
        of_encoder.or_else(|| self.pages.get(page)?.learned.as_deref())
    }

    /// Keeps the state after the last row of a page, which no encoder has, if that is still the last before number `end`.
    pub(crate) fn learn(&mut self, page: usize, end: u64, state: &RowState) {
        if self.published.end_row() == end
            && self.known_state(page).is_none()
            && let Some(page) = self.pages.get_mut(page)
        {
            page.learned = Some(Box::new(state.clone()));
        }
    }

    /// Returns the heap bytes of encoders and open pieces.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of_page = |page: &OpenPage| {
            let learned = page.learned.as_ref().map_or(0, |state| state.heap_bytes());
            page.encoder.heap_bytes() + page.piece.capacity() + learned
        };
        self.pages.iter().map(of_page).sum::<usize>() + self.published.encoded_bytes()
    }
}

impl OpenPage {
    /// Returns the most bytes of the open piece, beside which encoding a row needs some: a vector that has too few for a moment
    /// keeps twice as many.
    fn room(&self) -> usize {
        let columns = self.encoder.state().columns();
        let bytes = (columns * PIECE_COLUMN_BYTES).max(self.last_len * PIECE_ROWS);
        let bytes = bytes.next_power_of_two();
        let spare = self.encoder.spare_bytes();
        bytes.clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end()) - SHARED_BYTES - spare
    }

    /// Makes room for a row of twice the last one's size: a vector that grows by itself may have room for half as much again
    /// as the piece may take.
    fn reserve(&mut self, room: usize) {
        let (len, row) = (self.piece.len(), self.last_len);
        let spare = self.encoder.spare_bytes();
        let most = room + spare + SHARED_BYTES;
        let needed = (len + 2 * row).min(room).max(len + row) + spare;
        if self.piece.capacity() < needed {
            let capacity = needed.next_power_of_two().min(most.max(needed));
            self.piece.reserve_exact(capacity - len);
        }
    }

    fn close_piece(&mut self, rows: &mut PageRows) {
        if self.piece.is_empty() {
            return;
        }
        rows.pieces.push(self.piece.as_slice().into());
        rows.piece_starts.push(self.piece_start);
        self.piece_start += self.piece.len() as u32;
        self.piece.clear();
    }
}

/// Up to this many pages, room is allocated one by one.
const FEW_PAGES: usize = 4;

/// Returns how many pages `columns` columns need.
pub(crate) fn pages_of(columns: usize) -> usize {
    columns.div_ceil(MAX_COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_chunks::row::Row;
    use narthex_testkit::rng::SplitMix64;

    /// Returns a row chunk of rows that change by a little.
    fn chunk(rows: i64, columns: usize) -> OpenRowChunk {
        let mut random = SplitMix64::new(1);
        let mut open = OpenRowChunk::default();
        let mut values = vec![1e6; columns];
        for row in 0..rows {
            let changed = values.iter_mut();
            changed.for_each(|value| *value += random.below(100) as f64);
            let row = Row {
                time_ms: row * 1000,
                values: &values,
                ..Row::default()
            };
            let appended = open.append_row(0, |encoder, out| encoder.encode(&row, out).map(drop));
            appended.unwrap();
            open.publish(row.time_ms, columns);
        }
        open
    }

    /// Every strip had 8 KiB open: as much as all rows of an hour of some fifty series.
    #[test]
    fn little_is_open_of_a_narrow_page() {
        for (columns, most) in [(10, 2 << 10), (50, 2 << 10), (1000, 8 << 10)] {
            let open = chunk(1000, columns);
            let (page, rows) = (&open.pages[0], &open.published.pages[0]);
            assert!(page.piece.capacity() <= most, "{columns} columns");
            let fits = |piece: &&Arc<[u8]>| {
                let bytes = piece.len() + SHARED_BYTES;
                bytes <= most && bytes * 4 > (most - page.encoder.spare_bytes()) * 3
            };
            let fitting = rows.pieces.iter().filter(fits).count();
            assert!(fitting * 4 >= rows.pieces.len() * 3, "{columns} columns");
            for row in 1..1000 {
                assert_eq!(open.row(0, row), Some(rows_of(&open).row(row)), "row {row}");
            }
        }
    }

    #[test]
    fn rows_are_found_before_within_and_after() {
        for rows in [0, 1, 2, 7] {
            let chunk = chunk(rows, 3).copied();
            for time_ms in -1000..rows * 1000 + 1000 {
                let expected = (0..chunk.rows()).find(|row| chunk.time_ms(*row) >= time_ms);
                let expected = expected.unwrap_or(chunk.rows());
                assert_eq!(chunk.row_at(time_ms), expected, "{rows} rows, {time_ms}");
            }
        }
    }

    #[test]
    fn the_state_after_copied_rows_is_learned() {
        let encoded = chunk(10, 3);
        let mut open = OpenRowChunk::default();
        for row in 0..10 {
            open.copy_row(0, encoded.row(0, row).unwrap());
            open.publish(row as i64 * 1000, 3);
        }
        let rows = rows_of(&open);
        let state = RowState::after((0..10).map(|row| rows.row(row)))
            .unwrap()
            .unwrap();
        assert_eq!(Some(&state), encoded.state(0));
        assert_eq!(open.known_state(0), None);
        open.learn(0, 9, &state);
        assert_eq!(open.known_state(0), None, "it is of another row");
        open.learn(0, 10, &state);
        assert_eq!(open.known_state(0), Some(&state));
        assert_eq!(open.state(0), None, "the encoder does not go on from it");
        open.seal();
        let mut open = OpenRowChunk::after(Some(open), 10);
        assert_eq!(open.known_state(0), None);
        open.learn(0, 10, &state);
        assert_eq!(open.known_state(0), Some(&state), "it is of the row before");
        open.copy_row(0, encoded.row(0, 0).unwrap());
        open.publish(10_000, 3);
        assert_eq!(open.known_state(0), None, "there is another row");
    }

    /// Returns the rows of the first page, those of its open piece included.
    fn rows_of(open: &OpenRowChunk) -> PageRows {
        open.copied().pages.swap_remove(0)
    }
}
