//! Output of the collectors: handles of series over the origin's schema and the reused frame.
//!
//! Invariant: a handle refers to the same series from `add` to `retire`, across rounds, schema versions and the
//! compaction of retired slots. A round whose set of series is unchanged allocates nothing.

use std::collections::{HashMap, HashSet};
use std::mem;

use narthex_model::bits::BitSet;
use narthex_model::cell::canonical;
use narthex_model::{
    ColumnId, Family, Frame, LabelSet, METRIC_NAME, MetricType, Schema, SchemaEdit,
};

/// Handle of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// Name, type and help of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Desc<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: MetricType,
    pub(crate) help: &'a str,
}

impl<'a> Desc<'a> {
    pub(crate) const fn gauge(name: &'a str, help: &'a str) -> Self {
        let kind = MetricType::Gauge;
        Self { name, kind, help }
    }

    pub(crate) const fn counter(name: &'a str, help: &'a str) -> Self {
        let kind = MetricType::Counter;
        Self { name, kind, help }
    }

    pub(crate) const fn unknown(name: &'a str, help: &'a str) -> Self {
        let kind = MetricType::Unknown;
        Self { name, kind, help }
    }
}

/// Dead slots tolerated before a new schema, which every sink would have to bind again.
const TOLERATED_RETIRED: usize = 1024;
const NO_COLUMN: ColumnId = ColumnId(u32::MAX);

pub(crate) struct Sink {
    schema: Schema,
    edit: Option<SchemaEdit>,
    frame: Frame,
    handles: Vec<Handle>,
    known: HashMap<LabelSet, Slot>,
    free: Vec<Slot>,
    values: Vec<f64>,
    present: BitSet,
    previous: Vec<u64>,
    owner: u8,
}

#[derive(Debug)]
struct Handle {
    /// `NO_COLUMN` while the handle is free.
    column: ColumnId,
    owner: u8,
    /// How many more times the series was added than retired.
    uses: u32,
    set: LabelSet,
}

impl Sink {
    pub(crate) fn new(common: LabelSet) -> Self {
        let schema = Schema::new(common);
        Self {
            frame: Frame::new(schema.clone(), 0),
            schema,
            edit: None,
            handles: Vec::new(),
            known: HashMap::new(),
            free: Vec::new(),
            values: Vec::new(),
            present: BitSet::default(),
            previous: Vec::new(),
            owner: 0,
        }
    }

    /// Starts a round without values.
    pub(crate) fn begin(&mut self) {
        let retired = self.schema.len() - self.schema.live();
        if self.edit.is_none() && retired > TOLERATED_RETIRED.max(self.schema.live()) {
            self.compact();
        }
        self.present.resize(self.values.len());
        self.present.clear();
    }

    /// Sets the collector to which the following calls belong.
    pub(crate) fn set_owner(&mut self, owner: u8) {
        self.owner = owner;
    }

    /// Discards the values that `owner` set in this round.
    pub(crate) fn discard(&mut self, owner: u8) {
        for handle in self.handles.iter().filter(|handle| handle.owner == owner) {
            self.present.remove(handle.column.index());
        }
    }

    /// Adds a series of the family that `desc` describes. An existing one returns the same handle again, and ends once it
    /// was retired as often as it was added.
    pub(crate) fn add(&mut self, desc: &Desc<'_>, labels: &[(&str, &str)]) -> Slot {
        let name = (METRIC_NAME, desc.name);
        let set = LabelSet::new(labels.iter().copied().chain([name]));
        self.insert(desc, set)
    }

    /// Adds a series of the family that `desc` describes, with all its labels. A label that is common to all series is
    /// renamed to `exported_…`, as for a scraped target.
    pub(crate) fn add_set(&mut self, desc: &Desc<'_>, set: &LabelSet) -> Slot {
        let common = self.schema.common();
        if !common.overlaps(set) {
            return self.insert(desc, set.clone());
        }
        let labels: Vec<(String, &str)> = set
            .iter()
            .map(|label| match common.get(label.name()) {
                Some(_) => (format!("exported_{}", label.name()), label.value()),
                None => (label.name().to_owned(), label.value()),
            })
            .collect();
        let labels = labels.iter().map(|(name, value)| (name.as_str(), *value));
        let set = LabelSet::new(labels);
        self.insert(desc, set)
    }

