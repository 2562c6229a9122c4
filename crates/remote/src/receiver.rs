//! Stores decompressed requests into the sink.
//!
//! **Invariant:** everything acknowledged with success is in the sink's log. A request that cannot be decoded stores
//! nothing; of a decoded one, everything that can be stored is, and the rest is reported. State that a panic left
//! half-changed is dropped before the next request is stored.

use crate::{
    entries::NextEntry,
    error::RemoteError,
    frames::Sessions,
    incoming::{Incoming, KeyHasher},
    labels,
    message::Message,
    metrics,
    place::Place,
    refusals::Refusals,
    schedule::{EXEMPLARS, FLOATS, HISTOGRAMS, Schedule},
    series_cache::{CACHED_SERIES_BYTES, EPOCH_MS, NewSeries, SeriesCache},
    series_group::{Instant, Sample},
    v1, v2,
};
use narthex_model::{
    ColumnId, Family, Frame, LabelSet, Schema, cell,
    storage::{Account, Binding, Budget, Pressure, SeriesSample, Sink},
    sync::{Renew as _, Whole as _},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Default limit on how far samples may be ahead of the clock, in milliseconds; Prometheus' value.
const FUTURE_LIMIT_MS: i64 = 600_000;
/// Maximum families whose metadata is remembered, and maximum bytes of their texts.
const MAX_FAMILIES: usize = 100_000;
const MAX_FAMILY_BYTES: usize = 8 << 20;
/// Samples of unknown series appended to the sink at once.
const UNPLACED_AT_ONCE: usize = 10_000;

/// Counts of what a request stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// Float samples.
    pub samples: u64,
    /// Native histograms.
    pub histograms: u64,
    /// Exemplars.
    pub exemplars: u64,
}

/// What a request stored, and why the rest was not.
pub type Stored = (Written, Option<RemoteError>);

/// The memory that receiving may use.
#[derive(Clone, Debug)]
pub struct ReceiverMemory {
    /// Memory of requests, from their bodies to the sink.
    pub requests: Budget,
    /// Memory of the series cache of senders' series.
    pub series: Budget,
}

impl Default for ReceiverMemory {
    /// Returns unlimited budgets, for tests and tools.
    fn default() -> Self {
        Self {
            requests: Budget::unlimited(),
            series: Budget::unlimited(),
        }
    }
}

/// Receives requests of any number of senders.
pub struct Receiver {
    sink: Arc<dyn Sink>,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    future_limit_ms: Option<i64>,
    pub(crate) hasher: KeyHasher,
    series_cache: RwLock<SeriesCache>,
    /// Whether a panic may have broken groups.
    interrupted: AtomicBool,
    swept: Mutex<u32>,
    families: Mutex<Option<Families>>,
    /// Budget within which requests are read and decoded.
    pub(crate) memory: Budget,
    /// Memory of the cache.
    held: Account,
    /// Budget of what is kept of senders between requests.
    pub(crate) series_memory: Budget,
    pub(crate) sessions: Sessions,
}

pub(crate) fn epoch_of(now_ms: i64) -> u32 {
    u32::try_from(now_ms.max(0) / EPOCH_MS).unwrap_or(u32::MAX)
}

/// Metadata to be written to the sink.
struct Families {
    known: HashSet<Family>,
    known_bytes: usize,
    binding: Box<dyn Binding>,
}

impl Receiver {
    /// Returns a receiver that stores into `sink`; `now_ms` is the clock that samples must not be far ahead of.
    #[must_use]
    pub fn new(sink: Arc<dyn Sink>, now_ms: Arc<dyn Fn() -> i64 + Send + Sync>) -> Self {
        Self::within(sink, now_ms, &ReceiverMemory::default())
    }

    /// As [`Receiver::new`], with bounds; while the process is under memory pressure, series that the sink does not
    /// know are refused.
    #[must_use]
    pub fn within(
        sink: Arc<dyn Sink>,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
        memory: &ReceiverMemory,
    ) -> Self {
        Self {
            held: memory.series.account(),
            series_memory: memory.series.clone(),
            sessions: Sessions::default(),
            memory: memory.requests.clone(),
            sink,
            now_ms,
            future_limit_ms: Some(FUTURE_LIMIT_MS),
            hasher: KeyHasher::default(),
            series_cache: RwLock::default(),
            interrupted: AtomicBool::new(false),
            swept: Mutex::new(0),
            families: Mutex::new(None),
        }
    }

