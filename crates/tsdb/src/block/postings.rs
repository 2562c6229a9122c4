//! Postings: for each label pair, the sets that contain it.
//!
//! The table itself holds a pair's only set, the usual case of identifying labels. Longer lists are runs or
//! bit-packed gaps, whichever is shorter.
//!
//! **Invariant:** lists ascend and are never empty.

use super::format::u32_at;
use crate::bytes::{Malformed, Reader, put_varint};
use narthex_chunks::packed::{pack, packed_len, unpack, width_of};
use roaring::RoaringBitmap;

/// Marks a table word that is itself the only set.
const ONLY: u32 = 1 << 31;
/// Gaps packed with one width.
const BLOCK: usize = 128;

const RUNS: u8 = 0;
const GAPS: u8 = 1;

/// Returns the section's bytes for one list per pair, ascending.
pub(crate) fn encode<'a>(lists: impl ExactSizeIterator<Item = &'a [u32]>) -> Vec<u8> {
    let mut out = (lists.len() as u32).to_le_bytes().to_vec();
    let mut body = Vec::new();
    for list in lists {
        let word = match list {
            [only] if only & ONLY == 0 => only | ONLY,
            _ => u32::try_from(body.len())
                .ok()
                .filter(|at| at & ONLY == 0)
                .expect("postings have less than 2 GiB"),
        };
        out.extend_from_slice(&word.to_le_bytes());
        if word & ONLY == 0 {
            put_list(list, &mut body);
        }
    }
    out.extend_from_slice(&body);
    out
}

fn put_list(list: &[u32], out: &mut Vec<u8>) {
    put_varint(out, list.len() as u64);
    let start = out.len();
    out.push(RUNS);
    let mut next = 0;
    for run in list.chunk_by(|a, b| a + 1 == *b) {
        put_varint(out, u64::from(run[0] - next));
        put_varint(out, run.len() as u64 - 1);
        next = run[run.len() - 1] + 1;
    }
    let mut gaps = vec![GAPS];
    let mut next = 0;
    for block in list.chunks(BLOCK) {
        let values: Vec<u64> = block
            .iter()
            .map(|id| u64::from(id - std::mem::replace(&mut next, id + 1)))
            .collect();
        let width = values.iter().copied().map(width_of).max().unwrap_or(0);
        gaps.push(width as u8);
        pack(&values, width, &mut gaps);
    }
    if gaps.len() < out.len() - start {
        out.truncate(start);
        out.extend_from_slice(&gaps);
    }
}

/// The postings of a block, read in place.
#[derive(Clone, Copy)]
pub(crate) struct Postings<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Postings<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let count = u32_at(bytes, 0)? as usize;
        if count * 4 + 4 > bytes.len() {
            return Err(Malformed {
                offset: 0,
                what: "number of postings",
            });
        }
        Ok(Self { bytes, count })
    }

    /// Adds the sets below `sets` that contain pair `pair` to `into`.
    pub(crate) fn add_to(
        &self,
        pair: u32,
        sets: u32,
        into: &mut RoaringBitmap,
    ) -> Result<(), Malformed> {
        let word = u32_at(self.bytes, 4 + pair as usize * 4)?;
        if pair as usize >= self.count {
            return Err(Malformed {
                offset: 0,
                what: "label pair",
            });
        }
        if word & ONLY != 0 {
            into.insert(word & !ONLY);
            return Ok(());
        }
        let start = 4 + self.count * 4 + word as usize;
        let mut r = Reader::new(self.bytes.get(start..).ok_or(Malformed {
            offset: start,
            what: "postings",
        })?);
        let count = r.varint()?;
        let bad = Malformed {
            offset: start,
            what: "postings",
        };
        if count > u64::from(sets) {
            return Err(bad);
        }
        match r.byte()? {
            RUNS => add_runs(&mut r, count, sets, into),
            GAPS => add_gaps(&mut r, count as usize, sets, into),
            _ => Err(bad),
        }
    }
}

fn add_runs(
    r: &mut Reader<'_>,
    count: u64,
    sets: u32,
    into: &mut RoaringBitmap,
) -> Result<(), Malformed> {
    let (mut next, mut seen) = (0u64, 0);
    while seen < count {
        let first = next.saturating_add(r.varint()?);
        let last = first.saturating_add(r.varint()?);
        if last >= u64::from(sets) {
            return Err(r.malformed("run of sets"));
        }
        into.insert_range(first as u32..=last as u32);
        seen += last - first + 1;
        next = last + 1;
    }
    Ok(())
}

fn add_gaps(
    r: &mut Reader<'_>,
    mut count: usize,
    sets: u32,
    into: &mut RoaringBitmap,
) -> Result<(), Malformed> {
    let mut next = 0u64;
    while count > 0 {
        let mut gaps = [0u64; BLOCK];
        let gaps = &mut gaps[..count.min(BLOCK)];
        let width = u32::from(r.byte()?);
        if width > 32 {
            return Err(r.malformed("width"));
        }
        let packed = r.slice(packed_len(gaps.len(), width))?;
        unpack(packed, width, gaps).map_err(|_| r.malformed("gaps"))?;
        for gap in &*gaps {
            next += gap;
            if next >= u64::from(sets) {
                return Err(r.malformed("set"));
            }
            into.insert(next as u32);
            next += 1;
        }
        count -= gaps.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_shapes_come_back() {
        let lists: Vec<Vec<u32>> = vec![
            vec![5],
            vec![0],
            (0..1000).collect(),
            (0..1000)
                .map(|i| i * 37 % 10_007)
                .collect::<std::collections::BTreeSet<u32>>()
                .into_iter()
                .collect(),
            (0..500).map(|i| i * 20).collect(),
            vec![1, 2, 3, 9_999],
        ];
        let bytes = encode(lists.iter().map(Vec::as_slice));
        let postings = Postings::new(&bytes).unwrap();
        for (pair, list) in (0u32..).zip(&lists) {
            let mut found = RoaringBitmap::new();
            postings.add_to(pair, 10_007, &mut found).unwrap();
            assert!(found.iter().eq(list.iter().copied()), "list {pair}");
        }
        assert!(
            postings
                .add_to(6, 10_007, &mut RoaringBitmap::new())
                .is_err()
        );
        assert!(postings.add_to(2, 500, &mut RoaringBitmap::new()).is_err());
        // Short lists of sets that do not exist, as runs and as gaps.
        let few: Vec<u32> = (0..40).map(|i| i * 9).collect();
        let bytes_of_few = encode([&[1, 2, 3, 9_999], few.as_slice()].into_iter());
        let few = Postings::new(&bytes_of_few).unwrap();
        for pair in 0..2 {
            let refused = few.add_to(pair, 100, &mut RoaringBitmap::new());
            assert!(refused.is_err(), "list {pair}");
        }
        // A run of a thousand sets takes a few bytes.
        assert!(encode([lists[2].as_slice()].into_iter()).len() < 16);
        for len in 0..bytes.len() {
            let Ok(postings) = Postings::new(&bytes[..len]) else {
                continue;
            };
            (0..6).for_each(|pair| {
                let _ = postings.add_to(pair, 10_007, &mut RoaringBitmap::new());
            });
        }
    }
}
