//! Schemas: the series that one origin reports together.
//!
//! A schema is a **common** label set (what every series of the origin carries: target labels, pod, node …) and
//! a list of **columns**, each with a **local** label set that origins of a kind share. Slots are append-only: a new
//! series gets the next slot, a series that is gone for good is retired, and a slot is never reused for another
//! series. A different line order, a different HELP or a flapping series is not a schema change.
//!
//! **Invariant:** within a lineage, a slot's local set never changes, lengths only grow and retired slots stay
//! retired; common and local sets have no label name in common. So a sink that knows an older version needs only the
//! diff.

use crate::{
    labels::{LabelHash, LabelSet},
    metadata::Family,
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Columns that share one copy-on-write page.
const PAGE_COLUMNS: usize = 1024;

/// A column's slot in its schema.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ColumnId(pub u32);

impl ColumnId {
    /// Returns the column of a slot, given as an index.
    ///
    /// # Panics
    /// Panics if no schema has so many slots.
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(slot(index))
    }

    /// Returns the slot as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A family's place in its schema's list of families.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FamilyId(pub u32);

/// One series of a schema.
#[derive(Clone, Debug)]
pub struct Column {
    /// The labels the series has beyond the schema's common set, metric name included; interned.
    pub set: LabelSet,
    /// The series' family.
    pub family: FamilyId,
}

/// An immutable version of what an origin reports; cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    lineage: u64,
    version: u64,
    common: LabelSet,
    families: Arc<Vec<Family>>,
    pages: Vec<Arc<Page>>,
    len: usize,
    retired: usize,
}

#[derive(Clone, Debug, Default)]
struct Page {
    columns: Vec<Column>,
    retired: [u64; PAGE_COLUMNS / 64],
}

impl Page {
    fn is_retired(&self, at: usize) -> bool {
        self.retired[at / 64] & (1 << (at % 64)) != 0
    }
}

/// Difference between two versions of a schema.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaDiff {
    /// Slots the newer version has beyond the older one.
    pub appended: Range<u32>,
    /// Slots of the older version that the newer one retired, ascending.
    pub retired: Vec<ColumnId>,
    /// Whether type, unit or help of a family changed, or families were added.
    pub families_changed: bool,
}

impl Schema {
    /// Starts a new lineage: a schema with these common labels and no columns.
    #[must_use]
    pub fn new(common: LabelSet) -> Self {
        static LINEAGES: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(Inner {
            lineage: LINEAGES.fetch_add(1, Ordering::Relaxed),
            version: 0,
            common: common.intern(),
            families: Arc::default(),
            pages: Vec::new(),
            len: 0,
            retired: 0,
        }))
    }

    /// Returns the labels every column carries.
    #[must_use]
    pub fn common(&self) -> &LabelSet {
        &self.0.common
    }

    /// Returns the number of slots, retired ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Reports whether there is no slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns the number of slots that are not retired.
    #[must_use]
    pub fn live(&self) -> usize {
        self.0.len - self.0.retired
    }

    /// Returns a number shared by all versions of one schema and no other schema in this process.
    #[must_use]
    pub fn lineage(&self) -> u64 {
        self.0.lineage
    }

    /// Returns the version within the lineage; it rises with every edit.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// Reports whether both are the same version of the same lineage.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.lineage() == other.lineage() && self.version() == other.version())
    }

    /// Returns the column in slot `id`, retired or not.
    ///
    /// # Panics
    /// Panics when the schema has no such slot.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> &Column {
        &self.0.pages[id.index() / PAGE_COLUMNS].columns[id.index() % PAGE_COLUMNS]
    }

    /// Reports whether slot `id` is retired: its series is gone for good.
    #[must_use]
    pub fn is_retired(&self, id: ColumnId) -> bool {
        self.0
            .pages
            .get(id.index() / PAGE_COLUMNS)
            .is_some_and(|page| page.is_retired(id.index() % PAGE_COLUMNS))
    }

    /// Iterates over all slots in order, retired ones included.
    pub fn columns(&self) -> impl Iterator<Item = (ColumnId, &Column)> {
        self.0
            .pages
            .iter()
            .flat_map(|page| &page.columns)
            .enumerate()
            .map(|(at, column)| (ColumnId(slot(at)), column))
    }

    /// Returns all families.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.0.families
    }

    /// Returns the family of slot `id`.
    #[must_use]
    pub fn family(&self, id: ColumnId) -> &Family {
        &self.0.families[self.column(id).family.0 as usize]
    }

    /// Returns the whole label set of the series in slot `id`.
    #[must_use]
    pub fn labels(&self, id: ColumnId) -> LabelSet {
        self.0.common.union(&self.column(id).set)
    }

    /// Returns the hash of the whole label set of the series in slot `id`, without building it.
    #[must_use]
    pub fn identity(&self, id: ColumnId) -> LabelHash {
        self.0.common.hash() + self.column(id).set.hash()
    }

    /// Starts an edit that ends in the next version.
    #[must_use]
    pub fn edit(&self) -> SchemaEdit {
        SchemaEdit {
            inner: Inner::clone(&self.0),
            names: HashMap::new(),
        }
    }

    /// Returns what changed since `older`, or `None` when `older` is not an earlier version of this lineage.
    #[must_use]
    pub fn diff(&self, older: &Self) -> Option<SchemaDiff> {
        if self.lineage() != older.lineage() || self.version() < older.version() {
            return None;
        }
        let mut retired = Vec::new();
        for (page_at, (new, old)) in self.0.pages.iter().zip(&older.0.pages).enumerate() {
            if Arc::ptr_eq(new, old) {
                continue;
            }
            let gone =
                (0..old.columns.len()).filter(|&at| new.is_retired(at) && !old.is_retired(at));
            retired.extend(gone.map(|at| ColumnId(slot(page_at * PAGE_COLUMNS + at))));
        }
        Some(SchemaDiff {
            appended: slot(older.len())..slot(self.len()),
            retired,
            families_changed: !Arc::ptr_eq(&self.0.families, &older.0.families),
        })
    }
}