    fn insert(&mut self, desc: &Desc<'_>, set: LabelSet) -> Slot {
        let family = self.edit().family(Family {
            name: desc.name.into(),
            metric_type: desc.kind,
            unit: "".into(),
            help: desc.help.into(),
        });
        if let Some(slot) = self.known.get(&set) {
            let handle = &mut self.handles[slot.0 as usize];
            handle.uses += 1;
            handle.owner = self.owner;
            return *slot;
        }
        let column = self.edit().push(&set, family);
        self.values.resize(column.index() + 1, 0.0);
        self.present.resize(column.index() + 1);
        let handle = Handle {
            column,
            owner: self.owner,
            uses: 1,
            set: set.clone(),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.handles[slot.0 as usize] = handle;
                slot
            }
            None => {
                let at = u32::try_from(self.handles.len());
                self.handles.push(handle);
                Slot(at.expect("a schema has fewer than 2^32 slots"))
            }
        };
        self.known.insert(set, slot);
        slot
    }

    /// Ends a series, unless it was added more often than retired. The handle must not be used again.
    pub(crate) fn retire(&mut self, slot: Slot) {
        let handle = &mut self.handles[slot.0 as usize];
        handle.uses = handle.uses.saturating_sub(1);
        if handle.uses > 0 || handle.column == NO_COLUMN {
            return;
        }
        let column = mem::replace(&mut handle.column, NO_COLUMN);
        let set = mem::take(&mut handle.set);
        self.known.remove(&set);
        self.present.remove(column.index());
        self.edit().retire(column);
        self.free.push(slot);
    }

    /// Sets the series' value in this round.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, value: f64) {
        let column = self.handles[slot.0 as usize].column.index();
        self.values[column] = canonical(value);
        self.present.insert(column);
    }

    /// Sets the values of several series in this round.
    pub(crate) fn set_all(&mut self, slots: &[Slot], values: impl IntoIterator<Item = f64>) {
        for (slot, value) in slots.iter().zip(values) {
            self.set(*slot, value);
        }
    }

    /// Ends several series.
    pub(crate) fn retire_all(&mut self, slots: impl IntoIterator<Item = Slot>) {
        slots.into_iter().for_each(|slot| self.retire(slot));
    }

    /// Ends the round; series that had a value in the last round and have none in this one become stale events.
    pub(crate) fn finish(&mut self, time_ms: i64) -> &Frame {
        if let Some(edit) = self.edit.take() {
            self.schema = edit.finish();
        }
        self.frame.restart(&self.schema, time_ms);
        let (values, present) = self.frame.cells_mut();
        values.copy_from_slice(&self.values);
        mem::swap(present, &mut self.present);
        for at in 0..self.previous.len() {
            let mut ended = self.previous[at] & !self.frame.present().words()[at];
            while ended != 0 {
                let column = at * 64 + ended.trailing_zeros() as usize;
                ended &= ended - 1;
                self.frame.mark_stale(ColumnId(
                    u32::try_from(column).expect("a slot of this schema"),
                ));
            }
        }
        self.previous.clear();
        self.previous
            .extend_from_slice(self.frame.present().words());
        &self.frame
    }

    /// Reports whether series came or went since the last round.
    pub(crate) fn is_changing(&self) -> bool {
        self.edit.is_some()
    }

    /// Returns the number of `owner`'s series in the last round, and the bytes of their lines in the text format, with
    /// those of families whose first series is the owner's.
    pub(crate) fn page_share(&self, owner: u8) -> (usize, usize) {
        let (mut series, mut bytes) = (0, 0);
        let mut families = HashSet::new();
        let present = self.frame.present();
        let is_its = |handle: &&Handle| {
            handle.owner == owner
                && handle.column != NO_COLUMN
                && present.contains(handle.column.index())
        };
        for handle in self.handles.iter().filter(is_its) {
            let family = self.schema.family(handle.column);
            if families.insert(&*family.name) {
                let (name, help) = (family.name.len(), family.help.len());
                bytes += 2 * name + help + family.metric_type.as_str().len();
                bytes += "# HELP  \n# TYPE  \n".len();
            }
            let value = self.frame.values().get(handle.column.index());
            let labels = handle
                .set
                .iter()
                .map(|label| label.name().len() + label.value().len());
            // The name is a label too, with less around it.
            bytes += labels.sum::<usize>() + handle.set.iter().count() * "=\"\",".len();
            bytes += value.map_or(0, |value| value.to_string().len());
            bytes = (bytes + "{} \n".len()).saturating_sub("__name__=\"\",,".len());
            series += 1;
        }
        (series, bytes)
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    fn edit(&mut self) -> &mut SchemaEdit {
        self.edit.get_or_insert_with(|| self.schema.edit())
    }

    /// Starts a new lineage with only the live series, in the same order.
    fn compact(&mut self) {
        let old = self.schema.clone();
        let mut edit = Schema::new(old.common().clone()).edit();
        for family in old.families() {
            edit.family(family.clone());
        }
        let mut moved = vec![None; old.len()];
        let mut previous = BitSet::new(old.live());
        for (id, column) in old.columns().filter(|(id, _)| !old.is_retired(*id)) {
            let to = edit.push(&column.set, column.family);
            moved[id.index()] = Some(to);
            if self
                .previous
                .get(id.index() / 64)
                .is_some_and(|word| word & (1 << (id.index() % 64)) != 0)
            {
                previous.insert(to.index());
            }
        }
        for handle in &mut self.handles {
            if let Some(Some(column)) = moved.get(handle.column.index()) {
                handle.column = *column;
            }
        }
        self.schema = edit.finish();
        self.values.truncate(self.schema.len());
        self.previous = previous.words().to_vec();
        // Shares of the last round's page are looked up by the new columns.
        let mut frame = Frame::new(self.schema.clone(), self.frame.time_ms());
        for at in self.frame.present().iter() {
            if let Some(Some(column)) = moved.get(at) {
                frame.set(*column, self.frame.values()[at]);
            }
        }
        self.frame = frame;
    }
}

#[cfg(test)]
mod tests;
