//! The newest samples of many sources on one page.
//!
//! [`Exposition::sink`] passes rounds on and keeps the newest of each source; [`Exposition::render`] writes them all, families
//! merged. A source is a binding: what is dropped, or silent for five minutes, is not shown.
//!
//! **Invariant:** rendering never makes a source wait, and a source that gets no memory here is stored nevertheless.

mod page;
mod plan;
#[cfg(test)]
mod tests;

use crate::Negotiated;
use narthex_client::{GaugeVec, Registry};
use narthex_model::{
    ColumnId, Frame, Schema,
    storage::{
        Binding, Budget, Lease, Outcome, OverBudget, SeriesSample, Sink, StorageError, SyncToken,
    },
    sync::{Renew as _, Whole as _},
};
use page::Pages;
use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Age from which a sample, or a source, is not shown: the time that a query looks back by default.
const STALE_MS: i64 = 300_000;

static LEFT_OUT: GaugeVec<1> = GaugeVec::new(
    "narthex_exposition_left_out_series",
    "Series of sources that the last page of all sources lacked, by reason.",
    &["reason"],
);
static SOURCES: GaugeVec<1> = GaugeVec::new(
    "narthex_exposition_sources",
    "Sources that a page of all sources may show, by whether there is memory for their newest samples.",
    &["kept"],
);

/// Registers the metrics about pages of all sources.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[&LEFT_OUT, &SOURCES])
}

/// The newest samples of all sources that write to its sinks.
#[derive(Clone)]
pub struct Exposition(Arc<Shared>);

struct Shared {
    /// In the order in which they were bound.
    sources: Mutex<BTreeMap<u64, Arc<Source>>>,
    next_id: AtomicU64,
    pages: Mutex<Pages>,
    memory: ExpositionMemory,
}

/// Budgets of an exposition.
#[derive(Clone, Debug)]
pub struct ExpositionMemory {
    /// For what is kept of sources between pages.
    pub kept: Budget,
    /// For pages.
    pub pages: Budget,
}

/// What is kept of one source.
#[derive(Default)]
struct Source {
    newest: Mutex<Option<(Arc<Frame>, Lease)>>,
}

impl Exposition {
    /// Returns an exposition without sources.
    #[must_use]
    pub fn new(memory: ExpositionMemory) -> Self {
        Self(Arc::new(Shared {
            sources: Mutex::default(),
            next_id: AtomicU64::new(1),
            pages: Mutex::new(Pages::new(memory.clone())),
            memory,
        }))
    }

    /// Returns a sink that keeps the newest round of each binding and passes everything on to `inner`.
    ///
    /// Single samples are passed on only.
    #[must_use]
    pub fn sink(&self, inner: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(ExposedSink {
            shared: Arc::clone(&self.0),
            inner,
        })
    }

    /// Writes what is known at `now_ms`, after `own` if there is such a frame; the lease is that of the page.
    ///
    /// Families are ordered by name, their samples by the labels of their source. Of samples of one series that several
    /// sources have, the newest is written. A family has one type: where sources disagree, it is unknown, or, if
    /// metrics of several series are among them, that of the first source, and the others' samples are left out.
    ///
    /// # Errors
    /// Fails when there is no memory for the page.
    pub fn render(
        &self,
        style: Negotiated,
        own: Option<Frame>,
        now_ms: i64,
    ) -> Result<(Vec<u8>, Lease), OverBudget> {
        let sources = self.0.sources.lock().whole();
        let of = |(id, source): (&u64, &Arc<Source>)| {
            let newest = source.newest.lock();
            let frame = newest
                .whole()
                .as_ref()
                .map(|(frame, _)| Arc::clone(frame))?;
            Some((*id, frame))
        };
        let mut frames: Vec<(u64, Arc<Frame>)> = sources.iter().filter_map(of).collect();
        count_sources(frames.len(), sources.len());
        drop(sources);
        frames.retain(|(_, frame)| frame.time_ms() > now_ms.saturating_sub(STALE_MS));
        frames.sort_by_cached_key(|(id, frame)| (frame.schema().common().clone(), *id));
        if let Some(own) = own {
            frames.insert(0, (0, Arc::new(own)));
        }
        let renew = |_: &Pages| Pages::new(self.0.memory.clone());
        let mut pages = self.0.pages.lock_or_renew(renew);
        pages.render(style, frames)
    }
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.0.sources.lock().whole().len();
        f.debug_struct("Exposition")
            .field("sources", &sources)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn count_sources(kept: usize, all: usize) {
    SOURCES.with(&["true"]).set(kept as f64);
    SOURCES
        .with(&["false"])
        .set(all.saturating_sub(kept) as f64);
}

struct ExposedSink {
    shared: Arc<Shared>,
    inner: Arc<dyn Sink>,
}

struct ExposedBinding {
    shared: Arc<Shared>,
    id: u64,
    source: Arc<Source>,
    inner: Box<dyn Binding>,
}

impl Sink for ExposedSink {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        let inner = self.inner.bind(schema)?;
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let source = Arc::<Source>::default();
        let mut sources = self.shared.sources.lock().whole();
        sources.insert(id, Arc::clone(&source));
        drop(sources);
        Ok(Box::new(ExposedBinding {
            shared: Arc::clone(&self.shared),
            id,
            source,
            inner,
        }))
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        self.inner.append_samples(samples)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        self.inner.sync(token)
    }
}

impl Binding for ExposedBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.inner.rebind(schema)
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        self.source.keep(frame, &self.shared.memory.kept);
        self.inner.append(frame)
    }
}

impl Drop for ExposedBinding {
    fn drop(&mut self) {
        self.shared.sources.lock().whole().remove(&self.id);
    }
}

impl Source {
    /// Makes a round the newest; without memory for it there is none.
    fn keep(&self, frame: &Frame, budget: &Budget) {
        let mut newest = self.newest.lock().whole();
        let (before, lease) = newest.take().unzip();
        let bytes = frame_bytes(frame);
        let leased = match lease {
            Some(mut lease) => lease.resize(bytes).map(|()| lease),
            None => budget.lease(bytes),
        };
        let Ok(lease) = leased else { return };
        let frame = match before {
            Some(before) => with_timed(frame, &before),
            None => frame.clone(),
        };
        *newest = Some((Arc::new(frame), lease));
    }
}

/// Bytes of a histogram or an exemplar, about.
const WIDE_BYTES: usize = 400;

fn frame_bytes(frame: &Frame) -> u64 {
    let cells = frame.values().len() * 9 + frame.times_ms().len() * 8;
    let others = frame.histograms().len() + frame.exemplars().len();
    (cells + others * WIDE_BYTES) as u64
}

/// Returns a round with those samples of the round before it that had a time of their own and are not in it: such series
/// end without a marker, and a group's are not repeated.
fn with_timed(frame: &Frame, before: &Frame) -> Frame {
    let mut next = frame.clone();
    let is_same = before.schema().lineage() == frame.schema().lineage();
    if before.times_ms().is_empty() || !is_same {
        return next;
    }
    let ended: HashSet<ColumnId> = frame.stale().iter().copied().collect();
    let gone = before.present().difference(frame.present());
    for column in gone.map(ColumnId::at) {
        let time_ms = before.time_of(column);
        let is_old = time_ms <= frame.time_ms().saturating_sub(STALE_MS);
        if time_ms == before.time_ms() || is_old || ended.contains(&column) {
            continue;
        }
        next.set_from(column, before, column);
        next.set_time(column, time_ms);
    }
    next
}
