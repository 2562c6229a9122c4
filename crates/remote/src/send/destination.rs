//! One destination: its queue, its cursor, how it is reached, and how it does.
//!
//! **Invariant:** the queue belongs to the destination's key, which is its name, else its URL: other settings may change
//! without losing it.

use super::{
    batch::Batch,
    config::{QueueConfig, RemoteWriteConfig},
    encode::Counts,
    metrics::{self, DestinationMetrics, seconds},
    post::{Compression, Poster},
    progress::{Cursor, Progress},
    reshard::Totals,
};
use crate::{
    Message,
    queue::{
        Appended, CursorFile, Labelling, MAX_SHARDS, Parts, PendingRange, Position, Queue,
        QueueError, QueueWriter, SampleWriter,
    },
};
use narthex_model::{Frame, LabelSet, Schema, storage::SeriesSample, sync::Whole as _};
use narthex_net::{ClientConfig, NetError};
use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

/// Milliseconds between two log lines about a destination that fails.
const TELL_AGAIN_MS: i64 = 60_000;

/// Milliseconds without an answer after which what waits is made up for beside what comes.
const OUTAGE_MS: i64 = 20_000;

/// A destination.
pub(super) struct Destination {
    /// Name of its directory.
    pub(super) key: String,
    /// Name in metrics and logs.
    pub(super) name: String,
    pub(super) config: RemoteWriteConfig,
    pub(super) labelling: Arc<Labelling>,
    pub(super) metrics: DestinationMetrics,
    pub(super) poster: Poster,
    pub(super) protocol: Protocol,
    pub(super) queue: Arc<Queue>,
    store: Arc<Store>,
    samples: Mutex<SampleWriter>,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    health: Mutex<Health>,
    totals: SharedTotals,
    /// The time before which samples count as sent while none was.
    begin_ms: i64,
    highest_in_ms: AtomicI64,
    highest_sent_ms: AtomicI64,
    /// When a request was last taken or refused.
    answered_ms: AtomicI64,
    /// Whether what waits since an outage is to be sent beside what comes.
    is_recovering: AtomicBool,
    is_removed: AtomicBool,
}

/// What is known of a destination's state.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    /// The last error and when it was.
    pub(super) last_error: Option<(i64, String)>,
    /// Since when nothing is taken.
    pub(super) failing_since_ms: Option<i64>,
    told_ms: i64,
    queue_told_ms: i64,
}

/// Totals for the calculation of shards.
#[derive(Debug, Default)]
struct SharedTotals {
    samples_in: AtomicU64,
    samples_out: AtomicU64,
    out_nanos: AtomicU64,
}

/// The message and compression that are in use, which an answer may change.
#[derive(Debug)]
pub(super) struct Protocol {
    /// 1 or 2.
    version: AtomicU8,
    /// 0 not offered, 1 offered, 2 refused.
    zstd: AtomicU8,
    /// As `zstd`; requests are of frames while it is 1.
    frames: AtomicU8,
    changes: AtomicU64,
    lost_sessions: Mutex<LostSessions>,
}

/// Sessions that receivers did not know.
#[derive(Debug, Default)]
struct LostSessions {
    count: u32,
    /// When the first of them was lost.
    since_ms: i64,
}

/// Most sessions lost within a time, beyond which frames are given up: behind a load balancer, no receiver sees a whole
/// session.
const MOST_LOST: u32 = 8;
const LOST_WITHIN_MS: i64 = 10 * 60_000;

impl Protocol {
    fn new(message: Message, frames: bool) -> Self {
        Self {
            version: AtomicU8::new(if message == Message::V1 { 1 } else { 2 }),
            zstd: AtomicU8::new(0),
            frames: AtomicU8::new(if frames { 0 } else { 2 }),
            changes: AtomicU64::new(0),
            lost_sessions: Mutex::default(),
        }
    }

