//! A group as an origin of a sink: what is pushed is stored at once, and again while the group lives.
//!
//! **Invariant:** a sink gets what a scrape of the gateway with `honor_labels` would store: the group's samples and the
//! gauges about it. A series that the group has no longer gets a staleness marker.

use crate::{
    family::{Shape, View},
    gauges::GROUP_GAUGES,
    state::State,
};
use narthex_expfmt::bound_text;
use narthex_model::{
    ColumnId, Family, Frame, LabelSet, METRIC_NAME, MetricType, Schema, SchemaEdit,
    bits::BitSet,
    cell::Cell,
    storage::{Binding, Sink, StorageError},
};
use std::{collections::HashMap, sync::Arc};

/// Slots without a series that are tolerated before a new schema.
const DEAD_COLUMNS: usize = 1024;

/// What a sink has of a group.
pub(crate) struct Forward {
    schema: Schema,
    /// Columns by local labels.
    known: HashMap<LabelSet, ColumnId>,
    /// Columns of the cells of each family's shape, in the order of the last round.
    families: Vec<(Arc<Shape>, Vec<ColumnId>)>,
    frame: Frame,
    /// Columns that get a marker when they are absent from the next round.
    sent: BitSet,
    binding: Option<Box<dyn Binding>>,
    last_ms: i64,
}

impl Forward {
    pub(crate) fn new(common: &LabelSet) -> Self {
        let schema = Schema::new(common.clone());
        Self {
            frame: Frame::new(schema.clone(), 0),
            schema,
            known: HashMap::new(),
            families: Vec::new(),
            sent: BitSet::default(),
            binding: None,
            last_ms: 0,
        }
    }

    /// Returns when something was stored last.
    pub(crate) fn last_ms(&self) -> i64 {
        self.last_ms
    }

    /// Stores a group's contents. Samples with times of their own are stored with their push alone.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn append(
        &mut self,
        sink: &dyn Sink,
        state: &State,
        now_ns: i64,
        is_repeated: bool,
    ) -> Result<(), StorageError> {
        if self.schema.len() > 2 * self.sent.count() + DEAD_COLUMNS {
            self.start_over(sink)?;
        }
        let gauges = self.resolve(state);
        let time_ms = (now_ns / 1_000_000).max(self.last_ms + 1);
        self.frame.restart(&self.schema, time_ms);
        let mut untimed = BitSet::new(self.schema.len());
        for ((_, columns), family) in self.families.iter().zip(state.contents.families()) {
            for (at, column) in columns.iter().enumerate() {
                let own_ms = family.time_ms(at);
                if own_ms.is_some() && is_repeated {
                    continue;
                }
                set(&mut self.frame, *column, family, at);
                match own_ms {
                    Some(own_ms) => self.frame.set_time(*column, own_ms),
                    None => untimed.insert(column.index()),
                }
            }
        }
        for (column, gauge) in gauges.into_iter().zip(&GROUP_GAUGES) {
            if let (Some(column), Some(value)) = (column, (gauge.value)(state, now_ns)) {
                self.frame.set(column, value);
                untimed.insert(column.index());
            }
        }
        self.store(sink, untimed)?;
        self.last_ms = time_ms;
        Ok(())
    }

    /// Ends all series.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn end(&mut self, sink: &dyn Sink, now_ns: i64) -> Result<(), StorageError> {
        let time_ms = (now_ns / 1_000_000).max(self.last_ms + 1);
        self.frame.restart(&self.schema, time_ms);
        self.last_ms = time_ms;
        self.store(sink, BitSet::new(self.schema.len()))
    }

    /// Finds the columns of a state's series, adding those that are new; returns those of the group's gauges.
    fn resolve(&mut self, state: &State) -> [Option<ColumnId>; GROUP_GAUGES.len()] {
        let mut columns = Columns {
            schema: &self.schema,
            known: &mut self.known,
            edit: None,
        };
        let mut before = std::mem::take(&mut self.families).into_iter().peekable();
        for shape in &state.contents.layout.families {
            while before
                .next_if(|(other, _)| other.name < shape.name)
                .is_some()
            {}
            let same = before.next_if(|(other, _)| Arc::ptr_eq(other, shape));
            let family = same.unwrap_or_else(|| (Arc::clone(shape), columns.of_shape(shape)));
            self.families.push(family);
        }
        let gauges = GROUP_GAUGES.each_ref().map(|gauge| {
            (gauge.value)(state, 0)?;
            let family = family(gauge.name, MetricType::Gauge, gauge.help);
            Some(columns.find(LabelSet::new([(METRIC_NAME, gauge.name)]), &family))
        });
        if let Some(edit) = columns.edit {
            self.schema = edit.finish();
        }
        gauges
    }

    /// Appends the frame, with markers for what was sent before and is not in it.
    fn store(&mut self, sink: &dyn Sink, present: BitSet) -> Result<(), StorageError> {
        self.sent.resize(self.schema.len());
        for at in self.sent.difference(&present) {
            if !self.frame.present().contains(at) {
                self.frame.mark_stale(ColumnId::at(at));
            }
        }
        self.bind(sink)?;
        if let Some(binding) = &mut self.binding {
            binding.append(&self.frame)?;
        }
        self.sent = present;
        Ok(())
    }

    /// Begins another schema, without the slots of series that ended.
    fn start_over(&mut self, sink: &dyn Sink) -> Result<(), StorageError> {
        let mut edit = Schema::new(self.schema.common().clone()).edit();
        let mut known = HashMap::new();
        let mut sent = Vec::new();
        for (id, column) in self.schema.columns() {
            if self.sent.contains(id.index()) {
                let family = edit.family(self.schema.family(id).clone());
                let to = edit.push(&column.set, family);
                known.insert(column.set.clone(), to);
                sent.push(to);
            }
        }
        self.schema = edit.finish();
        self.sent = BitSet::new(self.schema.len());
        sent.iter()
            .for_each(|column| self.sent.insert(column.index()));
        self.known = known;
        self.families.clear();
        self.bind(sink)
    }

    /// Binds the current schema.
    fn bind(&mut self, sink: &dyn Sink) -> Result<(), StorageError> {
        match &mut self.binding {
            Some(binding) => binding.rebind(&self.schema)?,
            empty => *empty = Some(sink.bind(&self.schema)?),
        }
        Ok(())
    }
}

