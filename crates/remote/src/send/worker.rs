//! A worker: a thread that reads a range of the queue, makes requests of it and hands them to shards.
//!
//! **Invariant:** the number of shards changes only when everything that was read is acknowledged, so that the samples of
//! a series stay in order. A worker that begins anew begins with what its shards have acknowledged.

use super::{
    batch::Batch,
    control::{Order, Orders},
    destination::Destination,
    metadata, metrics,
    progress::Progress,
    reshard::{self, Rates},
    shard::Shard,
    spread::Spread,
};
use crate::queue::{PendingRange, QueueReader, Read};
use narthex_model::sync::Whole as _;
use std::{
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle as Task};

/// How often what was appended is made to survive a loss of power.
const SYNC_INTERVAL: Duration = Duration::from_secs(5);
/// Longest sleep.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Longest sleep while the worker ends.
const ENDING_LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after a file that could not be read.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// Most workers of a destination: outages while one is being made up for are added to the last.
const MAX_WORKERS: usize = 4;

/// Metadata is first sent after this time, when most targets were scraped.
const FIRST_METADATA: Duration = Duration::from_secs(15);

/// Starts the workers of a destination and knows their threads.
#[derive(Clone)]
pub(super) struct Workers {
    runtime: Handle,
    orders: Orders,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    destination: Arc<Destination>,
}

impl Workers {
    pub(super) fn new(runtime: Handle, destination: Arc<Destination>) -> Self {
        Self {
            runtime,
            orders: Orders::new(),
            threads: Arc::default(),
            destination,
        }
    }

    /// Starts all workers of the destination.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub(super) fn start_all(&self) -> std::io::Result<()> {
        let mut workers = self.destination.begin().into_iter();
        workers.try_for_each(|progress| self.start(progress))
    }

    /// Starts a worker's thread.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    fn start(&self, progress: Arc<Mutex<Progress>>) -> std::io::Result<()> {
        let now = Instant::now();
        let metadata = &self.destination.config.metadata;
        let first_metadata = now + metadata.send_interval.min(FIRST_METADATA);
        let is_open = progress.lock().whole().until().is_none();
        let worker = Worker {
            is_open,
            destination: Arc::clone(&self.destination),
            progress,
            workers: self.clone(),
            orders: self.orders.clone(),
            runtime: self.runtime.clone(),
            rates: Rates::default(),
            next_shards: now + reshard::INTERVAL,
            next_sync: now + SYNC_INTERVAL,
            next_metadata: first_metadata,
            metadata: None,
        };
        let thread = std::thread::Builder::new()
            .name("narthex-remote".into())
            .spawn(move || worker.run())?;
        self.threads.lock().whole().push(thread);
        Ok(())
    }

    /// Gives all workers an order.
    pub(super) fn order(&self, order: Order) {
        self.orders.send(order);
        self.destination.queue.signal.raise();
    }

    /// Waits until all workers have ended; order them to first.
    pub(super) fn join(&self) {
        // A worker that is ending may start none.
        let threads = std::mem::take(&mut *self.threads.lock().whole());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("Sending to a remote end ended with a panic.");
            }
        }
    }

    /// Reports whether all workers have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.threads
            .lock()
            .whole()
            .iter()
            .all(JoinHandle::is_finished)
    }
}

struct Worker {
    destination: Arc<Destination>,
    progress: Arc<Mutex<Progress>>,
    workers: Workers,
    orders: Orders,
    runtime: Handle,
    /// Whether it is the one that grows.
    is_open: bool,
    rates: Rates,
    next_shards: Instant,
    next_sync: Instant,
    next_metadata: Instant,
    metadata: Option<Task<()>>,
}

/// Why a worker's shards end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ending {
    /// The worker ends.
    Over,
    /// Requests are to be made again, in another form.
    Again,
    /// There shall be so many shards.
    Shards(usize),
}

/// A worker's shards at work.
struct Shards {
    senders: Vec<mpsc::Sender<Batch>>,
    tasks: Vec<Task<()>>,
}

impl Shards {
    /// Waits until all have ended.
    fn join(self, runtime: &Handle) {
        drop(self.senders);
        for task in self.tasks {
            if let Err(error) = runtime.block_on(task) {
                tracing::error!(%error, "Sending to a remote end ended with a panic.");
            }
        }
    }
}

