//! The strips of a block: shared labels, times, the sets of their columns, and the positions of their cells.
//!
//! **Invariant:** the pages of a strip hold its columns in order, each column in one page; strips that share pages have
//! the same number of columns.

use super::format::{WITH_SHARED_PAGES, u32_at};
use super::page::Page;
use crate::bytes::{Malformed, Reader, put_bytes, put_signed, put_varint};
use std::sync::Arc;

/// A strip as written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct StripEntry {
    /// Number of the common set.
    pub(crate) common: u32,
    pub(crate) rows: u32,
    pub(crate) min_time_ms: i64,
    pub(crate) max_time_ms: i64,
    /// Number of cells that are not absent.
    pub(crate) samples: u64,
    /// Encoded times of the rows.
    pub(crate) times: Vec<u8>,
    /// Local sets of the columns, as runs: number of the first, length.
    pub(crate) columns: Vec<(u32, u32)>,
    pub(crate) cells: Cells,
}

/// Where the cells of a strip are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Cells {
    /// In pages that only later strips have a part in.
    Own(Vec<PagePlace>),
    /// In the pages of the strip that is `back` strips before, where this one has place `slot`, from 1.
    Shared { back: u32, slot: u32 },
}

/// Position of a page.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PagePlace {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The strips' columns before this page's.
    pub(crate) first: u32,
    /// Columns of each strip.
    pub(crate) columns: u32,
    /// Strips whose columns are in the page: those of the first column by slot, then those of the next one.
    pub(crate) strips: u32,
}

/// The page that was read last of a strip.
#[derive(Debug, Default)]
pub(crate) struct LastPage(Option<(PagePlace, Option<Arc<Page>>)>);

/// The pages that hold a strip's cells.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    places: Arc<[PagePlace]>,
    /// The strip's place among those that share them.
    slot: u32,
}

impl LastPage {
    /// Returns the page of a column and the place of the column's chunk in it; `None` when the page is known to be damaged.
    ///
    /// # Errors
    /// Fails when `read` does, as it does once for a damaged page.
    pub(crate) fn find<E>(
        &mut self,
        pages: &Pages,
        column: u32,
        read: impl FnOnce(PagePlace) -> Result<Arc<Page>, E>,
    ) -> Result<Option<(&Page, usize)>, E> {
        if !self.0.as_ref().is_some_and(|(place, _)| place.has(column)) {
            let place = pages.of_column(column);
            self.0 = Some((place, None));
            self.0 = Some((place, Some(read(place)?)));
        }
        let (place, page) = self.0.as_ref().expect("it was just read");
        let chunk = pages.chunk_of(column, place);
        Ok(page.as_deref().map(|page| (page, chunk)))
    }

    /// Releases the page unless it has `column`.
    pub(crate) fn keep_for(&mut self, column: u32) {
        self.0.take_if(|(place, _)| !place.has(column));
    }
}

impl Default for Cells {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl StripEntry {
    /// Returns the number of columns.
    pub(crate) fn width(&self) -> u32 {
        self.columns.iter().map(|(_, len)| len).sum()
    }
}

impl PagePlace {
    /// Returns the number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        u64::from(self.columns) * u64::from(self.strips)
    }

    /// Reports whether the page has a column.
    pub(crate) fn has(&self, column: u32) -> bool {
        (self.first..self.first + self.columns).contains(&column)
    }
}

impl Pages {
    pub(crate) fn new(places: Arc<[PagePlace]>, slot: u32) -> Self {
        Self { places, slot }
    }

    /// Returns the position of the page that has `column`.
    ///
    /// # Panics
    /// Panics when the strip does not have the column.
    pub(crate) fn of_column(&self, column: u32) -> PagePlace {
        // A strip of half a million series has thousands of pages.
        let after = self.places.partition_point(|place| place.first <= column);
        let place = after.checked_sub(1).and_then(|at| self.places.get(at));
        *place.expect("pages hold all columns of their strip")
    }

    /// Returns the place of the strip's `column` among the chunks of a page that has it.
    pub(crate) fn chunk_of(&self, column: u32, place: &PagePlace) -> usize {
        (column - place.first) as usize * place.strips as usize + self.slot as usize
    }

    /// Returns the offset of the first page.
    pub(crate) fn offset(&self) -> u64 {
        self.places.first().map_or(0, |place| place.offset)
    }

    /// Returns the bytes of the pages that are the strip's, if those that share them have equal parts.
    pub(crate) fn share_bytes(&self) -> u64 {
        let share = |place: &PagePlace| u64::from(place.len) / u64::from(place.strips.max(1));
        self.places.iter().map(share).sum()
    }

