//! Destination of one walk over one body, in any format.
//!
//! **Invariant:** the origin's schema does not change before the walk has succeeded: new series are appended to an
//! edit that is dropped on failure.

use crate::{
    cells::{Cells, HIDDEN, OVER, REFUSED, SKIP},
    error::{ParseError, ParseErrorKind},
    exemplars::ExemplarCache,
    families::{About, Families},
    groups::{GroupId, Groups, Part},
    number,
    resolve::Resolver,
    round::{MoreSample, ParseOptions, RoundStats},
};
use hashbrown::HashTable;
use narthex_model::{
    ColumnId, Exemplar, Histogram, Label, LabelSet, METRIC_NAME, MetricType, Schema, SchemaEdit,
    bits::BitSet,
};
use std::{cell::Cell, sync::Arc};

/// Labels of a series' type and unit.
const METRIC_TYPE: &str = "__type__";
const METRIC_UNIT: &str = "__unit__";

/// The parts of an origin that a walk needs, and the data it collects.
pub(crate) struct BodyBuilder<'a> {
    pub(crate) options: ParseOptions,
    resolver: &'a mut dyn Resolver,
    pub(crate) schema: &'a Schema,
    /// Labels of the common set that every line has.
    in_lines: &'a LabelSet,
    /// Columns by local set; built on demand.
    columns: &'a mut Option<HashTable<u32>>,
    pub(crate) cells: &'a mut Cells,
    pub(crate) groups: &'a mut Groups,
    pub(crate) exemplar_cache: &'a mut ExemplarCache,
    pub(crate) families: Families,
    pub(crate) collected: Collected,
    /// Columns appended in this walk, by local set.
    appended: Vec<LabelSet>,
    /// Labels without a value of the current series.
    pub(crate) blank: Vec<Label>,
    /// Probable position of the next family's unit.
    unit_place: Cell<usize>,
    pub(crate) stats: RoundStats,
}

/// Data that a walk collected beside the cells.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) edit: Option<SchemaEdit>,
    pub(crate) times_ms: Vec<(ColumnId, i64)>,
    pub(crate) exemplars: Vec<(ColumnId, Exemplar)>,
    pub(crate) starts: Vec<(ColumnId, i64)>,
    pub(crate) histograms: Vec<(ColumnId, Arc<Histogram>)>,
    pub(crate) more: Vec<MoreSample>,
    pub(crate) too_many_buckets: bool,
}

impl<'a> BodyBuilder<'a> {
    pub(crate) fn new(
        options: ParseOptions,
        (schema, in_lines): (&'a Schema, &'a LabelSet),
        resolver: &'a mut dyn Resolver,
        columns: &'a mut Option<HashTable<u32>>,
        cells: &'a mut Cells,
        groups: &'a mut Groups,
        exemplar_cache: &'a mut ExemplarCache,
    ) -> Self {
        cells.restart(schema.len());
        groups.changed = false;
        Self {
            options,
            resolver,
            schema,
            in_lines,
            columns,
            cells,
            groups,
            exemplar_cache,
            families: Families::default(),
            collected: Collected::default(),
            appended: Vec::new(),
            blank: Vec::new(),
            unit_place: Cell::new(0),
            stats: RoundStats::default(),
        }
    }

    /// Applies a family's metadata from a line or message.
    pub(crate) fn about(&mut self, name: &str, about: About) {
        self.families
            .about(name, about, self.schema, &mut self.collected.edit);
    }

    /// Returns whether the family of a series is known or was declared.
    pub(crate) fn knows_family_of(&mut self, parsed: &LabelSet) -> bool {
        let found = self.families.find(parsed.metric_name(), self.schema);
        found.is_some()
    }

    /// Stores a value with its own time, if that is to be honoured.
    pub(crate) fn put_at(&mut self, target: u32, value: f64, time_ms: Option<i64>) {
        let is_first = self.cells.insert(target, value);
        self.at(target, value, is_first, time_ms);
    }

