//! The dictionary: every distinct label pair of a block, ordered by name, then by value, both bytewise.
//!
//! A pair's id is its rank. Values are front-coded in groups of sixteen; a look-up decodes one group.
//!
//! **Invariant:** ids of one name are consecutive, so a name is a range of ids.

use super::format::u32_at;
use crate::bytes::{Malformed, Reader, put_bytes, put_varint};
use narthex_model::Label;
use roaring::RoaringBitmap;
use std::ops::Range;

/// Values in a front-coded group, the first of which is written in full.
const GROUP: usize = 16;
/// Bytes of a name's row: positions of its text, its first id and its groups.
const ROW: usize = 12;

/// Returns the section's bytes for `pairs`, sorted and distinct.
pub(crate) fn encode(pairs: &[Label]) -> Vec<u8> {
    let names: Vec<&[Label]> = pairs.chunk_by(Label::same_name).collect();
    let mut rows = Vec::new();
    let mut body = Vec::new();
    let base = 4 + names.len() * ROW + 4;
    let mut first = 0u32;
    let place = |len: usize| u32::try_from(len).expect("a dictionary has less than 4 GiB");
    for labels in &names {
        rows.extend_from_slice(&place(base + body.len()).to_le_bytes());
        rows.extend_from_slice(&first.to_le_bytes());
        put_bytes(&mut body, labels[0].name().as_bytes());
        rows.extend_from_slice(&place(base + body.len()).to_le_bytes());
        put_values(labels, &mut body);
        first += place(labels.len());
    }
    let mut out = place(names.len()).to_le_bytes().to_vec();
    out.extend_from_slice(&rows);
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&body);
    out
}

/// Appends the offsets of the groups, relative to the first, then the groups.
fn put_values(labels: &[Label], out: &mut Vec<u8>) {
    let mut groups = Vec::new();
    let mut starts = Vec::new();
    for group in labels.chunks(GROUP) {
        starts.extend_from_slice(&(groups.len() as u32).to_le_bytes());
        let mut before: &[u8] = &[];
        for label in group {
            let value = label.value().as_bytes();
            let shared = before.iter().zip(value).take_while(|(a, b)| a == b).count();
            put_varint(&mut groups, shared as u64);
            put_bytes(&mut groups, &value[shared..]);
            before = value;
        }
    }
    out.extend_from_slice(&starts);
    out.extend_from_slice(&groups);
}

/// A dictionary read in place.
#[derive(Clone, Copy)]
pub(crate) struct Dictionary<'a> {
    bytes: &'a [u8],
    names: usize,
}

/// One label name.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    bytes: &'a [u8],
    pub(crate) text: &'a str,
    /// First id of its pairs.
    first: u32,
    end: u32,
    groups: usize,
}

