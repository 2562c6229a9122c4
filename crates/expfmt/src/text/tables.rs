//! Look-up of unexpected lines.
//!
//! **Invariant:** tables are made from one template, and dropped with it.

use super::line_template::{LineTemplate, Place};
use crate::hash::hash;
use hashbrown::HashTable;

/// Look-up tables for lines out of order.
#[derive(Debug)]
pub(super) struct Tables {
    /// Hash of series text → entry of `places`.
    lines: HashTable<u32>,
    places: Vec<(u64, Place)>,
}

impl Tables {
    pub(super) fn new(template: &LineTemplate) -> Self {
        let places = template.index();
        let mut lines = HashTable::with_capacity(places.len());
        for (at, (hash, _)) in (0u32..).zip(&places) {
            lines.insert_unique(*hash, at, |at| places[*at as usize].0);
        }
        Self { lines, places }
    }

    /// Finds a line by its text; returns the position after its entry and the offset of its value.
    pub(super) fn look_up(&self, body: &[u8], start: usize) -> Option<(Place, usize)> {
        let rest = &body[start..];
        let at = memchr::memchr3(b'{', b' ', b'\n', rest)?;
        let len = match rest[at] {
            b'{' => {
                let mut ends = memchr::memchr_iter(b'}', &rest[at..]).map(|end| at + end + 1);
                ends.find(|end| rest.get(*end) == Some(&b' '))? + 1
            }
            b' ' => at + 1,
            _ => return None,
        };
        let hash = hash(&rest[..len]);
        let same = |at: &u32| self.places[*at as usize].0 == hash;
        let found = *self.lines.find(hash, same)?;
        Some((self.places[found as usize].1, start + len))
    }
}
