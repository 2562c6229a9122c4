//! Runs the sources of all entries, each on its schedule.
//!
//! **Invariant:** an entry that did not change keeps its files, schemas and schedule, whatever else is reloaded. An entry
//! that is gone ends its series.

use crate::{config::FilesConfig, metrics};
use narthex_model::{
    storage::{Sink, StorageError},
    sync::Whole as _,
};
use narthex_net::{StopToken, Stopper, catch_panic};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, MissedTickBehavior},
};

/// A source of rounds that stores them itself.
pub trait RoundSource: Send {
    /// Looks at what there is and stores it with this time; may block.
    ///
    /// # Errors
    /// Fails when the sink does.
    fn round(&mut self, now_ms: i64, sink: &dyn Sink) -> Result<(), StorageError>;

    /// Ends all series.
    ///
    /// # Errors
    /// Fails when the sink does.
    fn end(&mut self, now_ms: i64, sink: &dyn Sink) -> Result<(), StorageError>;
}

/// An entry and its source, which is used if the entry is new or changed.
pub struct Entry {
    /// The settings.
    pub config: FilesConfig,
    /// What does the work.
    pub source: Box<dyn RoundSource>,
}

/// What a manager needs.
pub struct ManagerConfig {
    /// Destination of rounds.
    pub sink: Arc<dyn Sink>,
    /// The wall clock, in milliseconds since the epoch.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Runtime of the schedules; the work is done on its blocking threads.
    pub runtime: tokio::runtime::Handle,
}

/// The entries that are being looked at.
pub struct FilesManager {
    shared: Arc<Shared>,
    running: Mutex<BTreeMap<String, Running>>,
    /// Entries that are ending.
    ending: Mutex<Vec<JoinHandle<()>>>,
    runtime: tokio::runtime::Handle,
    stop: StopToken,
}

struct Shared {
    sink: Arc<dyn Sink>,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Whether the last round could not be stored: only changes are logged, not every round.
    storage_fails: AtomicBool,
}

struct Running {
    config: FilesConfig,
    stopper: Stopper,
    /// Whether the entry was removed, instead of the process stopping.
    is_removed: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl FilesManager {
    /// Returns a manager without entries; its schedules end with `stop`.
    #[must_use]
    pub fn new(config: ManagerConfig, stop: StopToken) -> Self {
        Self {
            shared: Arc::new(Shared {
                sink: config.sink,
                now_ms: config.now_ms,
                storage_fails: AtomicBool::new(false),
            }),
            running: Mutex::default(),
            ending: Mutex::default(),
            runtime: config.runtime,
            stop,
        }
    }

    /// Makes these the entries that are looked at.
    pub fn apply(&self, entries: Vec<Entry>) {
        let mut running = self.running.lock().whole();
        let mut before = std::mem::take(&mut *running);
        for Entry { config, source } in entries {
            let known = before.remove(&config.job_name);
            let next = match known {
                Some(known) if known.config == config => known,
                known => {
                    // Its series end before the new source may begin them.
                    let ended = known.map(|known| self.remove(known));
                    self.start(config, source, ended)
                }
            };
            running.insert(next.config.job_name.clone(), next);
        }
        for (_, gone) in before {
            let ended = self.remove(gone);
            self.ending.lock().whole().push(ended);
        }
    }

    fn remove(&self, running: Running) -> JoinHandle<()> {
        running.is_removed.store(true, Ordering::Release);
        running.stopper.stop();
        running.task
    }

    fn start(
        &self,
        config: FilesConfig,
        source: Box<dyn RoundSource>,
        after: Option<JoinHandle<()>>,
    ) -> Running {
        let (stopper, stop) = self.stop.child();
        let is_removed = Arc::new(AtomicBool::new(false));
        let schedule = Schedule {
            shared: Arc::clone(&self.shared),
            interval: config.interval.max(Duration::from_millis(1)),
            is_removed: Arc::clone(&is_removed),
            stop,
        };
        let task = self.runtime.spawn(async move {
            if let Some(after) = after {
                // An end that panicked was counted and logged.
                let _ = after.await;
            }
            schedule.run(source).await;
        });
        Running {
            config,
            stopper,
            is_removed,
            task,
        }
    }

    /// Waits until every schedule has ended; call it after the stop.
    pub async fn join(&self) {
        let running = std::mem::take(&mut *self.running.lock().whole());
        let ending = std::mem::take(&mut *self.ending.lock().whole());
        for task in running
            .into_values()
            .map(|running| running.task)
            .chain(ending)
        {
            if let Err(error) = task.await {
                tracing::error!(%error, "Looking at files ended with a panic.");
            }
        }
    }
}

struct Schedule {
    shared: Arc<Shared>,
    interval: Duration,
    is_removed: Arc<AtomicBool>,
    stop: StopToken,
}

impl Schedule {
    async fn run(self, mut source: Box<dyn RoundSource>) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut due = Instant::now();
        loop {
            let tick = tokio::select! {
                () = self.stop.stopped() => break,
                tick = ticks.tick() => tick,
            };
            let late = tick.saturating_duration_since(due);
            let missed = late.as_nanos() / self.interval.as_nanos();
            metrics::MISSED.inc_by(u64::try_from(missed).unwrap_or(u64::MAX));
            due = tick + self.interval;
            let Some(next) = self
                .work(source, |source, now_ms, sink| source.round(now_ms, sink))
                .await
            else {
                return;
            };
            source = next;
        }
        if self.is_removed.load(Ordering::Acquire) {
            self.work(source, |source, now_ms, sink| source.end(now_ms, sink))
                .await;
        }
    }

    /// Does a round on a blocking thread; returns the source unless the runtime is gone.
    async fn work(
        &self,
        mut source: Box<dyn RoundSource>,
        round: fn(&mut dyn RoundSource, i64, &dyn Sink) -> Result<(), StorageError>,
    ) -> Option<Box<dyn RoundSource>> {
        let shared = Arc::clone(&self.shared);
        let done = spawn_blocking(move || {
            let now_ms = (shared.now_ms)();
            // A source's own parts are isolated from each other; this is the last resort.
            let outcome = catch_panic("files", || round(&mut *source, now_ms, &*shared.sink));
            if let Ok(outcome) = outcome {
                shared.judge(outcome);
            }
            source
        });
        done.await.ok()
    }
}

impl Shared {
    fn judge(&self, outcome: Result<(), StorageError>) {
        match outcome {
            Err(error) if !self.storage_fails.swap(true, Ordering::Relaxed) => {
                tracing::error!(%error, "Samples of files cannot be stored.");
            }
            Err(_) => {}
            Ok(()) if self.storage_fails.swap(false, Ordering::Relaxed) => {
                tracing::info!("Samples of files are stored again.");
            }
            Ok(()) => {}
        }
    }
}