    /// Sets how far samples may be ahead of the clock, 10 minutes by default; `None` allows any time.
    #[must_use]
    pub fn with_future_limit(mut self, limit_ms: Option<i64>) -> Self {
        self.future_limit_ms = limit_ms;
        self
    }

    /// Stores a decompressed request.
    ///
    /// Returns what was stored, and why the rest was not.
    ///
    /// # Errors
    /// Fails, having stored nothing, if the body is malformed; fails midway if the sink rejects writes.
    pub fn store(&self, message: Message, body: &[u8]) -> Result<Stored, RemoteError> {
        let mut incoming = match message {
            Message::V1 => v1::decode(body, &self.hasher, &self.memory)?,
            Message::V2 => v2::decode(body, &self.hasher, &self.memory)?,
            Message::Frames => return self.store_frames(body),
        };
        let now_ms = self.now_ms();
        let epoch = epoch_of(now_ms);
        for (_, exemplar) in &mut incoming.exemplars {
            exemplar.time_ms.get_or_insert(now_ms);
        }
        let _watch = self.watch();
        self.sweep(epoch)?;
        let mut refusals = Refusals {
            message,
            texts: std::mem::take(&mut incoming.objections),
        };
        let placed = self.places(&mut incoming, epoch, &mut refusals)?;
        let written = self.store_placed(&incoming, &placed, now_ms, &mut refusals)?;
        self.note_ends(&incoming, epoch, |series| {
            incoming.series[series as usize].key
        })?;
        Ok((written, refusals.finish()))
    }

    /// Stores a request whose series have places.
    pub(crate) fn store_placed(
        &self,
        incoming: &Incoming<'_>,
        placed: &Placed,
        now_ms: i64,
        refusals: &mut Refusals,
    ) -> Result<Written, RemoteError> {
        self.store_families(&incoming.families)?;
        let mut written = self.write(incoming, placed, now_ms, refusals)?;
        let unplaced = &placed.unplaced;
        self.write_unplaced(incoming, unplaced, now_ms, &mut written, refusals)?;
        Ok(written)
    }

