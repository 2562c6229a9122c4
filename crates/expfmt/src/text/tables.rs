//! Look-ups for lines that are not the expected ones.
//!
//! **Invariant:** made from one hint and one schema; columns appended since are added by the pass that appends them.

use super::hint::{Hint, Place, hash};
use hashbrown::HashTable;
use narthex_model::{ColumnId, Schema};

/// What finds a line or a series out of order.
#[derive(Debug)]
pub(super) struct Tables {
    /// Hash of series text → entry of `places`.
    pub(super) lines: HashTable<u32>,
    pub(super) places: Vec<(u64, Place)>,
    /// Local label set → column.
    pub(super) columns: HashTable<u32>,
}

impl Tables {
    pub(super) fn of(hint: &Hint, schema: &Schema) -> Self {
        let places = hint.index();
        let mut lines = HashTable::with_capacity(places.len());
        for (at, (hash, _)) in (0u32..).zip(&places) {
            lines.insert_unique(*hash, at, |at| places[*at as usize].0);
        }
        Self {
            lines,
            places,
            columns: column_table(schema),
        }
    }

    /// Finds a line by its text; returns the place behind its entry and where its value starts.
    pub(super) fn look_up(&self, body: &[u8], start: usize) -> Option<(Place, usize)> {
        let rest = &body[start..];
        let at = memchr::memchr3(b'{', b' ', b'\n', rest)?;
        let len = match rest[at] {
            b'{' => at + memchr::memmem::find(&rest[at..], b"} ")? + 2,
            b' ' => at + 1,
            _ => return None,
        };
        let hash = hash(&rest[..len]);
        let same = |at: &u32| self.places[*at as usize].0 == hash;
        let found = *self.lines.find(hash, same)?;
        Some((self.places[found as usize].1, start + len))
    }
}

fn column_table(schema: &Schema) -> HashTable<u32> {
    let mut columns = HashTable::with_capacity(schema.len());
    for (id, column) in schema.columns() {
        if !schema.is_retired(id) {
            let rehash = |at: &u32| schema.column(ColumnId(*at)).set.hash().low();
            columns.insert_unique(column.set.hash().low(), id.0, rehash);
        }
    }
    columns
}