    /// Sets the time of the sample just stored, if it is to be honoured.
    pub(crate) fn at(&mut self, target: u32, value: f64, is_first: bool, time_ms: Option<i64>) {
        let Some(time_ms) = time_ms.filter(|_| self.options.honor_timestamps) else {
            return;
        };
        if let Some(column) = self.groups.histogram_of(target) {
            self.collected.times_ms.push((column, time_ms));
        }
        if is_first {
            self.collected.times_ms.push((ColumnId(target), time_ms));
        } else if target < HIDDEN {
            self.cells.counts.repeated -= 1;
            self.collected.more.push(MoreSample {
                column: ColumnId(target),
                time_ms,
                value,
            });
        }
    }

    /// Attaches an exemplar to the sample of a target, or to the histogram the line is part of.
    pub(crate) fn exemplar(
        &mut self,
        target: u32,
        bytes: &[u8],
        read: impl FnOnce() -> Result<Exemplar, ParseError>,
    ) -> Result<(), ParseError> {
        if matches!(target, SKIP | OVER | REFUSED) {
            return read().map(|_| ());
        }
        let exemplar = self.exemplar_cache.get(u64::from(target), bytes, read)?;
        match self.groups.histogram_of(target) {
            // A native histogram's exemplars are distinguished by their times.
            Some(column) if exemplar.time_ms.is_some() => {
                self.collected.exemplars.push((column, exemplar));
            }
            None if target < HIDDEN => self.collected.exemplars.push((ColumnId(target), exemplar)),
            _ => {}
        }
        Ok(())
    }

    /// Attaches an exemplar of a native histogram, unless it lacks the time that distinguishes it from others.
    pub(crate) fn timed_exemplar(
        &mut self,
        target: u32,
        slot: u16,
        bytes: &[u8],
        read: impl FnOnce() -> Result<Exemplar, ParseError>,
    ) -> Result<(), ParseError> {
        let key = u64::from(target) | (1 + u64::from(slot)) << 32;
        let exemplar = self.exemplar_cache.get(key, bytes, read)?;
        if target < HIDDEN && exemplar.time_ms.is_some() {
            self.collected.exemplars.push((ColumnId(target), exemplar));
        }
        Ok(())
    }

    /// Applies a family's unit, if it differs from the known one.
    pub(crate) fn unit(&mut self, name: &str, unit: &str) {
        let known = self.unit_of(name);
        if known != Some(unit) {
            self.about(name, About::Unit(unit.to_owned()));
        }
    }

    fn unit_of(&self, name: &str) -> Option<&str> {
        let families = self.schema.families();
        // Families usually keep their order: try the position after the last one first.
        let at = self.unit_place.get();
        let found = families
            .get(at)
            .filter(|family| *family.name == *name)
            .map(|family| (at, family))
            .or_else(|| {
                families
                    .iter()
                    .enumerate()
                    .find(|(_, family)| *family.name == *name)
            })?;
        self.unit_place.set(found.0 + 1);
        Some(&found.1.unit)
    }

    /// Sets a native histogram.
    pub(crate) fn histogram(&mut self, target: u32, histogram: Histogram) -> bool {
        let is_first = self.cells.insert(target, 0.0);
        if is_first {
            self.collected
                .histograms
                .push((ColumnId(target), Arc::new(histogram)));
        }
        is_first
    }

