//! Which labels the head's series have.
//!
//! **Invariant:** with matchers an answer is exact for the strips that may have samples within the range. Without, it
//! comes from the postings once any strip may: it may then name labels of series outside the range.

use super::super::Head;
use super::{HeadPins, Visible, overlaps};
use narthex_model::{
    ColumnId, Label, LabelHash, LabelSet,
    bits::BitSet,
    storage::{CardinalityCount, Context, SeriesQuery, StopReason, TimeRange},
};
use std::collections::{BTreeSet, HashSet};

/// Values found, each once: labels are interned, so telling them apart is cheap.
type Labels = HashSet<Label, foldhash::fast::RandomState>;

impl Head {
    /// Adds the label names of the series that `query` selects.
    ///
    /// # Errors
    /// Fails when stopped.
    pub(crate) fn label_names(
        &self,
        pins: &HeadPins,
        query: &SeriesQuery,
        ctx: &Context,
        names: &mut BTreeSet<String>,
    ) -> Result<(), StopReason> {
        let mut add = |name: &str| {
            if !names.contains(name) {
                names.insert(name.to_owned());
            }
        };
        let mut of_set = |set: &LabelSet| set.iter().for_each(|label| add(label.name()));
        if !query.any_of.is_empty() {
            return self.each_set(pins, query, ctx, &mut of_set);
        }
        if self.each_common(pins, query, ctx, &mut of_set)? {
            self.index().sets().names().for_each(add);
        }
        Ok(())
    }

    /// Adds the values of label `name` in the series that `query` selects, some of them twice.
    ///
    /// # Errors
    /// Fails when stopped.
    pub(crate) fn label_values(
        &self,
        name: &str,
        pins: &HeadPins,
        query: &SeriesQuery,
        ctx: &Context,
        values: &mut Vec<String>,
    ) -> Result<(), StopReason> {
        let mut labels = Labels::default();
        let mut of_set = |set: &LabelSet| {
            if let Some(label) = set.label(name).filter(|label| !labels.contains(label)) {
                labels.insert(label.clone());
            }
        };
        if !query.any_of.is_empty() {
            self.each_set(pins, query, ctx, &mut of_set)?;
        } else if self.each_common(pins, query, ctx, &mut of_set)? {
            let index = self.index();
            values.extend(
                index
                    .sets()
                    .values(name)
                    .map(|label| label.value().to_owned()),
            );
        }
        values.extend(labels.iter().map(|label| label.value().to_owned()));
        Ok(())
    }

    /// Counts all series that have samples, by their labels.
    ///
    /// # Errors
    /// Fails when stopped.
    pub(crate) fn count_series(
        &self,
        pins: &HeadPins,
        ctx: &Context,
        count: &mut CardinalityCount,
    ) -> Result<(), StopReason> {
        let chosen = self.visible(pins, &[], TimeRange::ALL, ctx)?;
        let index = self.index();
        let mut uses: Vec<u64> = vec![0; index.sets().len()];
        let mut shared: HashSet<LabelHash> = HashSet::new();
        for visible in &chosen {
            let common = &visible.strip.common;
            let set = |column| &visible.schema.column(ColumnId(column)).set;
            let sets = index.sets_of(visible.strip.id);
            let mut all = 0;
            let mut one = |column: u32, is_shared: bool| {
                if is_shared && !shared.insert(common.hash() + set(column).hash()) {
                    return;
                }
                all += 1;
                match sets {
                    Some(sets) => uses[sets[column as usize] as usize] += 1,
                    // A flush has taken the strip away in this moment; the view still sees it.
                    None => count.add(set(column), 1),
                }
            };
            let alone = visible.rows_alone.iter().chain(&visible.loose_alone);
            alone.for_each(|column| one(*column, false));
            let mixed = visible.rows_mixed.iter().chain(&visible.loose_mixed);
            mixed.for_each(|column| one(*column, true));
            count.add(common, all);
            count.add_series(all);
        }
        for (id, uses) in (0..).zip(uses).filter(|(_, uses)| *uses > 0) {
            count.add(index.sets().set(id), uses);
        }
        Ok(())
    }

    /// Visits the common sets of strips that may have samples within the range; returns whether there is any.
    fn each_common(
        &self,
        pins: &HeadPins,
        query: &SeriesQuery,
        ctx: &Context,
        visit: &mut dyn FnMut(&LabelSet),
    ) -> Result<bool, StopReason> {
        ctx.stop.check()?;
        let strips = self.index().strips();
        let mut any = false;
        for strip in strips.iter() {
            if pins
                .get(strip.id)
                .is_some_and(|pin| overlaps(&strip.lock(), pin, query.range))
            {
                visit(&strip.common);
                any = true;
            }
        }
        Ok(any)
    }

    /// Visits each distinct set of the series that match any of the alternatives: common and local ones alike.
    fn each_set(
        &self,
        pins: &HeadPins,
        query: &SeriesQuery,
        ctx: &Context,
        visit: &mut dyn FnMut(&LabelSet),
    ) -> Result<(), StopReason> {
        let mut chosen: Vec<Visible> = Vec::new();
        for matchers in &query.any_of {
            chosen.extend(self.visible(pins, matchers, query.range, ctx)?);
        }
        ctx.stop.check()?;
        let index = self.index();
        let mut locals = BitSet::new(index.sets().len());
        for visible in &chosen {
            visit(&visible.strip.common);
            let sets = index.sets_of(visible.strip.id);
            for column in visible.columns() {
                match sets {
                    Some(sets) => locals.insert(sets[column as usize] as usize),
                    // A flush has taken the strip away in this moment; the view still sees it.
                    None => visit(&visible.schema.column(ColumnId(column)).set),
                }
            }
        }
        locals
            .iter()
            .for_each(|id| visit(index.sets().set(id as u32)));
        Ok(())
    }
}