impl Worker {
    fn run(mut self) {
        loop {
            let ending = narthex_net::catch_panic("remote write", || self.once());
            match ending {
                Ok(Ending::Over) => break,
                Ok(Ending::Again) => self.progress.lock().whole().rewind(),
                Ok(Ending::Shards(shards)) => {
                    tracing::debug!(
                        remote_name = self.destination.name,
                        shards,
                        "Sending to a remote end goes on with other shards or another protocol."
                    );
                    self.progress.lock().whole().reshard(shards);
                }
                Err(_panicked) => {
                    // It was logged and counted.
                    std::thread::sleep(READ_PAUSE);
                    self.progress.lock().whole().rewind();
                }
            }
        }
        if self.orders.now() == Order::Run {
            // The range is sent.
            self.destination.cursor().remove(&self.progress);
        }
        self.destination.save();
        if let Some(task) = self.metadata.take() {
            task.abort();
        }
    }

    /// Runs with one set of shards.
    fn once(&mut self) -> Ending {
        // Shards of this set follow their own orders: what ends them need not end the worker.
        let orders = Orders::new();
        let range = self.progress.lock().whole().range();
        let shards = self.start_shards(range.shards.len(), &orders);
        let until_file = range.until.map(|until| until.file);
        let queue = Arc::clone(&self.destination.queue);
        let mut reader = QueueReader::new(queue, range.low(), until_file);
        let mut spread = Spread::new(Arc::clone(&self.destination), range.shards);
        let ending = self.pump(&mut reader, &mut spread, &shards, &orders);
        if ending == Ending::Again {
            orders.send(Order::Abort);
        }
        let watching = self.follow_orders(&orders);
        shards.join(&self.runtime);
        watching.abort();
        ending
    }

    /// Passes the worker's orders on to shards while they are waited for.
    fn follow_orders(&self, orders: &Orders) -> Task<()> {
        let (mut follower, orders) = (self.orders.follow(), orders.clone());
        self.runtime.spawn(async move {
            for order in [Order::Flush, Order::Finish, Order::Abort] {
                follower.at_least(order).await;
                orders.send(order);
            }
        })
    }

    fn start_shards(&self, count: usize, orders: &Orders) -> Shards {
        let queue = &self.destination.config.queue;
        let room = (queue.capacity / queue.max_samples_per_send).max(1);
        let mut shards = Shards {
            senders: Vec::new(),
            tasks: Vec::new(),
        };
        for number in 0..count {
            let (sender, receiver) = mpsc::channel(room);
            let shard = Shard {
                number,
                destination: Arc::clone(&self.destination),
                progress: Arc::clone(&self.progress),
                follower: orders.follow(),
            };
            shards.senders.push(sender);
            shards.tasks.push(self.runtime.spawn(shard.run(receiver)));
        }
        if self.is_open {
            self.destination.metrics.shards.set(count as f64);
        }
        shards
    }

    /// Reads and hands over until the shards are to end.
    fn pump(
        &mut self,
        reader: &mut QueueReader,
        spread: &mut Spread,
        shards: &Shards,
        orders: &Orders,
    ) -> Ending {
        let changes = self.destination.protocol.changes();
        let mut wanted = None;
        loop {
            let seen = self.destination.queue.signal.count();
            let order = self.orders.now();
            orders.send(order);
            let has_ended = shards.tasks.iter().any(Task::is_finished);
            if order >= Order::Finish || (has_ended && order > Order::Run) {
                return Ending::Over;
            }
            if has_ended || self.destination.protocol.changes() != changes {
                return Ending::Again;
            }
            self.split_if_wanted(reader);
            let mut is_end = wanted.is_some();
            if self.hand_over(spread, shards) && !is_end {
                match self.read(reader, spread) {
                    Read::Entry => continue,
                    Read::End => is_end = true,
                    Read::Nothing => is_end = order == Order::Flush,
                }
            }
            let next = spread.make_due(Instant::now(), is_end);
            if self.hand_over(spread, shards) && is_end && self.progress.lock().whole().is_idle() {
                return wanted.map_or(Ending::Over, Ending::Shards);
            }
            if wanted.is_none() {
                wanted = self.housekeep(reader);
                if self.destination.protocol.message() != spread.content() {
                    wanted = wanted.or(Some(shards.senders.len()));
                }
            }
            let wait = next.map_or(LOOK_INTERVAL, |next| {
                let wait = next.saturating_duration_since(Instant::now());
                wait.min(LOOK_INTERVAL)
            });
            // A shard that gives up at the end raises no signal.
            let wait = match order {
                Order::Run => wait,
                _ => wait.min(ENDING_LOOK_INTERVAL),
            };
            self.destination.queue.signal.wait(seen, wait);
        }
    }

