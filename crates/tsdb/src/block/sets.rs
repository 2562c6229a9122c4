//! Label sets as ascending lists of pair ids; each distinct set is stored once.
//!
//! Sets are in order of first use, so neighbours differ in few labels: a set is coded as its difference to the
//! previous one, in groups of sixteen that each start from a full set.
//!
//! **Invariant:** a set's pair ids ascend, and a set's number is its index in the section.

use super::format::u32_at;
use crate::bytes::{Malformed, Reader, put_signed, put_varint};

const GROUP: usize = 16;
/// Most labels that a difference can describe; larger sets are written in full.
const DIFF_LABELS: usize = 60;

/// Returns the section's bytes.
pub(crate) fn encode<'a>(sets: impl ExactSizeIterator<Item = &'a [u32]>) -> Vec<u8> {
    let mut out = (sets.len() as u32).to_le_bytes().to_vec();
    let mut body = Vec::new();
    let place = |len: usize| u32::try_from(len).expect("label sets have less than 4 GiB");
    let mut before: &[u32] = &[];
    for (at, set) in sets.enumerate() {
        if at % GROUP == 0 {
            out.extend_from_slice(&place(body.len()).to_le_bytes());
            before = &[];
        }
        put_set(before, set, &mut body);
        before = set;
    }
    out.extend_from_slice(&body);
    out
}

fn put_set(before: &[u32], set: &[u32], out: &mut Vec<u8>) {
    let alike = before.len() == set.len() && set.len() <= DIFF_LABELS && !set.is_empty();
    put_varint(out, (set.len() as u64) << 1 | u64::from(alike));
    if !alike {
        let mut next = 0;
        for id in set {
            put_varint(out, u64::from(id - next));
            next = id + 1;
        }
        return;
    }
    let differs = before
        .iter()
        .zip(set)
        .enumerate()
        .filter(|(_, (old, new))| old != new);
    put_varint(
        out,
        differs.clone().fold(0, |mask, (at, _)| mask | 1u64 << at),
    );
    for (_, (old, new)) in differs {
        put_signed(out, i64::from(*new) - i64::from(*old));
    }
}

/// The label sets of a block, read in place.
#[derive(Clone, Copy)]
pub(crate) struct Sets<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Sets<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let count = u32_at(bytes, 0)?;
        if (count as usize).div_ceil(GROUP) * 4 + 4 > bytes.len() {
            return Err(Malformed {
                offset: 0,
                what: "number of label sets",
            });
        }
        Ok(Self { bytes, count })
    }

    /// Returns the number of sets.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Replaces `pairs` with the pair ids of set `id`.
    pub(crate) fn get(&self, id: u32, pairs: &mut Vec<u32>) -> Result<(), Malformed> {
        self.each([id], &mut |_, found| pairs.clone_from(found))
    }

    /// Passes on the pair ids of `ids`; cheapest when they ascend.
    pub(crate) fn each(
        &self,
        ids: impl IntoIterator<Item = u32>,
        take: &mut dyn FnMut(u32, &Vec<u32>),
    ) -> Result<(), Malformed> {
        let mut pairs = Vec::new();
        // The set that the reader would read next.
        let mut next = u32::MAX;
        let mut r = Reader::new(&[]);
        for id in ids {
            if id >= self.count {
                return Err(Malformed {
                    offset: 0,
                    what: "number of a label set",
                });
            }
            let group = id as usize / GROUP;
            if id != next.wrapping_sub(1) {
                if next > id || next as usize / GROUP != group {
                    r = self.group(group)?;
                    next = (group * GROUP) as u32;
                    pairs.clear();
                }
                while next <= id {
                    read_set(&mut r, &mut pairs)?;
                    next += 1;
                }
            }
            take(id, &pairs);
        }
        Ok(())
    }

    fn group(&self, group: usize) -> Result<Reader<'a>, Malformed> {
        let body = 4 + (self.count as usize).div_ceil(GROUP) * 4;
        let start = body + u32_at(self.bytes, 4 + group * 4)? as usize;
        let bytes = self.bytes.get(start..).ok_or(Malformed {
            offset: start,
            what: "group of label sets",
        })?;
        Ok(Reader::new(bytes))
    }
}

fn read_set(r: &mut Reader<'_>, pairs: &mut Vec<u32>) -> Result<(), Malformed> {
    let head = r.varint()?;
    let len = head >> 1;
    if head & 1 == 0 {
        pairs.clear();
        let mut next = 0u64;
        for _ in 0..len {
            next = next.saturating_add(r.varint()?);
            pairs.push(u32::try_from(next).map_err(|_| r.malformed("label pair"))?);
            next += 1;
        }
        return Ok(());
    }
    if len != pairs.len() as u64 || len > DIFF_LABELS as u64 {
        return Err(r.malformed("label set"));
    }
    let mut mask = r.varint()?;
    while mask != 0 {
        let at = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        let pair = pairs.get_mut(at).ok_or_else(|| r.malformed("label set"))?;
        let id = i64::from(*pair).wrapping_add(r.signed()?);
        *pair = u32::try_from(id).map_err(|_| r.malformed("label pair"))?;
    }
    if pairs.is_sorted_by(|a, b| a < b) {
        Ok(())
    } else {
        Err(r.malformed("label set"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> Vec<Vec<u32>> {
        let mut sets: Vec<Vec<u32>> = (0..100)
            .map(|i| vec![1, 5 + i, 200 + i % 7, 1 << 20])
            .collect();
        sets.push(vec![]);
        sets.push(vec![u32::MAX - 1]);
        sets.push((0..200).collect());
        sets.push((1..201).collect());
        sets
    }

    #[test]
    fn sets_come_back_in_any_order() {
        let sets = sets();
        let bytes = encode(sets.iter().map(Vec::as_slice));
        let read = Sets::new(&bytes).unwrap();
        let mut pairs = vec![9];
        for id in (0..sets.len() as u32).rev().chain([0, 50, 51, 51, 17]) {
            read.get(id, &mut pairs).unwrap();
            assert_eq!(pairs, sets[id as usize]);
        }
        let ids = [0, 1, 1, 15, 16, 40, 39, 103];
        let mut seen = vec![];
        read.each(ids, &mut |id, found| {
            assert_eq!(*found, sets[id as usize]);
            seen.push(id);
        })
        .unwrap();
        assert_eq!(seen, ids);
        assert!(read.get(sets.len() as u32, &mut pairs).is_err());
    }

    #[test]
    fn neighbours_share_their_labels() {
        let sets: Vec<Vec<u32>> = (0..1600)
            .map(|i| {
                (0..12)
                    .map(|l| l * 10_000 + if l == 5 { i } else { 0 })
                    .collect()
            })
            .collect();
        let bytes = encode(sets.iter().map(Vec::as_slice));
        assert!(bytes.len() < 1600 * 6, "{}", bytes.len());
    }

    #[test]
    fn shortened_bytes_never_panic() {
        let sets = sets();
        let bytes = encode(sets.iter().map(Vec::as_slice));
        for len in 0..bytes.len() {
            let Ok(read) = Sets::new(&bytes[..len]) else {
                continue;
            };
            let _ = read.each(0..read.count(), &mut |_, _| {});
        }
    }
}
