//! What a destination keeps of a schema, and under which labels: external labels and rules, resolved once.
//!
//! **Invariant:** columns are only appended; a schema that a shape cannot follow that way gets another one.

use narthex_model::{
    ColumnId, LabelSet, Schema,
    metadata::Family,
    relabel::{self, Rule},
};

/// What a destination does to the labels of every series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Labelling {
    /// Labels that series get unless they have one of that name.
    pub(crate) external: LabelSet,
    /// Rules that change or drop series after that.
    pub(crate) rules: Vec<Rule>,
}

impl Labelling {
    /// Returns the labels under which a series is sent; `None` if it is not.
    pub(super) fn apply(&self, labels: &LabelSet) -> Option<LabelSet> {
        let labels = self.external.union(labels);
        let labels = relabel::process(&labels, &self.rules)?;
        (!labels.is_empty()).then_some(labels)
    }
}

/// The columns of a schema that a destination keeps.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) schema: Schema,
    /// Labels that all of its columns have.
    pub(super) common: LabelSet,
    /// The schema's slots, ascending.
    pub(super) slots: Vec<u32>,
    /// The columns' other labels; empty if they are those of the schema's columns.
    sets: Vec<LabelSet>,
    /// Whether column `i` is slot `i`, for all slots of the schema.
    pub(super) is_whole: bool,
}

impl Shape {
    pub(super) fn new(schema: &Schema, labelling: &Labelling) -> Self {
        let simple = labelling.rules.is_empty() && !overlaps(schema, 0, &labelling.external);
        let mut shape = Self {
            schema: schema.clone(),
            common: labelling.external.union(schema.common()).intern(),
            slots: Vec::new(),
            sets: Vec::new(),
            is_whole: false,
        };
        if simple {
            shape.slots = live(schema, 0).collect();
        } else {
            let kept = kept(schema, 0, labelling);
            shape.common = shared(&shape.common, &kept).intern();
            for (slot, labels) in kept {
                let rest = without(&labels, &shape.common);
                shape.slots.push(slot);
                shape.sets.push(rest.unwrap_or(labels).intern());
            }
        }
        shape.is_whole = shape.slots.len() == schema.len();
        shape
    }

    /// Follows the schema to a newer version; returns `false`, changing nothing, if only another shape can.
    pub(super) fn follow(&mut self, schema: &Schema, labelling: &Labelling) -> bool {
        let Some(diff) = schema.diff(&self.schema) else {
            return false;
        };
        let known = self.schema.families();
        if diff.families_changed && schema.families().get(..known.len()) != Some(known) {
            return false;
        }
        let from = diff.appended.start as usize;
        if self.is_plain() {
            if !labelling.rules.is_empty() || overlaps(schema, from, &labelling.external) {
                return false;
            }
            self.slots.extend(live(schema, from));
        } else {
            let kept = kept(schema, from, labelling);
            let rest: Option<Vec<LabelSet>> = kept
                .iter()
                .map(|(_, labels)| without(labels, &self.common))
                .collect();
            let Some(rest) = rest else {
                return false;
            };
            self.slots.extend(kept.iter().map(|(slot, _)| *slot));
            self.sets.extend(rest.iter().map(LabelSet::intern));
        }
        self.schema = schema.clone();
        self.is_whole = self.slots.len() == schema.len();
        true
    }

    /// Reports whether the columns' sets are those of the schema.
    fn is_plain(&self) -> bool {
        self.sets.is_empty() && !self.slots.is_empty()
    }

    /// Returns the number of columns.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the column of a slot, if it is kept.
    pub(super) fn column_of(&self, slot: ColumnId) -> Option<u32> {
        if self.is_whole {
            return Some(slot.0);
        }
        let at = self.slots.binary_search(&slot.0).ok()?;
        u32::try_from(at).ok()
    }

    /// Returns the labels that a column has beside the common ones.
    pub(super) fn set(&self, column: usize) -> &LabelSet {
        match self.sets.get(column) {
            Some(set) => set,
            None => &self.schema.column(ColumnId(self.slots[column])).set,
        }
    }

    pub(super) fn family(&self, column: usize) -> &Family {
        self.schema.family(ColumnId(self.slots[column]))
    }
}

/// Returns the slots from `from` on that are not retired.
fn live(schema: &Schema, from: usize) -> impl Iterator<Item = u32> + '_ {
    let columns = schema.columns().skip(from).map(|(column, _)| column);
    columns
        .filter(|column| !schema.is_retired(*column))
        .map(|column| column.0)
}

/// Reports whether a column has a label of the same name as an external one.
fn overlaps(schema: &Schema, from: usize, external: &LabelSet) -> bool {
    let mut columns = schema.columns().skip(from);
    !external.is_empty() && columns.any(|(_, column)| column.set.overlaps(external))
}

/// Returns the slots from `from` on that are kept, each with all of its labels.
fn kept(schema: &Schema, from: usize, labelling: &Labelling) -> Vec<(u32, LabelSet)> {
    let labels = |slot| labelling.apply(&schema.labels(ColumnId(slot)));
    live(schema, from)
        .filter_map(|slot| Some((slot, labels(slot)?)))
        .collect()
}

/// Returns `labels` without those of `common`, `None` if it lacks one of them.
fn without(labels: &LabelSet, common: &LabelSet) -> Option<LabelSet> {
    let has = |label: &narthex_model::Label| labels.label(label.name()) == Some(label);
    if !common.iter().all(has) {
        return None;
    }
    let rest = labels
        .iter()
        .filter(|label| common.label(label.name()).is_none());
    Some(LabelSet::from_labels(rest.cloned()))
}

/// Returns those of `labels` that all the sets have.
fn shared(labels: &LabelSet, kept: &[(u32, LabelSet)]) -> LabelSet {
    let in_all = |label: &&narthex_model::Label| {
        let name = label.name();
        kept.iter().all(|(_, set)| set.label(name) == Some(*label))
    };
    LabelSet::from_labels(labels.iter().filter(in_all).cloned())
}