impl<'a> Dictionary<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let names = u32_at(bytes, 0)? as usize;
        if names
            .checked_mul(ROW)
            .is_none_or(|rows| rows + 8 > bytes.len())
        {
            return Err(Malformed {
                offset: 0,
                what: "number of label names",
            });
        }
        Ok(Self { bytes, names })
    }

    /// Iterates over the names in ascending order.
    pub(crate) fn names(self) -> impl Iterator<Item = Result<Name<'a>, Malformed>> {
        (0..self.names).map(move |at| self.name_at(at))
    }

    /// Finds a name.
    pub(crate) fn name(&self, text: &str) -> Result<Option<Name<'a>>, Malformed> {
        let (mut low, mut high) = (0, self.names);
        while low < high {
            let middle = usize::midpoint(low, high);
            let name = self.name_at(middle)?;
            match name.text.cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(Some(name)),
            }
        }
        Ok(None)
    }

    /// Returns the name of pair `id`.
    pub(crate) fn name_of(&self, id: u32) -> Result<Name<'a>, Malformed> {
        let (mut low, mut high) = (0, self.names);
        while low < high {
            let middle = usize::midpoint(low, high);
            if u32_at(self.bytes, 4 + middle * ROW + 4)? <= id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let none = Malformed {
            offset: 0,
            what: "label pair",
        };
        let name = self.name_at(low.checked_sub(1).ok_or(none.clone())?)?;
        if name.ids().contains(&id) {
            Ok(name)
        } else {
            Err(none)
        }
    }

    /// Returns the interned label of pair `id`.
    pub(crate) fn label(&self, id: u32) -> Result<Label, Malformed> {
        let name = self.name_of(id)?;
        let mut found = None;
        name.values_from(id, &mut |_, value| {
            found = Some(Label::new(name.text, value));
            false
        })?;
        found.ok_or(Malformed {
            offset: name.groups,
            what: "label value",
        })
    }

    /// Passes on id, name and value of each of `ids`; neighbours are decoded together.
    pub(crate) fn each(
        &self,
        ids: &RoaringBitmap,
        take: &mut dyn FnMut(u32, &str, &str),
    ) -> Result<(), Malformed> {
        let mut ids = ids.iter().peekable();
        while let Some(&id) = ids.peek() {
            let name = self.name_of(id)?;
            let mut taken = false;
            name.values_from(id, &mut |at, value| {
                if ids.next_if_eq(&at).is_some() {
                    taken = true;
                    take(at, name.text, value);
                }
                // Beyond a group it is cheaper to start over.
                ids.peek().is_some_and(|next| *next - at <= GROUP as u32)
            })?;
            if !taken {
                return Err(Malformed {
                    offset: name.groups,
                    what: "label value",
                });
            }
        }
        Ok(())
    }

    fn name_at(&self, at: usize) -> Result<Name<'a>, Malformed> {
        let row = 4 + at * ROW;
        let (text_at, first) = (
            u32_at(self.bytes, row)? as usize,
            u32_at(self.bytes, row + 4)?,
        );
        let groups = u32_at(self.bytes, row + 8)? as usize;
        // The row after the last starts with its first id; all other rows have it in their second word.
        let next = if at + 1 == self.names {
            row + ROW
        } else {
            row + ROW + 4
        };
        let end = u32_at(self.bytes, next)?;
        let text = self.bytes.get(text_at..).ok_or(Malformed {
            offset: row,
            what: "label name",
        })?;
        let text = Reader::new(text).text()?;
        if end < first {
            return Err(Malformed {
                offset: row,
                what: "label name",
            });
        }
        Ok(Name {
            bytes: self.bytes,
            text,
            first,
            end,
            groups,
        })
    }
}

