//! Selections that are asked again and again, as rules and dashboards do, kept until the index changes.
//!
//! **Invariant:** a selection is kept only while every strip and column there is was there when it was made. What all
//! selections take is bounded; when the bound is reached they are made anew.

use super::Chosen;
use narthex_model::Matcher;
use std::{collections::HashMap, sync::Arc};

/// Most selections, and most columns and strips of all together: some 20 MB.
const MOST_SELECTIONS: usize = 1 << 15;
const MOST_PARTS: usize = 1 << 20;
/// Most columns and strips of one selection: finding more is cheap beside reading them.
const MOST_OF_ONE: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct Selections {
    all: HashMap<Box<[Matcher]>, Arc<[Chosen]>, foldhash::fast::RandomState>,
    parts: usize,
}

impl Selections {
    /// Returns what `matchers` select, in all strips.
    pub(super) fn get(&self, matchers: &[Matcher]) -> Option<Arc<[Chosen]>> {
        self.all.get(matchers).cloned()
    }

    /// Keeps what `matchers` select in all strips.
    pub(super) fn keep(&mut self, matchers: &[Matcher], chosen: &[Chosen]) {
        let columns = chosen.iter().map(|chosen| 1 + chosen.columns.len());
        let parts = columns.sum::<usize>();
        if parts > MOST_OF_ONE {
            return;
        }
        if self.all.len() >= MOST_SELECTIONS || self.parts + parts > MOST_PARTS {
            self.clear();
        }
        self.parts += parts;
        self.all.insert(matchers.into(), chosen.into());
    }

    /// Forgets all, as the index changes.
    pub(super) fn clear(&mut self) {
        if !self.all.is_empty() {
            *self = Self::default();
        }
    }
}