    /// Returns the strip's part of the list's bytes, if those that share it have equal parts.
    pub(crate) fn bytes(&self) -> usize {
        let strips = self.places.first().map_or(1, |place| place.strips);
        size_of_val(&*self.places) / strips.max(1) as usize
    }

    pub(crate) fn places(&self) -> &[PagePlace] {
        &self.places
    }
}

/// Adds a column to runs of set numbers.
pub(crate) fn push_run(runs: &mut Vec<(u32, u32)>, set: u32) {
    match runs.last_mut() {
        Some((first, len)) if *first + *len == set => *len += 1,
        _ => runs.push((set, 1)),
    }
}

/// Returns the section's bytes.
pub(crate) fn encode(strips: &[StripEntry]) -> Vec<u8> {
    let mut out = (strips.len() as u32).to_le_bytes().to_vec();
    let mut body = Vec::new();
    for strip in strips {
        let start = u32::try_from(body.len()).expect("strips have less than 4 GiB");
        out.extend_from_slice(&start.to_le_bytes());
        put_strip(strip, &mut body);
    }
    out.extend_from_slice(&body);
    out
}

fn put_strip(strip: &StripEntry, out: &mut Vec<u8>) {
    put_varint(out, u64::from(strip.common));
    put_varint(out, u64::from(strip.rows));
    put_signed(out, strip.min_time_ms);
    put_varint(
        out,
        strip
            .max_time_ms
            .wrapping_sub(strip.min_time_ms)
            .cast_unsigned(),
    );
    put_varint(out, strip.samples);
    put_bytes(out, &strip.times);
    put_varint(out, strip.columns.len() as u64);
    let mut next = 0;
    for (first, len) in &strip.columns {
        put_signed(out, i64::from(*first) - next);
        put_varint(out, u64::from(*len));
        next = i64::from(first + len);
    }
    let pages = match &strip.cells {
        Cells::Own(pages) => pages,
        Cells::Shared { back, slot } => {
            put_varint(out, u64::from(*back));
            put_varint(out, u64::from(*slot));
            return;
        }
    };
    put_varint(out, 0);
    put_varint(out, pages.first().map_or(1, |page| u64::from(page.strips)));
    put_varint(out, pages.len() as u64);
    let mut end = 0;
    for page in pages {
        // Pages are contiguous, so only the first stores its offset.
        put_varint(out, page.offset - end);
        put_varint(out, u64::from(page.len));
        put_varint(out, u64::from(page.columns));
        end = page.offset + u64::from(page.len);
    }
}

/// The strips of a block, read in place.
#[derive(Clone, Copy)]
pub(crate) struct Strips<'a> {
    bytes: &'a [u8],
    count: u32,
    /// Version of the file.
    version: u32,
}

impl<'a> Strips<'a> {
    pub(crate) fn new(bytes: &'a [u8], version: u32) -> Result<Self, Malformed> {
        let count = u32_at(bytes, 0)?;
        if count as usize * 4 + 4 > bytes.len() {
            return Err(Malformed {
                offset: 0,
                what: "number of strips",
            });
        }
        Ok(Self {
            bytes,
            count,
            version,
        })
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Reads strip `at`.
    pub(crate) fn get(&self, at: u32) -> Result<StripEntry, Malformed> {
        self.read(at, |r| read_strip(r, self.version))
    }

    /// Returns the encoded times of strip `at`.
    pub(crate) fn times(&self, at: u32) -> Result<&'a [u8], Malformed> {
        self.read(at, |r| Ok(read_head(r)?.1))
    }

    fn read<T>(
        &self,
        at: u32,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        if at >= self.count {
            return Err(Malformed {
                offset: 0,
                what: "number of a strip",
            });
        }
        let start = 4 + self.count as usize * 4 + u32_at(self.bytes, 4 + at as usize * 4)? as usize;
        let bytes = self.bytes.get(start..).ok_or(Malformed {
            offset: start,
            what: "strip",
        })?;
        read(&mut Reader::new(bytes)).map_err(|bad| Malformed {
            offset: start + bad.offset,
            ..bad
        })
    }
}

/// Reads what precedes the columns; returns the encoded times beside it.
fn read_head<'a>(r: &mut Reader<'a>) -> Result<(StripEntry, &'a [u8]), Malformed> {
    let common = r.varint_u32("common set")?;
    let rows = r.varint_u32("number of rows")?;
    let min_time_ms = r.signed()?;
    let max_time_ms = min_time_ms.wrapping_add(r.varint()?.cast_signed());
    let head = StripEntry {
        common,
        rows,
        min_time_ms,
        max_time_ms,
        samples: r.varint()?,
        ..StripEntry::default()
    };
    Ok((head, r.bytes()?))
}