    /// Forgets ended series, as every request does; for times without requests.
    ///
    /// # Errors
    /// Fails if the sink rejects a smaller schema.
    pub fn forget_ended(&self) -> Result<(), RemoteError> {
        let _watch = self.watch();
        self.sweep(epoch_of(self.now_ms()))
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.now_ms)()
    }

    /// Returns the newest timestamp that a sample may have.
    fn newest_ms(&self, now_ms: i64) -> i64 {
        let limit_ms = self.future_limit_ms;
        limit_ms.map_or(i64::MAX, |limit_ms| now_ms.saturating_add(limit_ms))
    }

    /// Records which series have a staleness marker as their last sample; `key` returns a series' key.
    pub(crate) fn note_ends(
        &self,
        incoming: &Incoming<'_>,
        epoch: u32,
        mut key: impl FnMut(u32) -> u128,
    ) -> Result<(), RemoteError> {
        let mut ended: Vec<u32> = Vec::new();
        for sample in &incoming.floats {
            if cell::is_stale(sample.value) {
                ended.push(sample.series);
            } else {
                ended.pop_if(|last| *last == sample.series);
            }
        }
        if ended.is_empty() {
            return Ok(());
        }
        let (cache, mut next) = (self.series_cache()?, NextEntry::default());
        for series in ended {
            cache.end(key(series), epoch, &mut next);
        }
        Ok(())
    }

    /// Returns the number of series known by their senders' label bytes.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series_cache().map_or(0, |cache| cache.len())
    }

    /// Locks the series cache for reading.
    ///
    /// # Errors
    /// Fails if a change of it panicked since the request began.
    pub(crate) fn series_cache(&self) -> Result<RwLockReadGuard<'_, SeriesCache>, RemoteError> {
        self.series_cache
            .read()
            .map_err(|_broken| RemoteError::Panicked)
    }

    fn series_cache_mut(&self) -> Result<RwLockWriteGuard<'_, SeriesCache>, RemoteError> {
        self.series_cache
            .write()
            .map_err(|_broken| RemoteError::Panicked)
    }

    /// Drops what an earlier panic left half-changed; the returned guard records a panic while it lives.
    pub(crate) fn watch(&self) -> Watch<'_> {
        if self.series_cache.is_poisoned() || self.interrupted.swap(false, Ordering::AcqRel) {
            let mut cache = self.series_cache.lock_or_renew(SeriesCache::emptied);
            cache.drop_broken();
            self.held.set((cache.len() * CACHED_SERIES_BYTES) as u64);
        }
        Watch(&self.interrupted)
    }

    pub(crate) fn sweep(&self, epoch: u32) -> Result<(), RemoteError> {
        let mut swept = self.swept.lock().whole();
        if *swept == epoch {
            return Ok(());
        }
        let first = *swept == 0;
        *swept = epoch;
        drop(swept);
        if first {
            return Ok(());
        }
        self.sessions.sweep(self.now_ms());
        let mut cache = self.series_cache_mut()?;
        cache.sweep(epoch)?;
        self.held.set((cache.len() * CACHED_SERIES_BYTES) as u64);
        Ok(())
    }

    /// Finds the place of every series, assigning places to those seen for the first time.
    fn places(
        &self,
        incoming: &mut Incoming<'_>,
        epoch: u32,
        refusals: &mut Refusals,
    ) -> Result<Placed, RemoteError> {
        let mut unknown = Vec::new();
        let cache = self.series_cache()?;
        let generation = cache.generation();
        let mut places: Vec<Place> = Vec::with_capacity(incoming.series.len());
        let mut next = NextEntry::default();
        for (at, series) in incoming.series.iter().enumerate() {
            let place = cache.find(series.key, epoch, &mut next);
            places.push(place.unwrap_or_else(|| {
                unknown.push(at);
                Place::NOWHERE
            }));
        }
        drop(cache);
        let mut unplaced = UnplacedSeries::default();
        if unknown.is_empty() {
            return Ok(Placed {
                places,
                generation,
                unplaced,
            });
        }
        let short = self.memory.pressure() >= Pressure::RefuseSeries;
        let mut new = Vec::new();
        let mut valid = Vec::new();
        for at in unknown {
            let series = &incoming.series[at];
            match labels::resolve(&incoming.labels, &series.labels, &mut incoming.allowance)? {
                Ok(labels) if short => {
                    unplaced.insert(u32::try_from(at).unwrap_or(u32::MAX), labels);
                }
                Ok(labels) => {
                    let key = series.key;
                    new.push(NewSeries { key, labels });
                    valid.push(at);
                }
                Err(objection) => refusals.invalid_labels(objection, series.samples),
            }
        }
        self.add_series(new, generation, epoch)?;
        let cache = self.series_cache()?;
        for at in valid {
            let key = incoming.series[at].key;
            let place = cache.find(key, epoch, &mut next);
            places[at] = place.unwrap_or(Place::NOWHERE);
        }
        drop(cache);
        Ok(Placed {
            places,
            generation,
            unplaced,
        })
    }

    /// Gives places to series that have none.
    pub(crate) fn add_series(
        &self,
        new: Vec<NewSeries>,
        generation: u64,
        epoch: u32,
    ) -> Result<(), RemoteError> {
        let mut cache = self.series_cache_mut()?;
        cache.expect(generation)?;
        cache.add(new, epoch, &*self.sink)?;
        self.held.set((cache.len() * CACHED_SERIES_BYTES) as u64);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        {
            metrics::SERIES.set(cache.len() as f64);
            metrics::SERIES_GROUPS.set(cache.groups() as f64);
        }
        Ok(())
    }

    /// Appends the samples of series without a place to the sink, which refuses those whose series it does not know.
    fn write_unplaced(
        &self,
        incoming: &Incoming<'_>,
        unplaced: &UnplacedSeries,
        now_ms: i64,
        written: &mut Written,
        refusals: &mut Refusals,
    ) -> Result<(), RemoteError> {
        if unplaced.is_empty() {
            return Ok(());
        }
        let max_ms = self.newest_ms(now_ms);
        let labels = |series: u32, time_ms: i64| {
            let labels = unplaced.get(&series)?;
            (time_ms <= max_ms).then(|| labels.clone())
        };
        let floats = incoming.floats.iter().filter_map(|sample| {
            let mut float = SeriesSample::float(
                labels(sample.series, sample.time_ms)?,
                sample.time_ms,
                sample.value,
            );
            float.start_time_ms = sample.start_ms;
            Some(float)
        });
        let histograms = incoming.histograms.iter().filter_map(|sample| {
            let histogram = Arc::clone(sample.histogram.as_ref().ok()?);
            let labels = labels(sample.series, sample.time_ms)?;
            let mut sample_of = SeriesSample::histogram(labels, sample.time_ms, histogram);
            sample_of.start_time_ms = sample.start_ms;
            Some(sample_of)
        });
        for (samples, count) in [
            (floats.collect::<Vec<_>>(), &mut written.samples),
            (histograms.collect(), &mut written.histograms),
        ] {
            for some in samples.chunks(UNPLACED_AT_ONCE) {
                let outcome = self.sink.append_samples(some)?;
                refusals.count(&outcome, || None);
                *count += outcome.accepted;
            }
        }
        Ok(())
    }

    /// Appends all samples to the sink, instant by instant.
    fn write(
        &self,
        incoming: &Incoming<'_>,
        placed: &Placed,
        now_ms: i64,
        refusals: &mut Refusals,
    ) -> Result<Written, RemoteError> {
        let max_ms = self.newest_ms(now_ms);
        let places = &*placed.places;
        let plan = Schedule::new(incoming, places, max_ms, refusals);
        let cache = self.series_cache()?;
        cache.expect(placed.generation)?;
        let mut written = Written::default();
        for batch in plan.batches() {
            let Some(group) = cache.group(batch.group) else {
                continue;
            };
            let column = |series: u32| ColumnId(places[series as usize].column);
            let floats = plan.entries(batch, FLOATS).map(|at| {
                let sample = &incoming.floats[at];
                Sample {
                    column: column(sample.series),
                    value: sample.value,
                    time_ms: sample.time_ms,
                    start_ms: sample.start_ms,
                }
            });
            let histograms = plan.entries(batch, HISTOGRAMS).filter_map(|at| {
                let sample = &incoming.histograms[at];
                Some(Sample {
                    column: column(sample.series),
                    value: sample.histogram.as_ref().ok()?,
                    time_ms: sample.time_ms,
                    start_ms: sample.start_ms,
                })
            });
            let exemplars: Vec<_> = plan
                .entries(batch, EXEMPLARS)
                .map(|at| {
                    let (series, exemplar) = &incoming.exemplars[at];
                    (column(*series), exemplar.clone())
                })
                .collect();
            let outcome = group.append(Instant {
                time_ms: batch.time_ms,
                count: batch.count as usize,
                floats,
                histograms,
                exemplars: &exemplars,
            })?;
            let only = plan
                .entries(batch, FLOATS)
                .next()
                .filter(|_| batch.count == 1);
            refusals.count(&outcome, || {
                group.labels(column(incoming.floats[only?].series))
            });
            if group.is_ungrouped() {
                metrics::UNGROUPED.inc_by(u64::from(batch.count));
            }
            let histograms = u64::from(batch.histograms).min(outcome.accepted);
            written.histograms += histograms;
            written.samples += outcome.accepted - histograms;
            written.exemplars += exemplars.len() as u64;
        }
        Ok(written)
    }

    fn store_families(&self, families: &[Family]) -> Result<(), RemoteError> {
        if families.is_empty() {
            return Ok(());
        }
        // After a panic it is unknown which metadata the sink has: send all of it again.
        let mut state = self.families.lock_or_renew(|_| None);
        let state = match &mut *state {
            Some(state) => state,
            empty => empty.insert(Families {
                known: HashSet::new(),
                known_bytes: 0,
                binding: self.sink.bind(&Schema::new(LabelSet::empty()))?,
            }),
        };
        if state.known.len() > MAX_FAMILIES || state.known_bytes > MAX_FAMILY_BYTES {
            state.known.clear();
            state.known_bytes = 0;
        }
        let new: Vec<&Family> = families
            .iter()
            .filter(|family| !family.name.is_empty() && state.known.insert((*family).clone()))
            .collect();
        let texts = |family: &&Family| family.name.len() + family.unit.len() + family.help.len();
        state.known_bytes += new.iter().map(texts).sum::<usize>();
        if new.is_empty() {
            return Ok(());
        }
        // A separate schema for new metadata: the sink remembers the rest.
        let mut edit = Schema::new(LabelSet::empty()).edit();
        for family in new {
            edit.family(family.clone());
        }
        let schema = edit.finish();
        state.binding.rebind(&schema)?;
        state.binding.append(&Frame::new(schema, i64::MIN))?;
        Ok(())
    }
}

/// Guard that records a panic while it lives.
pub(crate) struct Watch<'a>(&'a AtomicBool);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Places of a request's series.
pub(crate) struct Placed {
    pub(crate) places: Vec<Place>,
    /// Generation of the series cache in which they were found.
    pub(crate) generation: u64,
    pub(crate) unplaced: UnplacedSeries,
}

/// Series that got no place because memory is short, by their index in the request.
pub(crate) type UnplacedSeries = HashMap<u32, LabelSet, foldhash::fast::RandomState>;

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver({} series)", self.series())
    }
}
