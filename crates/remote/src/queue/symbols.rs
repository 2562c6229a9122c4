//! Definitions of the file being read: texts, labels, sets, families.
//!
//! **Invariant:** a reference to a definition that was lost gives nothing, never another definition.

use super::bytes::{Malformed, Reader};
use std::ops::Range;

/// Definitions of a file.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// All names, values and texts of families, one after the other.
    texts: Vec<u8>,
    names: Table<Text>,
    labels: Table<(Text, Text)>,
    /// Label numbers of the sets, one after the other.
    members: Vec<u32>,
    sets: Table<Set>,
    families: Table<FamilyText>,
}

/// A range of `texts`.
type Text = Range<u32>;

#[derive(Clone, Debug)]
struct Set {
    labels: Range<u32>,
    hash: u64,
}

#[derive(Clone, Debug)]
struct FamilyText {
    metric_type: u8,
    name: Text,
    unit: Text,
    help: Text,
}

/// A family as a message needs it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct FamilyRef<'a> {
    /// Number of the type in remote write.
    pub(crate) metric_type: u8,
    pub(crate) name: &'a [u8],
    pub(crate) unit: &'a [u8],
    pub(crate) help: &'a [u8],
}

/// Numbered definitions, of which runs may be lost.
#[derive(Debug)]
struct Table<T> {
    known: Vec<T>,
    /// For each run of known ones, the number of its first and that one's index; ascending.
    runs: Vec<(u32, u32)>,
    next: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            runs: Vec::new(),
            next: 0,
        }
    }
}

impl<T> Table<T> {
    /// Continues at number `next`, which may leave a gap behind it.
    fn skip_to(&mut self, next: u64) -> Result<(), Malformed> {
        let next = u32::try_from(next).ok().filter(|next| *next >= self.next);
        let next = next.ok_or(Malformed("a count of definitions"))?;
        self.next = next;
        Ok(())
    }

    fn define(&mut self, value: T) {
        let index = self.known.len() as u32;
        let continues = self
            .runs
            .last()
            .is_some_and(|(number, first)| self.next - number == index - first);
        if !continues {
            self.runs.push((self.next, index));
        }
        self.known.push(value);
        self.next += 1;
    }

    fn heap_bytes(&self) -> usize {
        self.known.capacity() * size_of::<T>() + self.runs.capacity() * size_of::<(u32, u32)>()
    }

    /// Takes a number for a definition that refers to a lost one.
    fn lose(&mut self) {
        self.next += 1;
    }

    #[inline]
    fn get(&self, number: u32) -> Option<&T> {
        if let [(0, 0)] = self.runs[..] {
            return self.known.get(number as usize);
        }
        let run = self.runs.partition_point(|(first, _)| *first <= number);
        let (first, index) = self.runs.get(run.checked_sub(1)?)?;
        let index = index + (number - first);
        let end = self.runs.get(run).map(|(_, index)| *index);
        (end.is_none_or(|end| index < end)).then(|| self.known.get(index as usize))?
    }
}

impl Symbols {
    /// Reads the counts that stand before an entry's definitions.
    pub(super) fn count(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        self.names.skip_to(reader.varint()?)?;
        self.labels.skip_to(reader.varint()?)?;
        self.sets.skip_to(reader.varint()?)?;
        self.families.skip_to(reader.varint()?)
    }

    /// Reads the definition of a set after its tag.
    pub(super) fn define_set(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let len = reader.varint()?;
        let (start, mut hash, mut whole) = (self.members.len(), 0_u64, true);
        for _ in 0..len {
            let number = self.define_label(reader)?;
            match self.label(number) {
                Some((name, value)) => hash = hash.wrapping_add(hash_of(name, value)),
                None => whole = false,
            }
            self.members.push(number);
        }
        if !whole {
            self.members.truncate(start);
            self.sets.lose();
            return Ok(());
        }
        let labels = start as u32..self.members.len() as u32;
        self.sets.define(Set { labels, hash });
        Ok(())
    }