impl Name<'_> {
    /// Returns the ids of the name's pairs.
    pub(crate) fn ids(&self) -> Range<u32> {
        self.first..self.end
    }

    /// Finds the id of a value.
    pub(crate) fn find(&self, value: &str) -> Result<Option<u32>, Malformed> {
        let (mut low, mut high) = (0, (self.end - self.first) as usize / GROUP + 1);
        // Find the last group whose first value is not greater; groups past the end have none.
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            let mut above = true;
            self.values_from(self.first + (middle * GROUP) as u32, &mut |_, first| {
                above = first > value;
                false
            })?;
            if above {
                high = middle;
            } else {
                low = middle;
            }
        }
        let mut found = None;
        self.values_from(self.first + (low * GROUP) as u32, &mut |id, other| {
            if other == value {
                found = Some(id);
            }
            other < value
        })?;
        Ok(found)
    }

    /// Passes on ids and values, ascending, until `take` returns false.
    pub(crate) fn values(&self, take: &mut dyn FnMut(u32, &str) -> bool) -> Result<(), Malformed> {
        self.values_from(self.first, take)
    }

    /// Passes on values from pair `id` on, until `take` returns false.
    fn values_from(
        &self,
        id: u32,
        take: &mut dyn FnMut(u32, &str) -> bool,
    ) -> Result<(), Malformed> {
        let count = (self.end - self.first) as usize;
        let mut at = (id - self.first) as usize;
        let groups = self.groups + count.div_ceil(GROUP) * 4;
        let mut value = Vec::new();
        while at < count {
            let group = at / GROUP;
            let start = groups + u32_at(self.bytes, self.groups + group * 4)? as usize;
            let bad = Malformed {
                offset: start,
                what: "group of label values",
            };
            let mut r = Reader::new(self.bytes.get(start..).ok_or(bad.clone())?);
            value.clear();
            for index in group * GROUP..count.min((group + 1) * GROUP) {
                let shared = r.varint()? as usize;
                if shared > value.len() {
                    return Err(bad);
                }
                value.truncate(shared);
                value.extend_from_slice(r.bytes()?);
                let text = std::str::from_utf8(&value).map_err(|_| bad.clone())?;
                if index >= at && !take(self.first + index as u32, text) {
                    return Ok(());
                }
            }
            at = (group + 1) * GROUP;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs() -> Vec<Label> {
        let mut pairs = vec![
            Label::new("__name__", "up"),
            Label::new("z", "é"),
            Label::new("z", "日本"),
        ];
        pairs.extend((0..100).map(|i| Label::new("instance", &format!("host-{i:03}:9100"))));
        pairs.extend((0..16).map(|i| Label::new("job", &format!("j{i:02}"))));
        pairs.sort();
        pairs
    }

    #[test]
    fn every_pair_is_found_both_ways() {
        let pairs = pairs();
        let bytes = encode(&pairs);
        let dictionary = Dictionary::new(&bytes).unwrap();
        for (id, pair) in (0u32..).zip(&pairs) {
            assert_eq!(dictionary.label(id).unwrap(), *pair);
            let name = dictionary.name(pair.name()).unwrap().expect("known name");
            assert_eq!(name.find(pair.value()).unwrap(), Some(id), "{pair}");
            assert!(name.ids().contains(&id));
        }
        let job = dictionary.name("job").unwrap().expect("known name");
        for value in ["", "a", "j00x", "j16", "z"] {
            assert_eq!(job.find(value).unwrap(), None);
        }
        assert!(dictionary.name("nope").unwrap().is_none());
        assert!(dictionary.label(pairs.len() as u32).is_err());
        let names: Vec<&str> = dictionary.names().map(|name| name.unwrap().text).collect();
        assert_eq!(names, ["__name__", "instance", "job", "z"]);
        let ids: RoaringBitmap = [0, 1, 2, 40, 99, 100, 101, 118].into_iter().collect();
        let mut seen = vec![];
        dictionary
            .each(&ids, &mut |id, name, value| {
                seen.push((id, Label::new(name, value)));
            })
            .unwrap();
        let expected: Vec<(u32, Label)> = ids
            .iter()
            .map(|id| (id, pairs[id as usize].clone()))
            .collect();
        assert_eq!(seen, expected);
        let mut values = 0;
        dictionary
            .name("instance")
            .unwrap()
            .unwrap()
            .values(&mut |_, _| {
                values += 1;
                true
            })
            .unwrap();
        assert_eq!(values, 100);
    }

    #[test]
    fn a_value_cannot_share_more_than_there_is() {
        let pairs = [Label::new("a", "xy"), Label::new("a", "xz")];
        let mut bytes = encode(&pairs);
        let shared = bytes.len() - 3;
        assert_eq!(bytes[shared..], [1, 1, b'z']);
        bytes[shared] = 3;
        let dictionary = Dictionary::new(&bytes).unwrap();
        assert!(dictionary.label(0).is_ok());
        assert!(dictionary.label(1).is_err());
    }

    #[test]
    fn an_empty_dictionary_is_one() {
        let bytes = encode(&[]);
        let dictionary = Dictionary::new(&bytes).unwrap();
        assert!(dictionary.name("a").unwrap().is_none());
        assert!(dictionary.label(0).is_err());
    }

    #[test]
    fn shortened_bytes_never_panic() {
        let pairs = pairs();
        let bytes = encode(&pairs);
        for len in 0..bytes.len() {
            let Ok(dictionary) = Dictionary::new(&bytes[..len]) else {
                continue;
            };
            for id in 0..pairs.len() as u32 {
                let _ = dictionary.label(id);
            }
            let _ = dictionary
                .name("job")
                .map(|name| name.map(|name| name.find("j03")));
        }
    }
}
