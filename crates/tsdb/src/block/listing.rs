//! Questions about a block's series rather than its samples.
//!
//! **Invariant:** without matchers an answer comes from the dictionary alone and may name labels of series outside
//! the range; with matchers it is exact for the strips that overlap it.

use super::format::SectionKind;
use super::reader::{Block, Section};
use super::select::Selection;
use narthex_model::storage::{Collector, Context, Lease, SeriesQuery, StorageError};
use narthex_model::{LabelSet, Matcher};
use roaring::RoaringBitmap;
use std::sync::Arc;

impl Block {
    /// Adds the label names of the series that `query` selects.
    ///
    /// # Errors
    /// Fails when a part of the index is damaged, over budget, or when stopped.
    pub fn label_names(
        self: &Arc<Self>,
        query: &SeriesQuery,
        ctx: &Context,
        names: &mut Collector<'_, String>,
    ) -> Result<(), StorageError> {
        let (section, _lease) = self.leased_dictionary(ctx)?;
        let dictionary = self.dictionary_of(&section)?;
        let malformed = |bad| StorageError::from(self.malformed(&section, &bad));
        if query.any_of.is_empty() {
            for name in dictionary.names() {
                names.add(name.map_err(malformed)?.text.to_owned())?;
            }
            return Ok(());
        }
        let mut pairs = self.pairs(query, ctx)?;
        while let Some(pair) = pairs.min() {
            let name = dictionary.name_of(pair).map_err(malformed)?;
            names.add(name.text.to_owned())?;
            pairs.remove_range(name.ids());
        }
        Ok(())
    }

    /// Adds the values of label `name` in the series that `query` selects, each once.
    ///
    /// # Errors
    /// Fails when a part of the index is damaged, over budget, or when stopped.
    pub fn label_values(
        self: &Arc<Self>,
        name: &str,
        query: &SeriesQuery,
        ctx: &Context,
        values: &mut Collector<'_, String>,
    ) -> Result<(), StorageError> {
        let (section, _lease) = self.leased_dictionary(ctx)?;
        let dictionary = self.dictionary_of(&section)?;
        let malformed = |bad| StorageError::from(self.malformed(&section, &bad));
        let Some(name) = dictionary.name(name).map_err(malformed)? else {
            return Ok(());
        };
        let mut failed = None;
        if query.any_of.is_empty() {
            let read = name.values(&mut |_, value| {
                failed = values.add(value.to_owned()).err();
                failed.is_none()
            });
            return failed.map_or(read.map_err(malformed), Err);
        }
        let mut pairs = self.pairs(query, ctx)?;
        pairs.remove_range(..name.ids().start);
        pairs.remove_range(name.ids().end..);
        let read = dictionary.each(&pairs, &mut |_, _, value| {
            // The callback cannot return an error: keep the first and ignore the rest.
            if failed.is_none() {
                failed = values.add(value.to_owned()).err();
            }
        });
        failed.map_or(read.map_err(malformed), Err)
    }

    /// Adds the series that `query` selects, possibly with duplicates.
    ///
    /// # Errors
    /// Fails when a part of the index is damaged, over budget, or when stopped.
    pub fn series(
        self: &Arc<Self>,
        query: &SeriesQuery,
        ctx: &Context,
        series: &mut Collector<'_, LabelSet>,
    ) -> Result<(), StorageError> {
        self.each_selection(query, ctx, |selection| {
            for strip in selection.strips() {
                ctx.stop.check()?;
                for at in 0..strip.columns.columns.len() {
                    let identity = strip.common().hash() + strip.columns.hashes[at];
                    series.add_once(identity, || {
                        let local = strip.columns.labels(at, self, selection.index());
                        strip.common().union(local)
                    })?;
                }
            }
            Ok(())
        })
    }

    /// Returns the dictionary, and a lease of it unless the cache keeps it: most questions need no other section.
    fn leased_dictionary(&self, ctx: &Context) -> Result<(Section, Lease), StorageError> {
        let kind = SectionKind::Dictionary;
        let lease = self.lease_sections(&[kind], ctx)?;
        Ok((self.section(kind)?, lease))
    }

    /// Returns the label pairs of the series that `query` selects.
    fn pairs(
        self: &Arc<Self>,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<RoaringBitmap, StorageError> {
        let mut sets = RoaringBitmap::new();
        self.each_selection(query, ctx, |selection| {
            for strip in selection.strips() {
                sets.insert(strip.known.common);
                sets.extend(&strip.columns.sets);
            }
            Ok(())
        })?;
        let (index, _lease) = self.leased_index(ctx)?;
        let mut pairs = RoaringBitmap::new();
        self.sets(&index)?
            .each(&sets, &mut |_, found| pairs.extend(found))
            .map_err(|bad| self.malformed(&index.sets, &bad))?;
        Ok(pairs)
    }

    fn each_selection(
        self: &Arc<Self>,
        query: &SeriesQuery,
        ctx: &Context,
        mut take: impl FnMut(&Selection) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let every: [Vec<Matcher>; 1] = [Vec::new()];
        let any_of: &[Vec<Matcher>] = if query.any_of.is_empty() {
            &every
        } else {
            &query.any_of
        };
        for matchers in any_of {
            let found = self.find(matchers, query.range, true, ctx)?;
            take(&found.select_labels(ctx)?)?;
        }
        Ok(())
    }
}