    pub(super) fn message(&self) -> Message {
        if self.frames.load(Ordering::Relaxed) == 1 {
            return Message::Frames;
        }
        self.configured()
    }

    /// Returns the message for receivers that do not take frames.
    fn configured(&self) -> Message {
        match self.version.load(Ordering::Relaxed) {
            1 => Message::V1,
            _ => Message::V2,
        }
    }

    pub(super) fn compression(&self) -> Compression {
        match self.zstd.load(Ordering::Relaxed) {
            1 => Compression::Zstd,
            _ => Compression::Snappy,
        }
    }

    /// Counts changes after which requests are to be made again.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Takes note of whether the receiver offers zstd.
    pub(super) fn learn_zstd(&self, is_offered: bool) {
        learn(&self.zstd, is_offered);
    }

    /// Takes note of whether the receiver offers frames: what is read from then on is sent as such.
    pub(super) fn learn_frames(&self, is_offered: bool) {
        learn(&self.frames, is_offered);
    }

    /// Has requests made again, in other sessions; gives frames up if that happens too often.
    ///
    /// Sessions of several shards that are lost together count as one: after the first, all of them begin anew.
    fn lose_session(&self, changes: u64, now_ms: i64) {
        let mut lost = self.lost_sessions.lock().whole();
        if self.changes() != changes {
            return;
        }
        if now_ms.saturating_sub(lost.since_ms) > LOST_WITHIN_MS {
            *lost = LostSessions {
                count: 0,
                since_ms: now_ms,
            };
        }
        lost.count += 1;
        if lost.count > MOST_LOST {
            self.frames.store(2, Ordering::Relaxed);
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Gives up what a request was made with and the receiver does not support; returns what is used from now on,
    /// `None` if there is nothing simpler.
    fn simplify(&self, message: Message, compression: Compression) -> Option<&'static str> {
        let simpler = match (message, compression) {
            (_, Compression::Zstd) => {
                self.zstd.store(2, Ordering::Relaxed);
                "snappy"
            }
            (Message::Frames, Compression::Snappy) => {
                self.frames.store(2, Ordering::Relaxed);
                self.configured().name()
            }
            (Message::V2, Compression::Snappy) => {
                self.version.store(1, Ordering::Relaxed);
                Message::V1.name()
            }
            (Message::V1, Compression::Snappy) => return None,
        };
        self.changes.fetch_add(1, Ordering::AcqRel);
        Some(simpler)
    }
}

/// Takes note of an offer, unless it was refused.
fn learn(state: &AtomicU8, is_offered: bool) {
    if is_offered {
        let relaxed = Ordering::Relaxed;
        // It is in use already, or was refused.
        let _ = state.compare_exchange(0, 1, relaxed, relaxed);
    }
}

/// A queue on disk with its cursor, which destinations hand on when their settings change.
#[derive(Debug)]
pub(super) struct Store {
    queue: Arc<Queue>,
    cursor: Mutex<Cursor>,
    /// When the cursor was last written by an earlier process, at its last answer or its start.
    acknowledged_ms: i64,
}

impl Store {
    /// Opens the queue in `dir`.
    ///
    /// # Errors
    /// Fails if files cannot be opened or read, or are of a newer release.
    pub(super) fn open(dir: &Path, config: &QueueConfig) -> Result<Self, QueueError> {
        let acknowledged_ms = modified_ms(&dir.join("cursor")).unwrap_or(i64::MAX);
        let (file, mut ranges) = std::fs::create_dir_all(dir)
            .and_then(|()| CursorFile::open(dir))
            .map_err(QueueError::io(dir, "open"))?;
        let queue = Queue::open(dir, config.max_disk_bytes, newest(&ranges))?;
        if !ranges.iter().any(|range| range.until.is_none()) {
            ranges.push(begin(&ranges, &queue, config));
        }
        let workers = ranges
            .iter()
            .map(|range| Arc::new(Mutex::new(Progress::new(range))));
        Ok(Self {
            cursor: Mutex::new(Cursor::new(file, workers.collect())),
            acknowledged_ms,
            queue: Arc::new(queue),
        })
    }
}

/// What a destination is made of.
pub(super) struct Making<'a> {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) config: RemoteWriteConfig,
    pub(super) external: LabelSet,
    pub(super) store: Arc<Store>,
    pub(super) client: &'a ClientConfig,
    pub(super) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Destination {
    /// Makes a destination; nothing is sent yet.
    ///
    /// # Errors
    /// Fails if the HTTP settings cannot be used.
    pub(super) fn new(making: Making<'_>) -> Result<Self, NetError> {
        let Making {
            key,
            name,
            config,
            external,
            store,
            client,
            now_ms,
        } = making;
        let poster = Poster::new(&config, client)?;
        let labelling = Arc::new(Labelling {
            external,
            rules: config.write_relabel_configs.clone(),
        });
        let queue = Arc::clone(&store.queue);
        let begin_ms = store.acknowledged_ms.min(now_ms());
        queue.set_limit(config.queue.max_disk_bytes);
        let samples = SampleWriter::new(Arc::clone(&queue), Arc::clone(&labelling), parts(&config));
        Ok(Self {
            metrics: DestinationMetrics::new(&name, config.url.as_str()),
            protocol: Protocol::new(config.message, config.frames),
            samples: Mutex::new(samples),
            is_recovering: AtomicBool::new(false),
            poster,
            key,
            name,
            config,
            labelling,
            store,
            queue,
            now_ms,
            health: Mutex::default(),
            totals: SharedTotals::default(),
            begin_ms,
            highest_in_ms: AtomicI64::new(0),
            highest_sent_ms: AtomicI64::new(0),
            answered_ms: AtomicI64::new(0),
            is_removed: AtomicBool::new(false),
        })
    }

    /// Reports whether this would be the same destination.
    pub(super) fn is(&self, config: &RemoteWriteConfig, external: &LabelSet) -> bool {
        self.config == *config && self.labelling.external == *external
    }

    /// Returns the queue and cursor, for a destination that takes this one's place.
    pub(super) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    pub(super) fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.store.cursor.lock().whole()
    }

