//! Assignment of series to families.
//!
//! **Invariant:** the result depends only on names and types, never on whether the surrounding lines were expected.

use narthex_model::{Family, FamilyId, MetricType, Schema, SchemaEdit};
use std::{collections::HashMap, sync::Arc};

/// Metadata of a family in one line or message.
pub(crate) enum About {
    Help(String),
    Type(MetricType),
    Unit(String),
}

/// The families of one pass: those of the schema and new ones.
#[derive(Debug, Default)]
pub(crate) struct Families {
    /// Family of the last head line.
    head: Option<Family>,
    head_id: Option<FamilyId>,
    /// Families by name; filled on first use.
    known: HashMap<Arc<str>, (FamilyId, MetricType)>,
    indexed: bool,
    /// Whether a family of the schema got other metadata.
    pub(crate) changed: bool,
}

/// Suffixes of series names, and the types whose families have them.
const SUFFIXES: [(&str, &[MetricType]); 8] = [
    (
        "_bucket",
        &[MetricType::Histogram, MetricType::GaugeHistogram],
    ),
    (
        "_sum",
        &[
            MetricType::Histogram,
            MetricType::GaugeHistogram,
            MetricType::Summary,
        ],
    ),
    (
        "_count",
        &[
            MetricType::Histogram,
            MetricType::GaugeHistogram,
            MetricType::Summary,
        ],
    ),
    ("_gsum", &[MetricType::GaugeHistogram]),
    ("_gcount", &[MetricType::GaugeHistogram]),
    ("_total", &[MetricType::Counter]),
    (
        "_created",
        &[
            MetricType::Counter,
            MetricType::Histogram,
            MetricType::Summary,
        ],
    ),
    ("_info", &[MetricType::Info]),
];

/// Returns the name, without suffix, of the family that `metric` belongs to if that is of type `metric_type`.
fn belongs(metric: &str, name: &str, metric_type: MetricType) -> bool {
    let Some(suffix) = metric.strip_prefix(name) else {
        return false;
    };
    suffix.is_empty()
        || SUFFIXES
            .iter()
            .any(|(known, types)| *known == suffix && types.contains(&metric_type))
}

impl Families {
    /// Applies a head line of family `name`.
    pub(crate) fn about(
        &mut self,
        name: &str,
        about: About,
        schema: &Schema,
        edit: &mut Option<SchemaEdit>,
    ) {
        self.index(schema);
        let known = self.known.get(name).copied();
        if self.head.as_ref().is_none_or(|head| *head.name != *name) {
            let stored = known.and_then(|(id, _)| schema.families().get(id.0 as usize));
            self.head = Some(stored.cloned().unwrap_or_else(|| Family {
                name: name.into(),
                ..Family::default()
            }));
            self.head_id = known.map(|(id, _)| id);
        }
        let Some(head) = &mut self.head else { return };
        let before = head.clone();
        match about {
            About::Help(help) => head.help = help.into(),
            About::Type(metric_type) => head.metric_type = metric_type,
            About::Unit(unit) => head.unit = unit.into(),
        }
        if let (Some(id), true) = (self.head_id, before != *head) {
            let head = head.clone();
            self.changed |= (id.0 as usize) < schema.families().len();
            self.known
                .insert(Arc::clone(&head.name), (id, head.metric_type));
            edit.get_or_insert_with(|| schema.edit()).family(head);
        }
    }

    /// Returns the name and type of a metric's family, if its head line was seen or it is known.
    pub(crate) fn find(&mut self, metric: &str, schema: &Schema) -> Option<(Arc<str>, MetricType)> {
        if let Some(head) = &self.head
            && belongs(metric, &head.name, head.metric_type)
        {
            return Some((Arc::clone(&head.name), head.metric_type));
        }
        self.index(schema);
        let exact = self.known.get_key_value(metric);
        let stripped = || {
            SUFFIXES.iter().find_map(|(suffix, types)| {
                let name = metric.strip_suffix(suffix)?;
                let found = self.known.get_key_value(name)?;
                types.contains(&found.1.1).then_some(found)
            })
        };
        let (name, (_, metric_type)) = exact.or_else(stripped)?;
        Some((Arc::clone(name), *metric_type))
    }

    /// Returns a metric's family, adding it if there is none.
    pub(crate) fn family_of(
        &mut self,
        metric: &str,
        schema: &Schema,
        edit: &mut Option<SchemaEdit>,
    ) -> FamilyId {
        let head = self
            .head
            .as_ref()
            .filter(|head| belongs(metric, &head.name, head.metric_type));
        if let (Some(_), Some(id)) = (head, self.head_id) {
            return id;
        }
        let (family, of_head) = match head {
            Some(head) => (head.clone(), true),
            None => match self.find(metric, schema) {
                Some((name, _)) => return self.known[&name].0,
                None => (
                    Family {
                        name: metric.into(),
                        ..Family::default()
                    },
                    false,
                ),
            },
        };
        let (name, metric_type) = (Arc::clone(&family.name), family.metric_type);
        let id = edit.get_or_insert_with(|| schema.edit()).family(family);
        self.known.insert(name, (id, metric_type));
        if of_head {
            self.head_id = Some(id);
        }
        id
    }

    fn index(&mut self, schema: &Schema) {
        if self.indexed {
            return;
        }
        self.indexed = true;
        for (at, family) in (0u32..).zip(schema.families()) {
            let entry = (FamilyId(at), family.metric_type);
            self.known.insert(Arc::clone(&family.name), entry);
        }
    }
}