    /// Leaves what came during an outage to this worker, and what comes from now on to another, where that is wanted.
    fn split_if_wanted(&mut self, reader: &mut QueueReader) {
        if !self.is_open || !self.destination.take_recovery() {
            return;
        }
        let until = self.destination.queue.rotate();
        let mut cursor = self.destination.cursor();
        if reader.position().file >= until.file || cursor.workers().len() >= MAX_WORKERS {
            return;
        }
        let shards = self.destination.config.queue.min_shards;
        let fresh = Arc::new(Mutex::new(Progress::new(&PendingRange {
            until: None,
            shards: vec![until; shards],
        })));
        self.progress.lock().whole().end_at(until);
        cursor.add(Arc::clone(&fresh));
        drop(cursor);
        reader.end_before(until.file);
        self.is_open = false;
        tracing::info!(
            remote_name = self.destination.name,
            "What waited for a remote end is sent beside what comes from now on."
        );
        if let Err(error) = self.workers.start(fresh) {
            tracing::error!(%error, "A thread for a remote end cannot be started: what comes waits for a restart.");
        }
    }

    /// Reads an entry, if there is one.
    fn read(&self, reader: &mut QueueReader, spread: &mut Spread) -> Read {
        let read = match reader.read(spread) {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(
                    remote_name = self.destination.name,
                    %error,
                    "The queue of a remote end cannot be read."
                );
                std::thread::sleep(READ_PAUSE);
                Read::Nothing
            }
        };
        let lost = reader.take_lost();
        if lost > 0 {
            self.destination.metrics.dropped(metrics::DAMAGED, lost);
        }
        let mut progress = self.progress.lock().whole();
        progress.read_to(reader.position(), spread.building());
        read
    }

    /// Hands requests to shards with room; returns whether none is left.
    fn hand_over(&self, spread: &mut Spread, shards: &Shards) -> bool {
        let all = spread.hand_over(|shard, batch, has_more| {
            // First the place, then the account, then the request, which may be acknowledged at once.
            let sender = shards.senders.get(shard);
            let Some(permit) = sender.and_then(|sender| sender.try_reserve().ok()) else {
                return Err(batch);
            };
            self.progress.lock().whole().hand_over(shard, has_more);
            permit.send(batch);
            Ok(())
        });
        if !all {
            self.destination.metrics.enqueue_retries.inc();
        }
        all
    }

    /// Does what is due from time to time; returns how many shards there shall be, if not as many as there are.
    fn housekeep(&mut self, reader: &QueueReader) -> Option<usize> {
        let now = Instant::now();
        self.destination.save();
        if !self.is_open {
            return None;
        }
        if now >= self.next_sync {
            self.next_sync = now + SYNC_INTERVAL;
            self.destination.queue.sync();
        }
        self.send_metadata(now, reader);
        if now < self.next_shards {
            return None;
        }
        self.next_shards = now + reshard::INTERVAL;
        let destination = &self.destination;
        let shards = self.progress.lock().whole().range().shards.len();
        let behind = destination.behind_seconds();
        let queue = &destination.config.queue;
        let (desired, wanted) = self.rates.tick(destination.totals(), behind, shards, queue);
        destination.metrics.shards_desired.set(desired);
        // While nothing is answered, more requests do not help.
        let interval_ms = i64::try_from(reshard::INTERVAL.as_millis()).unwrap_or(i64::MAX);
        wanted.filter(|_| destination.quiet_ms() <= interval_ms)
    }

    /// Sends metadata if it is due.
    fn send_metadata(&mut self, now: Instant, reader: &QueueReader) {
        let config = &self.destination.config.metadata;
        let is_wanted = config.send && self.destination.protocol.message() == crate::Message::V1;
        let is_sending = self
            .metadata
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if !is_wanted || now < self.next_metadata || is_sending {
            return;
        }
        let Some(symbols) = reader.symbols() else {
            return;
        };
        self.next_metadata = now + config.send_interval;
        let requests = metadata::requests(symbols, config.max_samples_per_send);
        let destination = Arc::clone(&self.destination);
        self.metadata = Some(self.runtime.spawn(metadata::send(destination, requests)));
    }
}
