//! Answers that are kept, through the routes as they are served.

use super::*;
use narthex_model::{
    metadata::Family,
    storage::{
        Cardinality, Context, Listing, ListingMark, ListingOf, Marker, Prepared, Selector,
        SeriesQuery, StorageError, Store, TimeRange, View,
    },
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A store with a mark, which counts how often it is asked to list.
struct Marked {
    inner: MemStore,
    mark: AtomicU64,
    lists: AtomicU64,
    warns: AtomicU64,
}

struct MarkedView(Arc<Marked>, Arc<dyn View>);

struct Shared(Arc<Marked>);

impl Store for Shared {
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        let inner = self.0.inner.view(range)?;
        Ok(Arc::new(MarkedView(Arc::clone(&self.0), inner)))
    }

    fn listing_mark(
        &self,
        _: ListingOf<'_>,
        _: &SeriesQuery,
        _: &Context,
    ) -> Result<Option<ListingMark>, StorageError> {
        let mut marker = Marker::default();
        marker.add(self.0.mark.load(Relaxed));
        Ok(Some(marker.finish()))
    }

    fn time_range(&self) -> Option<TimeRange> {
        self.0.inner.time_range()
    }
}

impl MarkedView {
    fn listed(&self, ctx: &Context) -> &dyn View {
        self.0.lists.fetch_add(1, Relaxed);
        if self.0.warns.load(Relaxed) > 0 {
            ctx.warnings.note("a block cannot be read");
        }
        &*self.1
    }
}

impl View for MarkedView {
    fn prepare(
        &self,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        self.1.prepare(selectors, ctx)
    }

    fn label_names(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.listed(ctx).label_names(query, ctx)
    }

    fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.listed(ctx).label_values(name, query, ctx)
    }

    fn series(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<LabelSet>, StorageError> {
        self.listed(ctx).series(query, ctx)
    }

    fn cardinality(&self, limit: usize, ctx: &Context) -> Result<Cardinality, StorageError> {
        self.listed(ctx).cardinality(limit, ctx)
    }

    fn metadata(&self, metric: Option<&str>, ctx: &Context) -> Result<Vec<Family>, StorageError> {
        self.1.metadata(metric, ctx)
    }
}

fn marked(series: usize) -> (Served, Arc<Marked>) {
    let store = Arc::new(Marked {
        inner: MemStore::new(),
        mark: AtomicU64::new(0),
        lists: AtomicU64::new(0),
        warns: AtomicU64::new(0),
    });
    store.add(0..series);
    let served = served_from(256 << 20, Arc::new(Shared(Arc::clone(&store))), |_| {
        Arc::new(process::NoStatus)
    });
    (served, store)
}

impl Marked {
    fn add(&self, numbers: std::ops::Range<usize>) {
        let sample = |n: usize| {
            let labels = [("__name__", "x"), ("n", &*format!("{n:05}"))];
            SeriesSample::float(LabelSet::new(labels), 1000, 0.1)
        };
        let samples: Vec<SeriesSample> = numbers.map(sample).collect();
        self.inner.append_samples(&samples).unwrap();
    }

    fn lists(&self) -> u64 {
        self.lists.swap(0, Relaxed)
    }
}

async fn body(served: &Served, path: &str) -> String {
    let response = served.get(path).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    text(response).await
}

#[test]
fn what_is_asked_again_is_listed_anew_only_when_it_has_changed() {
    run(async {
        // Short answers, and long ones, which were written while they were sent.
        for series in [7, 20_000] {
            let (served, store) = marked(series);
            let used = served.budget.used_bytes();
            let paths = [
                "/api/v1/labels?",
                "/api/v1/label/n/values?",
                "/api/v1/label/n/values?match[]=x&",
                "/api/v1/series?match[]=x&",
                "/api/v1/status/tsdb?limit=3&",
            ];
            for path in paths {
                store.mark.fetch_add(1, Relaxed);
                let first = body(&served, path).await;
                assert_eq!(store.lists(), 1, "{path}");
                // Whatever the range is, as long as the store lists the same for it.
                for (lists, start) in [(1, 0), (0, 1), (0, 0)] {
                    let again = body(&served, &format!("{path}start={start}")).await;
                    assert_eq!(first, again);
                    assert_eq!(store.lists(), lists, "{path}, {start}");
                }
            }
            let few = body(&served, "/api/v1/labels?limit=1").await;
            assert!(few.contains("results truncated due to limit"));
            store.mark.fetch_add(1, Relaxed);
            store.add(series..series + 1);
            for path in paths {
                let new = format!("{series:05}");
                for _ in 0..3 {
                    let found = body(&served, path).await;
                    let is_listed = found.contains(&new) || path.contains("labels");
                    assert!(is_listed || path.contains("tsdb"), "{path}");
                }
            }
            assert!(served.budget.used_bytes() > used, "it is leased");
        }
    });
}

#[test]
fn an_answer_with_a_warning_is_not_kept() {
    run(async {
        let (served, store) = marked(10);
        store.warns.store(1, Relaxed);
        for _ in 0..4 {
            let found = body(&served, "/api/v1/label/n/values").await;
            assert!(found.contains("a block cannot be read"));
        }
        assert_eq!(store.lists(), 4);
        store.warns.store(0, Relaxed);
        for _ in 0..4 {
            let found = body(&served, "/api/v1/label/n/values").await;
            assert!(!found.contains("a block cannot be read"));
        }
        assert_eq!(store.lists(), 1);
    });
}
