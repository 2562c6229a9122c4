//! Labels of the head's series.
//!
//! **Invariant:** with matchers an answer is exact for the strips that may have samples within the range. Without,
//! it comes from the postings if any strip may: it may then name labels of series outside the range.

use super::super::Head;
use super::{HeadSnapshot, STRIP_WORK, Visible, mark::is_listed};
use narthex_model::{
    ColumnId, LabelHash, LabelSet,
    bits::BitSet,
    storage::{
        CardinalityCount, Collector, Context, Lease, OverBudget, SeriesQuery, StorageError,
        TimeRange,
    },
};
use std::{borrow::Borrow, collections::HashSet, hash::Hash};

/// Visits labels and sets, until it fails.
type Visit<'v, T> = dyn FnMut(&T) -> Result<(), StorageError> + 'v;

impl Head {
    /// Adds the label names of the series that `query` selects.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub(crate) fn label_names(
        &self,
        snapshot: &HeadSnapshot,
        query: &SeriesQuery,
        ctx: &Context,
        names: &mut Collector<'_, String>,
    ) -> Result<(), StorageError> {
        let mut known = Known::new(ctx)?;
        let mut add = |name: &str| match known.insert(name, || name.to_owned())? {
            true => names.add(name.to_owned()),
            false => Ok(()),
        };
        let mut of_set = |set: &LabelSet| set.iter().try_for_each(|label| add(label.name()));
        if !query.any_of.is_empty() {
            return self.each_set(snapshot, query, ctx, &mut of_set);
        }
        if self.each_common(snapshot, query, ctx, &mut of_set)? {
            self.index().sets().names().try_for_each(add)?;
        }
        Ok(())
    }

    /// Adds the values of label `name` in the series that `query` selects.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub(crate) fn label_values(
        &self,
        name: &str,
        snapshot: &HeadSnapshot,
        query: &SeriesQuery,
        ctx: &Context,
        values: &mut Collector<'_, String>,
    ) -> Result<(), StorageError> {
        // Labels are interned: comparing identities is cheaper than ordering texts.
        let mut known = Known::new(ctx)?;
        let mut of_set = |set: &LabelSet| match set.label(name) {
            Some(label) if known.insert(label, || label.clone())? => {
                values.add(label.value().to_owned())
            }
            _ => Ok(()),
        };
        if !query.any_of.is_empty() {
            return self.each_set(snapshot, query, ctx, &mut of_set);
        }
        if self.each_common(snapshot, query, ctx, &mut of_set)? {
            let index = self.index();
            let mut all = index.sets().values(name);
            all.try_for_each(|label| values.add(label.value().to_owned()))?;
        }
        Ok(())
    }

    /// Counts all series that have samples, by their labels.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub(crate) fn count_series(
        &self,
        snapshot: &HeadSnapshot,
        ctx: &Context,
        count: &mut CardinalityCount,
    ) -> Result<(), StorageError> {
        let mut lease = ctx.budget.lease(0)?;
        let chosen = self.visible(snapshot, &[], TimeRange::ALL, ctx, &mut lease)?;
        let chosen: Vec<Visible> = chosen.collect::<Result<_, _>>()?;
        let index = self.index();
        let sets = index.sets().len();
        let _uses = ctx.budget.lease((sets * size_of::<u64>()) as u64)?;
        let mut uses: Vec<u64> = vec![0; sets];
        let mut shared: HashSet<LabelHash> = HashSet::new();
        let mut pace = ctx.stop.pace();
        for visible in &chosen {
            let common = &visible.strip.common;
            let set = |column| &visible.schema.column(ColumnId(column)).set;
            let sets = index.sets_of(visible.strip.id);
            let mut all = 0;
            let mut one = |column: u32, is_shared: bool| -> Result<(), StorageError> {
                pace.spend(8)?;
                if is_shared && !shared.insert(common.hash() + set(column).hash()) {
                    return Ok(());
                }
                all += 1;
                match sets {
                    Some(sets) => uses[sets[column as usize] as usize] += 1,
                    // A flush has just removed the strip; the view still sees it.
                    None => count.add(set(column), 1)?,
                }
                Ok(())
            };
            let (mut alone, mut mixed) = visible.parted_columns();
            alone.try_for_each(|column| one(*column, false))?;
            mixed.try_for_each(|column| one(*column, true))?;
            count.add(common, all)?;
            count.add_series(all);
        }
        for (id, uses) in (0..).zip(uses).filter(|(_, uses)| *uses > 0) {
            count.add(index.sets().set(id), uses)?;
        }
        Ok(())
    }

    /// Visits the common sets of strips that may have samples within the range; returns whether there are any.
    fn each_common(
        &self,
        snapshot: &HeadSnapshot,
        query: &SeriesQuery,
        ctx: &Context,
        visit: &mut Visit<'_, LabelSet>,
    ) -> Result<bool, StorageError> {
        ctx.stop.check()?;
        let strips = self.index().strips();
        let mut any = false;
        let mut pace = ctx.stop.pace();
        for (strip, own) in snapshot.each(&strips) {
            pace.spend(STRIP_WORK)?;
            let is_listed = own.is_some_and(|own| is_listed(strip, own, query.range));
            if is_listed {
                visit(&strip.common)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Visits each distinct set, common and local, of the series that match any of the alternatives.
    fn each_set(
        &self,
        snapshot: &HeadSnapshot,
        query: &SeriesQuery,
        ctx: &Context,
        visit: &mut Visit<'_, LabelSet>,
    ) -> Result<(), StorageError> {
        let mut lease = ctx.budget.lease(0)?;
        let mut chosen: Vec<Visible> = Vec::new();
        for matchers in &query.any_of {
            for visible in self.visible(snapshot, matchers, query.range, ctx, &mut lease)? {
                chosen.push(visible?);
            }
        }
        ctx.stop.check()?;
        let index = self.index();
        let mut locals = BitSet::new(index.sets().len());
        let mut pace = ctx.stop.pace();
        for visible in &chosen {
            pace.spend(STRIP_WORK)?;
            visit(&visible.strip.common)?;
            let sets = index.sets_of(visible.strip.id);
            for column in visible.columns() {
                match sets {
                    Some(sets) => locals.insert(sets[column as usize] as usize),
                    // A flush has just removed the strip; the view still sees it.
                    None => visit(&visible.schema.column(ColumnId(column)).set)?,
                }
            }
        }
        locals
            .iter()
            .try_for_each(|id| visit(index.sets().set(id as u32)))
    }
}

/// Distinct results so far, within the budget.
struct Known<T> {
    all: HashSet<T, foldhash::fast::RandomState>,
    lease: Lease,
}

impl<T: Eq + Hash> Known<T> {
    fn new(ctx: &Context) -> Result<Self, OverBudget> {
        Ok(Self {
            all: HashSet::default(),
            lease: ctx.budget.lease(0)?,
        })
    }

    /// Adds the owned form of `found` unless it is known; reports whether it was new.
    fn insert<Q: Eq + Hash + ?Sized>(
        &mut self,
        found: &Q,
        owned: impl FnOnce() -> T,
    ) -> Result<bool, OverBudget>
    where
        T: Borrow<Q>,
    {
        if self.all.contains(found) {
            return Ok(false);
        }
        if self.all.len() == self.all.capacity() {
            // The table doubles.
            let entries = self.all.len().max(64) as u64;
            self.lease.grow(2 * entries * (size_of::<T>() + 1) as u64)?;
        }
        self.all.insert(owned());
        Ok(true)
    }
}