impl std::fmt::Debug for Forward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forward")
            .field("last_ms", &self.last_ms)
            .finish_non_exhaustive()
    }
}

/// Looks up columns, and adds missing ones.
struct Columns<'a> {
    schema: &'a Schema,
    known: &'a mut HashMap<LabelSet, ColumnId>,
    edit: Option<SchemaEdit>,
}

impl Columns<'_> {
    /// Returns the columns of a shape's cells.
    fn of_shape(&mut self, shape: &Shape) -> Vec<ColumnId> {
        let about = family(&shape.name, shape.metric_type, &shape.help);
        let mut columns = Vec::with_capacity(shape.parts.len());
        for (metric, range) in shape.metrics() {
            for part in &shape.parts[range] {
                let (suffix, bound) = part.suffix(shape.metric_type);
                let mut labels = metric.labels.to_builder();
                labels.set(METRIC_NAME, &format!("{}{suffix}", shape.name));
                if let Some((label, bound)) = bound {
                    labels.set(label, &bound_text(bound));
                }
                columns.push(self.find(labels.finish(), &about));
            }
        }
        columns
    }

    fn find(&mut self, labels: LabelSet, about: &Family) -> ColumnId {
        if let Some(known) = self.known.get(&labels) {
            return *known;
        }
        let edit = self.edit.get_or_insert_with(|| self.schema.edit());
        let family = edit.family(about.clone());
        let column = edit.push(&labels, family);
        self.known.insert(labels.intern(), column);
        column
    }
}

fn family(name: &str, metric_type: MetricType, help: &str) -> Family {
    Family {
        name: name.into(),
        metric_type,
        help: help.into(),
        ..Family::default()
    }
}

fn set(frame: &mut Frame, column: ColumnId, family: View<'_>, at: usize) {
    let value = family.cells()[at];
    match (Cell::decode(value), family.native(at)) {
        (Cell::Histogram(_), Some(native)) => frame.set_histogram(column, Arc::clone(native)),
        _ => frame.set(column, value),
    }
}