    /// Returns a line's labels without those that every line has; `None` if it lacks one of them.
    pub(crate) fn own_labels<'l>(
        &self,
        labels: impl Iterator<Item = &'l Label>,
    ) -> Option<LabelSet> {
        let mut found = 0;
        let own = labels.filter(|label| {
            let is_common = self.in_lines.iter().any(|common| common == *label);
            found += usize::from(is_common);
            !is_common
        });
        let own = LabelSet::from_labels(own.cloned());
        (found == self.in_lines.len()).then_some(own)
    }

    /// Returns the target of a parsed series, appending a column when it is new.
    ///
    /// # Errors
    /// Returns the reason the body is refused.
    pub(crate) fn target_of(&mut self, parsed: &LabelSet) -> Result<u32, String> {
        let metric = parsed.metric_name();
        let special = self.options.custom_buckets || self.options.start_times;
        let bounded = ["le", "quantile"].map(|name| parsed.get(name));
        if !special && bounded == [None, None] {
            return self.column(parsed);
        }
        let Some((family, metric_type)) = self.families.find(metric, self.schema) else {
            return self.column(parsed);
        };
        let parsed = normalized(parsed, metric_type);
        if !special {
            return self.column(&parsed);
        }
        self.part_of_a_group(&parsed, &family, metric_type)
    }

    /// Returns the target of a series that may be part of a group.
    fn part_of_a_group(
        &mut self,
        parsed: &LabelSet,
        family: &str,
        metric_type: MetricType,
    ) -> Result<u32, String> {
        let Some(suffix) = parsed.metric_name().strip_prefix(family) else {
            return self.column(parsed);
        };
        let bound = parsed.get("le").and_then(|le| number::read(le.as_bytes()));
        let part = match (metric_type, suffix, bound) {
            (MetricType::Histogram, "_count", _) => Some(Part::Count),
            (MetricType::Histogram, "_sum", _) => Some(Part::Sum),
            (MetricType::Histogram, "_bucket", Some(bound)) if !bound.is_nan() => {
                Some(Part::Bucket(bound))
            }
            _ => None,
        };
        let labels = group_labels(parsed, family, metric_type);
        let starts = self.options.start_times
            && matches!(
                metric_type,
                MetricType::Counter | MetricType::Histogram | MetricType::Summary
            );
        if starts && suffix == "_created" {
            let (group, _) = self.groups.group_for(&labels);
            return Ok(self.hidden_part(group, Part::Created));
        }
        let target = match part {
            Some(part) if self.options.custom_buckets => {
                self.histogram_part(&labels, parsed, part)?
            }
            _ => self.column(parsed)?,
        };
        if starts && target < HIDDEN {
            let (group, _) = self.groups.group_for(&labels);
            self.groups.add_member(group, ColumnId(target));
        }
        Ok(target)
    }

    /// Returns the target of a line that is part of a classic histogram to be converted.
    fn histogram_part(
        &mut self,
        labels: &LabelSet,
        parsed: &LabelSet,
        part: Part,
    ) -> Result<u32, String> {
        let (group, _) = self.groups.group_for(labels);
        let unmade = [Part::Count, Part::Sum]
            .iter()
            .all(|part| self.groups.target(group, *part).is_none());
        if unmade && self.groups.has_no_buckets(group) {
            let target = self.column(labels)?;
            let column = (target < HIDDEN).then_some(ColumnId(target));
            self.groups.set_histogram(group, column);
        }
        if !self.options.classic_histograms {
            return Ok(self.hidden_part(group, part));
        }
        let target = self.column(parsed)?;
        if target >= HIDDEN {
            return Ok(self.hidden_part(group, part));
        }
        if self.groups.target(group, part).is_none() {
            self.groups.set_target(group, part, target);
        }
        Ok(target)
    }

    fn hidden_part(&mut self, group: GroupId, part: Part) -> u32 {
        if let Some(known) = self.groups.target(group, part) {
            return known;
        }
        let target = self.cells.hide();
        self.groups.set_target(group, part, target);
        target
    }

    /// Requests room for `more` additional lines.
    pub(crate) fn room_for_lines(&mut self, more: usize) -> Result<(), String> {
        self.resolver.room_for_lines(self.stats.lines + more)
    }

    /// Returns the column of a series after resolving, appending one when it is new.
    pub(crate) fn column(&mut self, parsed: &LabelSet) -> Result<u32, String> {
        let typed = self
            .options
            .type_and_unit_labels
            .then(|| self.with_type_and_unit(parsed));
        let resolved = self.resolver.resolve_beside(
            typed.as_ref().unwrap_or(parsed),
            &self.blank,
            self.schema.common(),
        );
        let resolved = resolved.inspect_err(|_| {
            // A refused sample counts as scraped.
            self.cells.counts.skipped += 1;
        });
        let Some(local) = resolved? else {
            return Ok(SKIP);
        };
        let hash = local.hash().low();
        let columns = self
            .columns
            .get_or_insert_with(|| column_table(self.schema));
        let same = |at: &u32| *set_of(self.schema, &self.appended, *at) == local;
        if let Some(found) = columns.find(hash, same) {
            return Ok(*found);
        }
        let limit = self.options.sample_limit;
        if limit > 0 && self.appended.len() >= limit {
            return Ok(OVER);
        }
        let admitted = self.resolver.admit().inspect_err(|_| {
            self.cells.counts.skipped += 1;
        });
        if !admitted? {
            return Ok(REFUSED);
        }
        let family =
            self.families
                .family_of(parsed.metric_name(), self.schema, &mut self.collected.edit);
        let edit = self
            .collected
            .edit
            .get_or_insert_with(|| self.schema.edit());
        let column = edit.push(&local, family);
        self.appended.push(local);
        let rehash = |at: &u32| set_of(self.schema, &self.appended, *at).hash().low();
        columns.insert_unique(hash, column.0, rehash);
        self.cells.grow(column.index() + 1);
        self.stats.added += 1;
        Ok(column.0)
    }

    /// Returns labels with the type and the unit of their family, where these are known.
    ///
    /// A series keeps what it had when it was first seen, as Prometheus' cache of series does.
    fn with_type_and_unit(&mut self, parsed: &LabelSet) -> LabelSet {
        let families = &mut self.families;
        let (metric_type, unit) = families.type_and_unit(parsed.metric_name(), self.schema);
        let mut labels = parsed.to_builder();
        if metric_type != MetricType::Unknown {
            labels.set(METRIC_TYPE, metric_type.as_str());
        }
        if !unit.is_empty() {
            labels.set(METRIC_UNIT, &unit);
        }
        labels.finish()
    }

    /// Ends the walk: converts the groups' lines and enforces the limits.
    ///
    /// # Errors
    /// Fails when a limit is exceeded.
    pub(crate) fn finish(&mut self) -> Result<(), ParseErrorKind> {
        if !self.groups.is_empty() {
            let made = self.groups.make(self.cells, &self.options);
            for (column, histogram) in made.histograms {
                self.histogram(column.0, histogram);
            }
            self.collected.starts.extend(made.starts);
            self.stats.converted = made.converted;
            self.collected.too_many_buckets |= made.too_many_buckets;
        }
        self.count();
        // Samples of one series are in order of time.
        self.collected
            .exemplars
            .sort_by_key(|(column, exemplar)| (*column, exemplar.time_ms));
        let limit = self.options.sample_limit;
        let kept = self.stats.kept() - self.stats.repeated;
        if limit > 0 && kept > limit {
            return Err(ParseErrorKind::SampleLimit);
        }
        if self.collected.too_many_buckets {
            return Err(ParseErrorKind::BucketLimit);
        }
        Ok(())
    }

    /// Reports whether the body has mostly new series, and lacks most of the `came` series of the previous one, if
    /// those are at least `least`.
    pub(crate) fn replaces(&self, came: &BitSet, least: usize) -> bool {
        let before = came.count();
        if before < least || self.stats.added * 2 < self.cells.present.count() {
            return false;
        }
        came.difference(&self.cells.present).count() * 2 > before
    }

    /// Completes the counts, of a whole body or of the part before an error.
    pub(crate) fn count(&mut self) {
        let counts = self.cells.counts;
        self.stats.dropped = counts.skipped;
        self.stats.repeated = counts.repeated;
        self.stats.refused = counts.refused;
        self.stats.consumed = counts.consumed;
    }
}

/// Returns the labels with `le` and `quantile` in their canonical spelling.
fn normalized(parsed: &LabelSet, metric_type: MetricType) -> LabelSet {
    let name = match metric_type {
        MetricType::Histogram => "le",
        MetricType::Summary => "quantile",
        _ => return parsed.clone(),
    };
    match parsed.get(name).and_then(number::canonical_bound) {
        Some(canonical) => parsed.with(name, &canonical),
        None => parsed.clone(),
    }
}

/// Returns the labels common to all series of a group, including its family's name.
fn group_labels(parsed: &LabelSet, family: &str, metric_type: MetricType) -> LabelSet {
    let mut labels = parsed.to_builder();
    labels.set(METRIC_NAME, family);
    match metric_type {
        MetricType::Histogram => labels.remove("le"),
        MetricType::Summary => labels.remove("quantile"),
        _ => &mut labels,
    };
    labels.finish()
}

/// Returns the local set of a column, of the schema or appended in this walk.
fn set_of<'a>(schema: &'a Schema, appended: &'a [LabelSet], at: u32) -> &'a LabelSet {
    match (at as usize).checked_sub(schema.len()) {
        None => &schema.column(ColumnId(at)).set,
        Some(at) => &appended[at],
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
