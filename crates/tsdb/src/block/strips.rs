//! The strips of a block: shared labels, times, the sets of their columns, and the positions of their cells.
//!
//! **Invariant:** the pages of a strip hold its columns in order, each column in one page.

use super::format::u32_at;
use crate::bytes::{Malformed, Reader, put_bytes, put_signed, put_varint};
use std::ops::Range;

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
    pub(crate) pages: Vec<PagePlace>,
}

/// Position of a page.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PagePlace {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The strip's columns before this page's.
    pub(crate) first: u32,
    pub(crate) columns: u32,
}

impl PagePlace {
    /// Returns, of a strip's pages, the columns of the one that has `column`, and its position.
    ///
    /// # Panics
    /// Panics when the strip does not have the column.
    pub(crate) fn of_column(pages: &[Self], column: u32) -> (Range<u32>, Self) {
        // A strip of half a million series has thousands of pages.
        let after = pages.partition_point(|place| place.first <= column);
        let place = after.checked_sub(1).and_then(|at| pages.get(at));
        let place = *place.expect("pages hold all columns of their strip");
        (place.first..place.first + place.columns, place)
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
    put_varint(out, strip.pages.len() as u64);
    let mut end = 0;
    for page in &strip.pages {
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
}

impl<'a> Strips<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let count = u32_at(bytes, 0)?;
        if count as usize * 4 + 4 > bytes.len() {
            return Err(Malformed {
                offset: 0,
                what: "number of strips",
            });
        }
        Ok(Self { bytes, count })
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Reads strip `at`.
    pub(crate) fn get(&self, at: u32) -> Result<StripEntry, Malformed> {
        self.read(at, read_strip)
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

fn read_strip(r: &mut Reader<'_>) -> Result<StripEntry, Malformed> {
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
        });
        paged = paged
            .checked_add(columns)
            .ok_or_else(|| r.malformed("columns of a page"))?;
        end = offset
            .checked_add(u64::from(len))
            .ok_or_else(|| r.malformed("page"))?;
    }
    if paged != total {
        return Err(r.malformed("number of columns"));
    }
    Ok(StripEntry {
        times: times.to_vec(),
        columns,
        pages,
        ..head
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_come_back() {
        let mut columns = vec![];
        [3, 4, 5, 9, 2, 3]
            .into_iter()
            .for_each(|set| push_run(&mut columns, set));
        assert_eq!(columns, [(3, 3), (9, 1), (2, 2)]);
        let page = |offset, len, first, columns| PagePlace {
            offset,
            len,
            first,
            columns,
        };
        let strip = StripEntry {
            common: 7,
            rows: 240,
            min_time_ms: -4,
            max_time_ms: i64::MAX,
            samples: 99,
            times: vec![1, 2, 3],
            columns,
            pages: vec![page(16, 100, 0, 4), page(116, 90, 4, 2)],
        };
        let empty = StripEntry::default();
        let bytes = encode(&[strip.clone(), empty.clone(), strip.clone()]);
        let strips = Strips::new(&bytes).unwrap();
        assert_eq!(strips.get(0), Ok(strip.clone()));
        assert_eq!(strips.get(1), Ok(empty));
        assert_eq!(strips.times(2), Ok(&*strip.times));
        assert_eq!(strips.get(2), Ok(strip));
        assert!(strips.get(3).is_err());
        for len in 0..bytes.len() {
            let Ok(strips) = Strips::new(&bytes[..len]) else {
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
            let mut strip = StripEntry::default();
            let mut pages_of_columns = Vec::new();
            for columns in widths {
                let place = PagePlace {
                    offset: strip.pages.len() as u64,
                    len: 7,
                    first: pages_of_columns.len() as u32,
                    columns,
                };
                strip.pages.push(place);
                pages_of_columns.resize(pages_of_columns.len() + columns as usize, place);
            }
            for (column, place) in (0u32..).zip(&pages_of_columns) {
                let (columns, found) = PagePlace::of_column(&strip.pages, column);
                assert!(columns.contains(&column));
                assert_eq!(found, *place);
            }
        }
    }
}