    /// Prepares for sending: shows the settings, and has workers begin with what is not acknowledged; returns those.
    pub(super) fn begin(&self) -> Vec<Arc<Mutex<Progress>>> {
        let waiting = self.show_settings();
        let fresh_first = self.config.queue.fresh_first && waiting > 0;
        self.is_recovering.store(fresh_first, Ordering::Release);
        let workers = self.cursor().workers().to_vec();
        for progress in &workers {
            progress.lock().whole().rewind();
        }
        workers
    }

    /// Reports, once, whether the destination takes samples again after an outage and new ones shall not wait for those
    /// that do.
    pub(super) fn take_recovery(&self) -> bool {
        self.is_recovering.swap(false, Ordering::AcqRel)
    }

    /// Shows the settings as metrics; returns how many samples wait.
    fn show_settings(&self) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "settings far below 2^53")]
        let number = |value: usize| value as f64;
        let queue = &self.config.queue;
        self.metrics.capacity.set(number(queue.capacity));
        self.metrics.shards_max.set(number(queue.max_shards));
        self.metrics.shards_min.set(number(queue.min_shards));
        self.metrics.shards_desired.set(number(queue.min_shards));
        self.metrics
            .max_per_send
            .set(number(queue.max_samples_per_send));
        self.metrics.queue_limit.set(queue.max_disk_bytes as f64);
        self.save()
    }

    pub(super) fn now_ms(&self) -> i64 {
        (self.now_ms)()
    }

    /// Returns the time before which samples are too old to be sent.
    pub(super) fn oldest_ms(&self) -> i64 {
        let limit = self.config.queue.sample_age_limit;
        if limit.is_zero() {
            return i64::MIN;
        }
        let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        self.now_ms().saturating_sub(limit_ms)
    }

    /// Returns a writer of a schema's rounds.
    pub(super) fn writer(&self, schema: &Schema) -> QueueWriter {
        let labelling = Arc::clone(&self.labelling);
        QueueWriter::new(
            Arc::clone(&self.queue),
            labelling,
            parts(&self.config),
            schema,
        )
    }

    /// Writes a round to the queue.
    ///
    /// # Errors
    /// Fails, after logging and counting, if it cannot be written.
    pub(super) fn append(&self, writer: &mut QueueWriter, frame: &Frame) -> Result<(), QueueError> {
        self.note_appended(writer.append(frame), frame.time_ms())
    }

    /// Writes samples to the queue.
    ///
    /// # Errors
    /// As `append`.
    pub(super) fn append_samples(&self, samples: &[SeriesSample]) -> Result<(), QueueError> {
        let newest_ms = samples.iter().map(|sample| sample.time_ms).max();
        let appended = self.samples.lock().whole().append(samples);
        self.note_appended(appended, newest_ms.unwrap_or(0))
    }

    fn note_appended(
        &self,
        appended: Result<Appended, QueueError>,
        newest_ms: i64,
    ) -> Result<(), QueueError> {
        match appended {
            Ok(Appended { samples, given_up }) => {
                self.totals.samples_in.fetch_add(samples, Ordering::Relaxed);
                if samples > 0 {
                    let before = self.highest_in_ms.fetch_max(newest_ms, Ordering::Relaxed);
                    self.metrics.highest_in.set(seconds(before.max(newest_ms)));
                }
                if given_up > 0 {
                    self.metrics.dropped(metrics::QUEUE_FULL, given_up);
                    self.tell_queue(|| {
                        tracing::warn!(
                            remote_name = self.name,
                            samples = given_up,
                            limit_bytes = self.config.queue.max_disk_bytes,
                            "The queue of a remote end is full: the oldest samples are given up."
                        );
                    });
                }
                Ok(())
            }
            Err(error) => {
                self.metrics.queue_errors.inc();
                self.tell_queue(|| {
                    tracing::error!(
                        remote_name = self.name,
                        %error,
                        "A round could not be written to the queue of a remote end and is lost to it."
                    );
                });
                Err(error)
            }
        }
    }

    /// Calls `tell` unless it was called within the last minute.
    fn tell_queue(&self, tell: impl FnOnce()) {
        let now_ms = self.now_ms();
        let mut health = self.health.lock().whole();
        if is_due(&mut health.queue_told_ms, now_ms) {
            drop(health);
            tell();
        }
    }

    /// Records that a request of a worker's shard is done with.
    pub(super) fn acknowledge(&self, worker: &Mutex<Progress>, shard: usize, until: Position) {
        self.cursor().acknowledge(worker, shard, until, &self.queue);
        self.queue.signal.raise();
    }

    /// Saves the cursor and shows what waits; returns how many samples that are.
    pub(super) fn save(&self) -> u64 {
        let left = self.cursor().save(&self.queue);
        self.metrics.pending.set(left as f64);
        self.metrics
            .queue_bytes
            .set(self.queue.status().bytes as f64);
        left
    }

    /// Records that a request was taken.
    pub(super) fn taken(&self, batch: &Batch, written: Option<Counts>, took: Duration) {
        let highest = self
            .highest_sent_ms
            .fetch_max(batch.newest_ms, Ordering::Relaxed);
        self.metrics
            .highest_sent
            .set(seconds(highest.max(batch.newest_ms)));
        self.note_answer(batch.counts, took);
        let missing = missing(batch.counts, written.unwrap_or(batch.counts));
        self.metrics.failed(missing);
        if missing.total() > 0 {
            tracing::error!(
                remote_name = self.name,
                samples = missing.total(),
                "A remote end took a request, but says that it did not write all of it."
            );
        }
        let mut health = self.health.lock().whole();
        if let Some(since_ms) = health.failing_since_ms.take() {
            drop(health);
            let outage_ms = self.now_ms() - since_ms;
            let fresh_first = self.config.queue.fresh_first && outage_ms >= OUTAGE_MS;
            self.is_recovering.fetch_or(fresh_first, Ordering::AcqRel);
            let seconds = outage_ms / 1000;
            tracing::info!(
                remote_name = self.name,
                seconds,
                "A remote end takes samples again."
            );
        }
    }

    /// Records that a request was refused for good.
    pub(super) fn refused(
        &self,
        batch: &Batch,
        reason: &str,
        written: Option<Counts>,
        took: Duration,
    ) {
        let missing = missing(batch.counts, written.unwrap_or_default());
        self.metrics.failed(missing);
        self.note_answer(batch.counts, took);
        if self.note_error(reason, |health, _| health.failing_since_ms = None) {
            tracing::error!(
                remote_name = self.name,
                url = self.config.url.as_str(),
                samples = missing.total(),
                reason,
                "A remote end refuses samples; they are dropped."
            );
        }
    }

    fn note_answer(&self, counts: Counts, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.totals
            .samples_out
            .fetch_add(counts.total(), Ordering::Relaxed);
        self.totals.out_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.answered_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Records an attempt that failed for now.
    pub(super) fn fails(&self, reason: &str) {
        let fails = |health: &mut Health, now_ms| {
            health.failing_since_ms.get_or_insert(now_ms);
        };
        if self.note_error(reason, fails) {
            tracing::warn!(
                remote_name = self.name,
                url = self.config.url.as_str(),
                reason,
                "Sending to a remote end fails; it is tried again."
            );
        }
    }

    /// Keeps an error to be shown; reports whether it is to be logged.
    fn note_error(&self, reason: &str, change: impl FnOnce(&mut Health, i64)) -> bool {
        let now_ms = self.now_ms();
        let mut health = self.health.lock().whole();
        change(&mut health, now_ms);
        health.last_error = Some((now_ms, reason.to_owned()));
        is_due(&mut health.told_ms, now_ms)
    }

    /// Counts a request that became too old before it could be sent.
    pub(super) fn drop_old(&self, counts: Counts) {
        self.metrics
            .dropped(metrics::TOO_OLD, counts.samples + counts.histograms);
        self.metrics
            .dropped_histograms(metrics::TOO_OLD, counts.histograms);
        self.metrics
            .dropped_exemplars(metrics::TOO_OLD, counts.exemplars);
    }

    /// Gives up what a refused request was made with; returns `false` if there is nothing simpler.
    pub(super) fn fall_back(&self, batch: &Batch) -> bool {
        let Some(simpler) = self.protocol.simplify(batch.message, batch.compression) else {
            return false;
        };
        tracing::warn!(
            remote_name = self.name,
            url = self.config.url.as_str(),
            from = batch.message.name(),
            simpler,
            "A remote end does not support what it was sent; from now on it gets something simpler."
        );
        self.queue.signal.raise();
        true
    }

    /// Has what is not acknowledged sent in other sessions.
    pub(super) fn lose_session(&self, batch: &Batch, reason: &str) {
        self.metrics.sessions_lost.inc();
        self.protocol.lose_session(batch.changes, self.now_ms());
        tracing::debug!(
            remote_name = self.name,
            reason,
            "A remote end does not know the session of a request; another one begins."
        );
        self.queue.signal.raise();
    }

    /// Reports whether a request was taken by a receiver that did not understand it, and gives up its message then: one
    /// of version 2.0, and one of frames, says what it wrote.
    pub(super) fn is_doubtful(&self, batch: &Batch) -> bool {
        let is_doubtful = match batch.message {
            Message::V1 => false,
            Message::V2 => self.protocol.message() == Message::V2,
            Message::Frames => true,
        };
        is_doubtful && {
            let snappy = Batch {
                body: Vec::new(),
                compression: Compression::Snappy,
                ..*batch
            };
            self.fall_back(&snappy)
        }
    }

    pub(super) fn health(&self) -> Health {
        self.health.lock().whole().clone()
    }

    pub(super) fn totals(&self) -> Totals {
        #[expect(clippy::cast_precision_loss, reason = "rates need no more digits")]
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed) as f64;
        Totals {
            samples_in: read(&self.totals.samples_in),
            samples_out: read(&self.totals.samples_out),
            dropped: self.metrics.dropped_total() as f64,
            out_seconds: read(&self.totals.out_nanos) / 1e9,
        }
    }

    /// Returns how many samples, histograms and exemplars were taken, and how many refused, since the start.
    pub(super) fn answered(&self) -> (u64, u64) {
        let refused = self.metrics.refused_total();
        let answered = self.totals.samples_out.load(Ordering::Relaxed);
        (answered.saturating_sub(refused), refused)
    }

    /// Returns the seconds between the newest sample that came and the newest that was sent; while none was, the
    /// last answer to the process before, its start or that of this one counts.
    pub(super) fn behind_seconds(&self) -> f64 {
        let came_ms = self.highest_in_ms.load(Ordering::Relaxed);
        let sent_ms = match self.highest_sent_ms() {
            0 => self.begin_ms,
            sent_ms => sent_ms,
        };
        seconds(came_ms.saturating_sub(sent_ms).max(0))
    }

    /// Returns the time of the newest sample that was sent, in milliseconds since the epoch; 0 for none.
    pub(super) fn highest_sent_ms(&self) -> i64 {
        self.highest_sent_ms.load(Ordering::Relaxed)
    }

    /// Returns how long ago a request was last answered, in milliseconds.
    pub(super) fn quiet_ms(&self) -> i64 {
        self.now_ms() - self.answered_ms.load(Ordering::Relaxed)
    }

    /// Removes the metrics when the destination is dropped.
    pub(super) fn set_removed(&self) {
        self.is_removed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.is_removed.load(Ordering::Relaxed) {
            self.metrics.remove();
        }
    }
}

