//! Which recorded metrics anybody reads: a store that notes the names that queries and rules select.
//!
//! A selector that names one metric costs one look-up; any other is compared with every recorded name that is not known
//! to be read yet.
//!
//! **Invariant:** a name that a query or a rule may have selected since it was recorded counts as read.

use narthex_model::{
    Family, LabelSet, METRIC_NAME, MatchOp, Matcher,
    storage::{
        Cardinality, Context, ExemplarSeries, Listing, ListingMark, ListingOf, Prepared, Selector,
        SeriesQuery, StorageError, Store, TimeRange, View, WriteMark,
    },
    sync::Whole as _,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// Recorded names, and whether anybody read them.
#[derive(Debug, Default)]
pub(crate) struct Reads(RwLock<HashMap<String, AtomicBool>>);

impl Reads {
    /// Notes reads of `names` from here on; what is known of those that stay is kept.
    pub(super) fn follow<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut known = self.0.write().whole();
        let entry = |name: &str| {
            let was_read = known
                .get(name)
                .is_some_and(|read| read.load(Ordering::Relaxed));
            (name.to_owned(), AtomicBool::new(was_read))
        };
        let next = names.map(entry).collect();
        *known = next;
    }

    /// Reports whether anybody read `name`.
    pub(crate) fn was_read(&self, name: &str) -> bool {
        let known = self.0.read().whole();
        known
            .get(name)
            .is_some_and(|read| read.load(Ordering::Relaxed))
    }

    fn note(&self, matchers: &[Matcher]) {
        let known = self.0.read().whole();
        let of_name = || matchers.iter().filter(|one| &*one.name == METRIC_NAME);
        if let Some(named) = of_name().find(|one| one.op == MatchOp::Equal) {
            if let Some(read) = known.get(&*named.value) {
                read.store(true, Ordering::Relaxed);
            }
            return;
        }
        for (name, read) in &*known {
            if !read.load(Ordering::Relaxed) && of_name().all(|one| one.matches(name)) {
                read.store(true, Ordering::Relaxed);
            }
        }
    }

    fn note_all(&self, selectors: &[Selector]) {
        for selector in selectors {
            self.note(&selector.matchers);
        }
    }
}

/// A store whose readers are noted.
pub(crate) struct NotedStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) reads: Arc<Reads>,
}

struct NotedView {
    view: Arc<dyn View>,
    reads: Arc<Reads>,
}

impl Store for NotedStore {
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        Ok(Arc::new(NotedView {
            view: self.store.view(range)?,
            reads: Arc::clone(&self.reads),
        }))
    }

    fn prepare(
        &self,
        range: TimeRange,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        self.reads.note_all(selectors);
        self.store.prepare(range, selectors, ctx)
    }

    fn listing_mark(
        &self,
        of: ListingOf<'_>,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Option<ListingMark>, StorageError> {
        self.store.listing_mark(of, query, ctx)
    }

    fn write_mark(&self) -> Option<WriteMark> {
        self.store.write_mark()
    }

    fn unchanged_before(&self, mark: WriteMark) -> Option<i64> {
        self.store.unchanged_before(mark)
    }

    fn time_range(&self) -> Option<TimeRange> {
        self.store.time_range()
    }
}

/// Samples are read through `prepare` alone; lists of labels and series read none.
impl View for NotedView {
    fn prepare(
        &self,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        self.reads.note_all(selectors);
        self.view.prepare(selectors, ctx)
    }

    fn label_names(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.view.label_names(query, ctx)
    }

    fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.view.label_values(name, query, ctx)
    }

    fn series(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<LabelSet>, StorageError> {
        self.view.series(query, ctx)
    }

    fn cardinality(&self, limit: usize, ctx: &Context) -> Result<Cardinality, StorageError> {
        self.view.cardinality(limit, ctx)
    }

    fn metadata(&self, metric: Option<&str>, ctx: &Context) -> Result<Vec<Family>, StorageError> {
        self.view.metadata(metric, ctx)
    }

    fn exemplars(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Vec<ExemplarSeries>, StorageError> {
        self.view.exemplars(query, ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::MemStore;

    #[test]
    fn selected_names_count_as_read() {
        let reads = Arc::new(Reads::default());
        reads.follow(["a", "b", "c", "d"].into_iter());
        let store = NotedStore {
            store: Arc::new(MemStore::new()),
            reads: Arc::clone(&reads),
        };
        let selector = |op, value: &str| {
            let matcher = Matcher::new(op, METRIC_NAME, value).unwrap();
            Selector::new(vec![matcher], TimeRange::ALL)
        };
        let ctx = Context::unlimited();
        let read = || ["a", "b", "c", "d"].map(|name| reads.was_read(name));
        let one = [selector(MatchOp::Equal, "a"), selector(MatchOp::Equal, "x")];
        drop(store.prepare(TimeRange::ALL, &one, &ctx).unwrap());
        assert_eq!(read(), [true, false, false, false]);
        let some = [selector(MatchOp::Regex, "b|e.*")];
        let view = store.view(TimeRange::ALL).unwrap();
        assert_eq!(read(), [true, false, false, false]);
        drop(view.prepare(&some, &ctx).unwrap());
        assert_eq!(read(), [true, true, false, false]);
        reads.follow(["b", "c"].into_iter());
        assert_eq!(read(), [false, true, false, false]);
        let any = [Selector::new(Vec::new(), TimeRange::ALL)];
        drop(store.prepare(TimeRange::ALL, &any, &ctx).unwrap());
        assert_eq!(read(), [false, true, true, false]);
    }
}
