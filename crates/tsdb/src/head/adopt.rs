//! Strips that no origin has any more, for an origin that reports their series again.
//!
//! **Invariant:** one strip has one origin; a strip with samples ahead of the clock is left alone.

use super::{Head, index::Index, strip::Strip};
use narthex_model::sync::Whole as _;
use narthex_model::{ColumnId, Schema};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A strip with the slots of a schema whose series it has.
type Owned = (Arc<Strip>, Vec<ColumnId>);

impl Head {
    /// Finds a strip without an origin that has the schema's common set and at least half of its columns.
    pub(super) fn adoptable(
        &self,
        index: &Index,
        schema: &Schema,
        now_ms: i64,
    ) -> Option<Arc<Strip>> {
        let mut best: Option<Owned> = None;
        for (strip, slots) in self.owned_by_nobody(index, schema, now_ms, 1) {
            let columns = strip.lock().schema.len();
            let enough = slots.len() * 2 >= columns.max(schema.live());
            if enough && best.as_ref().is_none_or(|best| best.1.len() < slots.len()) {
                best = Some((strip, slots));
            }
        }
        best.map(|best| best.0).filter(|strip| strip.try_bind())
    }

    /// Returns the slots of each of several strips without an origin that together have at least half of the schema's
    /// columns, each of them few others; nothing if one strip has nearly all.
    ///
    /// An origin whose lines have times of their own leaves such strips behind.
    pub(crate) fn slots_by_strip(&self, schema: &Schema, now_ms: i64) -> Vec<Vec<ColumnId>> {
        let index = self.index();
        let owned = self.owned_by_nobody(&index, schema, now_ms, 2);
        let (mut seen, mut groups) = (HashSet::new(), Vec::new());
        // The strips made last are those that the origin wrote to.
        for (strip, mut slots) in owned.into_iter().rev() {
            let all = slots.len();
            slots.retain(|slot| !seen.contains(slot));
            if slots.is_empty() || slots.len() * 2 < strip.lock().schema.len() {
                continue;
            }
            if all * 8 >= schema.live() * 7 {
                return Vec::new();
            }
            seen.extend(slots.iter().copied());
            groups.push(slots);
        }
        if groups.len() < 2 || seen.len() * 2 < schema.live() {
            return Vec::new();
        }
        groups
    }

    /// Counts the live columns of a schema that a strip has.
    pub(super) fn overlap(&self, index: &Index, strip: &Strip, schema: &Schema) -> usize {
        let known = |id: &ColumnId| {
            !schema.is_retired(*id) && index.find_in(strip.id, schema.identity(*id)).is_some()
        };
        schema.columns().map(|(id, _)| id).filter(known).count()
    }

    /// Returns the strips without an origin that have the schema's common set and some of its series, by age; nothing
    /// if fewer than `least` have the set.
    fn owned_by_nobody(
        &self,
        index: &Index,
        schema: &Schema,
        now_ms: i64,
        least: usize,
    ) -> Vec<Owned> {
        let free = |strip: &Arc<Strip>| {
            !strip.is_bound() && !self.is_ungrouped(strip) && !strip.has_future(now_ms)
        };
        let mut owned: HashMap<u32, Owned> = index
            .strips_of(schema.common())
            .into_iter()
            .filter(free)
            .map(|strip| (strip.id, (strip, Vec::new())))
            .collect();
        if owned.len() < least {
            return Vec::new();
        }
        let live = schema.columns().map(|(id, _)| id);
        for id in live.filter(|id| !schema.is_retired(*id)) {
            for (strip, _) in index.find_all(schema.identity(id)) {
                if let Some((_, slots)) = owned.get_mut(&strip.id) {
                    slots.push(id);
                }
            }
        }
        let mut owned: Vec<Owned> = owned.into_values().collect();
        owned.retain(|(_, slots)| !slots.is_empty());
        owned.sort_unstable_by_key(|(strip, _)| strip.id);
        owned
    }

    fn is_ungrouped(&self, strip: &Strip) -> bool {
        let ungrouped = self.ungrouped.lock().whole();
        ungrouped.as_ref().is_some_and(|other| other.id == strip.id)
    }
}