/// Returns when a file was last written, in milliseconds since the epoch; `None` if there is none.
fn modified_ms(path: &Path) -> Option<i64> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Returns what of a round a destination gets.
fn parts(config: &RemoteWriteConfig) -> Parts {
    let is_v2 = config.message == Message::V2;
    Parts {
        exemplars: config.send_exemplars,
        histograms: config.send_native_histograms || is_v2,
        start_times: is_v2,
    }
}

/// Returns the newest place in the ranges.
fn newest(ranges: &[PendingRange]) -> Position {
    let shards = ranges.iter().flat_map(|range| &range.shards);
    let ends = ranges.iter().filter_map(|range| range.until.as_ref());
    shards.chain(ends).copied().max().unwrap_or_default()
}

/// Returns the range that grows, for a cursor that has none: behind the others, else with the oldest file.
fn begin(ranges: &[PendingRange], queue: &Queue, config: &QueueConfig) -> PendingRange {
    let from = match ranges.last().and_then(|range| range.until) {
        Some(until) => until,
        None => queue.oldest(),
    };
    PendingRange {
        until: None,
        shards: vec![from; config.min_shards.min(MAX_SHARDS)],
    }
}

/// Returns what was sent and not written.
fn missing(sent: Counts, written: Counts) -> Counts {
    Counts {
        samples: sent.samples.saturating_sub(written.samples),
        histograms: sent.histograms.saturating_sub(written.histograms),
        exemplars: sent.exemplars.saturating_sub(written.exemplars),
    }
}

/// Reports whether a minute has passed since a line was logged, and notes that one is now.
fn is_due(told_ms: &mut i64, now_ms: i64) -> bool {
    let due = *told_ms == 0 || now_ms.saturating_sub(*told_ms) >= TELL_AGAIN_MS;
    if due {
        *told_ms = now_ms;
    }
    due
}