    /// Reads a reference to a label, or its definition; returns its number.
    fn define_label(&mut self, reader: &mut Reader<'_>) -> Result<u32, Malformed> {
        let number = reader.number("the number of a label")?;
        if let Some(number) = number.checked_sub(1) {
            return Ok(number);
        }
        let name = match reader.number("the number of a name")?.checked_sub(1) {
            Some(number) => self.names.get(number).cloned(),
            None => {
                let name = self.add_text(reader.text()?);
                self.names.define(name.clone());
                Some(name)
            }
        };
        let value = reader.text()?;
        let number = self.labels.next;
        match name {
            Some(name) => {
                let value = self.add_text(value);
                self.labels.define((name, value));
            }
            None => self.labels.lose(),
        }
        Ok(number)
    }

    /// Reads the definition of a family after its tag.
    pub(super) fn define_family(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let metric_type = reader.byte()?;
        let [name, unit, help] = [reader.text()?, reader.text()?, reader.text()?];
        let family = FamilyText {
            metric_type,
            name: self.add_text(name),
            unit: self.add_text(unit),
            help: self.add_text(help),
        };
        self.families.define(family);
        Ok(())
    }

    fn add_text(&mut self, text: &str) -> Text {
        let start = self.texts.len() as u32;
        self.texts.extend_from_slice(text.as_bytes());
        start..self.texts.len() as u32
    }

    #[inline]
    fn text(&self, text: &Text) -> &[u8] {
        let bytes = self.texts.get(text.start as usize..text.end as usize);
        bytes.unwrap_or_default()
    }

    /// Returns the name and value of a label, which are UTF-8.
    #[inline]
    pub(crate) fn label(&self, number: u32) -> Option<(&[u8], &[u8])> {
        let (name, value) = self.labels.get(number)?;
        Some((self.text(name), self.text(value)))
    }

    /// Returns the label numbers of a set, sorted by the labels' names.
    #[inline]
    pub(crate) fn set(&self, number: u32) -> Option<&[u32]> {
        let Range { start, end } = self.sets.get(number)?.labels;
        self.members.get(start as usize..end as usize)
    }

    /// Returns a hash of a set that is the same in every process; that of a union is the sum.
    #[inline]
    pub(crate) fn hash(&self, number: u32) -> Option<u64> {
        self.sets.get(number).map(|set| set.hash)
    }

    /// Returns a family.
    pub(crate) fn family(&self, number: u32) -> Option<FamilyRef<'_>> {
        self.families.get(number).map(|family| self.shown(family))
    }

    /// Returns the heap bytes held.
    pub(super) fn heap_bytes(&self) -> usize {
        self.texts.capacity()
            + self.members.capacity() * size_of::<u32>()
            + self.names.heap_bytes()
            + self.labels.heap_bytes()
            + self.sets.heap_bytes()
            + self.families.heap_bytes()
    }

    /// Iterates over all families of the file so far.
    pub(crate) fn families(&self) -> impl Iterator<Item = FamilyRef<'_>> {
        self.families.known.iter().map(|family| self.shown(family))
    }

    fn shown<'a>(&'a self, family: &FamilyText) -> FamilyRef<'a> {
        FamilyRef {
            metric_type: family.metric_type,
            name: self.text(&family.name),
            unit: self.text(&family.unit),
            help: self.text(&family.help),
        }
    }
}

fn hash_of(name: &[u8], value: &[u8]) -> u64 {
    let name = rapidhash::v3::rapidhash_v3(name);
    let value = rapidhash::v3::rapidhash_v3(value);
    // Swapped, a name and a value are another label.
    (name ^ value.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_a_gap_keep_their_meaning() {
        let mut table = Table::default();
        table.define('a');
        table.define('b');
        table.skip_to(5).unwrap();
        table.define('f');
        table.lose();
        table.define('h');
        let found: String = (0..9).map(|at| table.get(at).map_or('-', |c| *c)).collect();
        assert_eq!(found, "ab---f-h-");
        assert!(table.skip_to(7).is_err());
        assert!(table.skip_to(1 << 40).is_err());
    }
}