/// An edit of a schema; touches only the pages it changes.
#[derive(Debug)]
pub struct SchemaEdit {
    inner: Inner,
    /// Indexes of families by name, covering the families scanned so far.
    names: HashMap<Arc<str>, usize>,
}

/// Below this many families, a name is looked up by a linear scan.
const FEW_FAMILIES: usize = 64;

/// A page reserves spare room for one new column per this many existing ones.
const SPARE: usize = 8;

impl SchemaEdit {
    /// Adds a family and returns its id; a family of the same name gets the new metadata and keeps its id.
    pub fn family(&mut self, family: Family) -> FamilyId {
        let at = self
            .place_of(&family.name)
            .unwrap_or(self.inner.families.len());
        if self.inner.families.get(at) != Some(&family) {
            let families = Arc::make_mut(&mut self.inner.families);
            match families.get_mut(at) {
                Some(other) => *other = family,
                None => families.push(family),
            }
        }
        FamilyId(slot(at))
    }

    /// Returns the index of the family called `name`; fast for any number of families.
    fn place_of(&mut self, name: &str) -> Option<usize> {
        let families = &*self.inner.families;
        if families.len() < FEW_FAMILIES {
            return families.iter().position(|family| *family.name == *name);
        }
        // Names are distinct and never move, so the index only lacks the families added since.
        for (at, family) in families.iter().enumerate().skip(self.names.len()) {
            self.names.insert(Arc::clone(&family.name), at);
        }
        self.names.get(name).copied()
    }

    /// Appends a series and returns its slot.
    ///
    /// # Panics
    /// Panics when `set` shares a label name with the schema's common set, or `family` is not in this schema.
    pub fn push(&mut self, set: &LabelSet, family: FamilyId) -> ColumnId {
        assert!(
            (family.0 as usize) < self.inner.families.len(),
            "family {} is not of this schema",
            family.0
        );
        debug_assert!(
            !self.inner.common.overlaps(set),
            "{set} overlaps with the common set {}",
            self.inner.common
        );
        let at = self.inner.len;
        if at.is_multiple_of(PAGE_COLUMNS) {
            self.inner.pages.push(Arc::default());
        }
        let page = self
            .inner
            .pages
            .last_mut()
            .expect("a page was pushed for slot 0");
        Arc::make_mut(page).columns.push(Column {
            set: set.intern(),
            family,
        });
        self.inner.len += 1;
        ColumnId(slot(at))
    }

