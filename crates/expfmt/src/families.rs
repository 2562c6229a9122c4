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
    /// Families of earlier head lines that no series belongs to so far.
    declared: HashMap<Arc<str>, Family>,
    /// Families by name; filled on first use.
    known: HashMap<Arc<str>, (FamilyId, MetricType)>,
    /// Units of families, where head lines give any.
    units: HashMap<Arc<str>, Arc<str>>,
    indexed: bool,
    /// Whether a family of the schema got other metadata.
    pub(crate) changed: bool,
}

/// Most families that are remembered without a series: a page with more is no page of metrics.
const DECLARED: usize = 10_000;

/// Suffixes of series names, and the types whose families have them.
const SUFFIXES: [(&str, &[MetricType]); 8] = {
    use MetricType::{Counter, GaugeHistogram, Histogram, Info, Summary};
    [
        ("_bucket", &[Histogram, GaugeHistogram]),
        ("_sum", &[Histogram, GaugeHistogram, Summary]),
        ("_count", &[Histogram, GaugeHistogram, Summary]),
        ("_gsum", &[GaugeHistogram]),
        ("_gcount", &[GaugeHistogram]),
        ("_total", &[Counter]),
        ("_created", &[Counter, Histogram, Summary]),
        ("_info", &[Info]),
    ]
};

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
            let stored = stored.cloned().or_else(|| self.declared.remove(name));
            let head = stored.unwrap_or_else(|| Family {
                name: name.into(),
                ..Family::default()
            });
            self.put_aside();
            self.head = Some(head);
            self.head_id = known.map(|(id, _)| id);
        }
        let Some(head) = &mut self.head else { return };
        let before = head.clone();
        match about {
            About::Help(help) => head.help = help.into(),
            About::Type(metric_type) => head.metric_type = metric_type,
            About::Unit(unit) => {
                head.unit = unit.into();
                self.units
                    .insert(Arc::clone(&head.name), Arc::clone(&head.unit));
            }
        }
        if let (Some(id), true) = (self.head_id, before != *head) {
            let head = head.clone();
            self.changed |= (id.0 as usize) < schema.families().len();
            self.known
                .insert(Arc::clone(&head.name), (id, head.metric_type));
            edit.get_or_insert_with(|| schema.edit()).family(head);
        }
    }

    /// Remembers the last head line's family for series that come later than another head line.
    fn put_aside(&mut self) {
        if let (Some(head), None) = (self.head.take(), self.head_id)
            && self.declared.len() < DECLARED
        {
            self.declared.insert(Arc::clone(&head.name), head);
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
        let stripped = || {
            SUFFIXES.iter().find_map(|(suffix, types)| {
                let found = self.named(metric.strip_suffix(suffix)?)?;
                types.contains(&found.1).then_some(found)
            })
        };
        let (name, metric_type) = self.named(metric).or_else(stripped)?;
        Some((Arc::clone(name), metric_type))
    }

    /// Returns the type and the unit of a metric's family, unknown and empty where there is none.
    pub(crate) fn type_and_unit(
        &mut self,
        metric: &str,
        schema: &Schema,
    ) -> (MetricType, Arc<str>) {
        let Some((name, metric_type)) = self.find(metric, schema) else {
            return Default::default();
        };
        let stored = || {
            let (id, _) = self.known.get(&name)?;
            Some(Arc::clone(&schema.families().get(id.0 as usize)?.unit))
        };
        let unit = self.units.get(&name).cloned().or_else(stored);
        (metric_type, unit.unwrap_or_default())
    }

    /// Returns the family of this name.
    fn named(&self, name: &str) -> Option<(&Arc<str>, MetricType)> {
        if let Some((name, (_, metric_type))) = self.known.get_key_value(name) {
            return Some((name, *metric_type));
        }
        let (name, family) = self.declared.get_key_value(name)?;
        Some((name, family.metric_type))
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
            None => {
                let found = self.find(metric, schema).map(|(name, _)| name);
                let name = found.unwrap_or_else(|| metric.into());
                if let Some((id, _)) = self.known.get(&name) {
                    return *id;
                }
                let declared = self.declared.remove(&name);
                let family = declared.unwrap_or_else(|| Family {
                    name,
                    ..Family::default()
                });
                (family, false)
            }
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