fn read_strip(r: &mut Reader<'_>, version: u32) -> Result<StripEntry, Malformed> {
    let (head, times) = read_head(r)?;
    let mut columns = Vec::new();
    let (mut next, mut total) = (0i64, 0u32);
    for _ in 0..r.varint()? {
        let first =
            u32::try_from(next.wrapping_add(r.signed()?)).map_err(|_| r.malformed("local set"))?;
        let len = r.varint_u32("run of local sets")?;
        total = total
            .checked_add(len)
            .ok_or_else(|| r.malformed("number of columns"))?;
        let end = first
            .checked_add(len)
            .ok_or_else(|| r.malformed("local set"))?;
        columns.push((first, len));
        next = i64::from(end);
    }
    let mut strips = 1;
    let back = if version < WITH_SHARED_PAGES {
        0
    } else {
        let back = r.varint_u32("distance of a strip")?;
        strips = r.varint_u32("place in shared pages")?;
        back
    };
    let cells = if back > 0 {
        Cells::Shared { back, slot: strips }
    } else {
        Cells::Own(read_pages(r, total, strips)?)
    };
    Ok(StripEntry {
        times: times.to_vec(),
        columns,
        cells,
        ..head
    })
}

/// Reads the pages of `strips` strips with `total` columns each.
fn read_pages(r: &mut Reader<'_>, total: u32, strips: u32) -> Result<Vec<PagePlace>, Malformed> {
    let mut pages = Vec::new();
    let (mut end, mut paged) = (0u64, 0u32);
    for _ in 0..r.varint()? {
        let offset = end
            .checked_add(r.varint()?)
            .ok_or_else(|| r.malformed("page"))?;
        let len = r.varint_u32("page length")?;
        let columns = r.varint_u32("columns of a page")?;
        pages.push(PagePlace {
            offset,
            len,
            first: paged,
            columns,
            strips,
        });
        paged = paged
            .checked_add(columns)
            .ok_or_else(|| r.malformed("columns of a page"))?;
        end = offset
            .checked_add(u64::from(len))
            .ok_or_else(|| r.malformed("page"))?;
    }
    if paged == total {
        Ok(pages)
    } else {
        Err(r.malformed("number of columns"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::VERSION;
    use super::*;

    fn page(offset: u64, len: u32, first: u32, columns: u32) -> PagePlace {
        PagePlace {
            offset,
            len,
            first,
            columns,
            strips: 3,
        }
    }

    #[test]
    fn strips_come_back() {
        let mut columns = vec![];
        [3, 4, 5, 9, 2, 3]
            .into_iter()
            .for_each(|set| push_run(&mut columns, set));
        assert_eq!(columns, [(3, 3), (9, 1), (2, 2)]);
        let strip = StripEntry {
            common: 7,
            rows: 240,
            min_time_ms: -4,
            max_time_ms: i64::MAX,
            samples: 99,
            times: vec![1, 2, 3],
            columns,
            cells: Cells::Own(vec![page(16, 100, 0, 4), page(116, 90, 4, 2)]),
        };
        assert_eq!(strip.width(), 6);
        let empty = StripEntry::default();
        let shared = StripEntry {
            cells: Cells::Shared { back: 2, slot: 1 },
            ..strip.clone()
        };
        let bytes = encode(&[strip.clone(), empty.clone(), shared.clone()]);
        let strips = Strips::new(&bytes, VERSION).unwrap();
        assert_eq!(strips.get(0), Ok(strip));
        assert_eq!(strips.get(1), Ok(empty));
        assert_eq!(strips.times(2), Ok(&*shared.times));
        assert_eq!(strips.get(2), Ok(shared));
        assert!(strips.get(3).is_err());
        for len in 0..bytes.len() {
            let Ok(strips) = Strips::new(&bytes[..len], VERSION) else {
                continue;
            };
            (0..3).for_each(|at| {
                let _ = strips.get(at);
            });
        }
    }

    /// Damaged lists may have pages without columns.
    #[test]
    fn every_column_has_its_page() {
        for widths in [vec![6], vec![4, 2], vec![0, 3, 0, 0, 1, 5, 0], vec![1; 40]] {
            let (mut places, mut pages_of_columns) = (Vec::new(), Vec::new());
            for columns in widths {
                let place = page(
                    places.len() as u64,
                    7,
                    pages_of_columns.len() as u32,
                    columns,
                );
                places.push(place);
                pages_of_columns.resize(pages_of_columns.len() + columns as usize, place);
            }
            let pages = Pages::new(places.into(), 2);
            for (column, place) in (0u32..).zip(&pages_of_columns) {
                let found = pages.of_column(column);
                assert!(found.has(column));
                assert_eq!(found, *place);
                let before = (column - place.first) as usize;
                assert_eq!(pages.chunk_of(column, place), before * 3 + 2);
            }
        }
    }
}