    /// Retires slot `id`: its series is gone for good, and would get a new slot if it came back.
    ///
    /// # Panics
    /// Panics when there is no such slot.
    pub fn retire(&mut self, id: ColumnId) {
        assert!(
            id.index() < self.inner.len,
            "slot {} of {}",
            id.0,
            self.inner.len
        );
        let page = Arc::make_mut(&mut self.inner.pages[id.index() / PAGE_COLUMNS]);
        let at = id.index() % PAGE_COLUMNS;
        if !page.is_retired(at) {
            page.retired[at / 64] |= 1 << (at % 64);
            self.inner.retired += 1;
        }
    }

    /// Ends the edit and returns the next version.
    #[must_use]
    pub fn finish(mut self) -> Schema {
        self.inner.version += 1;
        if let Some(page) = self.inner.pages.last_mut().and_then(Arc::get_mut) {
            // Columns pushed one by one would leave up to twice the room needed.
            let len = page.columns.len();
            page.columns.shrink_to(len + len / SPARE);
        }
        Schema(Arc::new(self.inner))
    }
}

fn slot(index: usize) -> u32 {
    u32::try_from(index).expect("a schema has fewer than 2^32 slots")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str) -> LabelSet {
        LabelSet::new([("__name__", name)])
    }

    fn grown(schema: &Schema, names: &[&str]) -> Schema {
        let mut edit = schema.edit();
        let family = edit.family(Family {
            name: "f".into(),
            ..Family::default()
        });
        for name in names {
            edit.push(&set(name), family);
        }
        edit.finish()
    }

    #[test]
    fn slots_are_appended_and_retired_but_never_reused() {
        let first = grown(&Schema::new(LabelSet::new([("job", "j")])), &["a", "b"]);
        let mut edit = first.edit();
        edit.retire(ColumnId(0));
        let added = edit.push(&set("a"), FamilyId(0));
        let second = edit.finish();
        assert_eq!(added, ColumnId(2));
        assert!(
            second.is_retired(ColumnId(0))
                && !second.is_retired(ColumnId(2))
                && !first.is_retired(ColumnId(0))
        );
        assert_eq!((second.len(), second.live(), first.len()), (3, 2, 2));
        let diff = second.diff(&first).unwrap();
        assert_eq!(
            diff,
            SchemaDiff {
                appended: 2..3,
                retired: vec![ColumnId(0)],
                families_changed: false
            }
        );
        assert_eq!(first.diff(&second), None);
        assert_eq!(second.labels(ColumnId(1)).to_string(), r#"b{job="j"}"#);
        assert_eq!(
            second.identity(ColumnId(1)),
            second.labels(ColumnId(1)).hash()
        );
    }

    #[test]
    fn untouched_pages_are_shared() {
        let names: Vec<String> = (0..PAGE_COLUMNS + 10).map(|i| format!("m{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let wide = grown(&Schema::new(LabelSet::empty()), &names);
        let wider = grown(&wide, &["x"]);
        assert!(Arc::ptr_eq(&wide.0.pages[0], &wider.0.pages[0]));
        assert!(!Arc::ptr_eq(&wide.0.pages[1], &wider.0.pages[1]));
        assert_eq!(
            wider
                .columns()
                .last()
                .map(|(id, column)| (id.0, column.set.to_string())),
            Some((1034, "x".into()))
        );
    }

    #[test]
    fn other_lineages_have_no_diff() {
        let schema = Schema::new(LabelSet::empty());
        assert_eq!(schema.diff(&Schema::new(LabelSet::empty())), None);
    }

    #[test]
    fn families_keep_their_places_however_many_there_are() {
        let family = |at: usize, help: &str| Family {
            name: format!("f{at}").into(),
            help: help.into(),
            ..Family::default()
        };
        let mut edit = Schema::new(LabelSet::empty()).edit();
        for round in ["old", "new"] {
            for at in 0..3 * FEW_FAMILIES {
                assert_eq!(edit.family(family(at, round)), FamilyId(slot(at)));
            }
        }
        let schema = edit.finish();
        assert_eq!(schema.families().len(), 3 * FEW_FAMILIES);
        assert!(
            schema
                .families()
                .iter()
                .all(|family| &*family.help == "new")
        );
    }

    #[test]
    fn metadata_changes_in_place() {
        let first = grown(&Schema::new(LabelSet::empty()), &["a"]);
        let mut edit = first.edit();
        let id = edit.family(Family {
            name: "f".into(),
            help: "new".into(),
            ..Family::default()
        });
        let second = edit.finish();
        assert_eq!((id, second.families().len()), (FamilyId(0), 1));
        assert!(second.diff(&first).unwrap().families_changed);
    }
}
