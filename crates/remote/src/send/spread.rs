//! Spreads what is read from the queue over shards, and makes requests of it.
//!
//! **Invariant:** a series belongs to one shard as long as their number is the same, in every process. A sample that its
//! shard has acknowledged is passed over.

use super::{
    batch::Batch,
    destination::Destination,
    encode::{Pushed, RequestBuilder},
    metrics,
};
use crate::Message;
use crate::queue::{Item, Position, Symbols, Value, Visit};
use std::{collections::VecDeque, sync::Arc, time::Instant};

/// The requests under construction, one for each shard.
pub(super) struct Spread {
    destination: Arc<Destination>,
    content: Message,
    changes: u64,
    builders: Vec<Building>,
    /// Where the entry being read begins, and how many of its items and samples came.
    entry: Position,
    items: u64,
    samples: u64,
    /// Time before which samples are too old, as of the entry.
    oldest_ms: i64,
    /// What each shard had acknowledged before this process, or before it began anew.
    resume: Vec<Position>,
    /// The farthest of those; no item behind it was acknowledged.
    resumed: Position,
    message: Vec<u8>,
}

struct Building {
    builder: RequestBuilder,
    /// When its first sample came.
    since: Option<Instant>,
    newest_ms: i64,
    until: Position,
    /// Requests that are made and wait for room in the shard.
    made: VecDeque<Batch>,
}

impl Building {
    fn has_more(&self) -> bool {
        self.since.is_some() || !self.made.is_empty()
    }
}

impl Spread {
    pub(super) fn new(destination: Arc<Destination>, resume: Vec<Position>) -> Self {
        let changes = destination.protocol.changes();
        let content = destination.protocol.message();
        let building = |_| Building {
            builder: RequestBuilder::new(content),
            since: None,
            newest_ms: i64::MIN,
            until: Position::default(),
            made: VecDeque::new(),
        };
        Self {
            builders: (0..resume.len()).map(building).collect(),
            entry: Position::default(),
            items: 0,
            samples: 0,
            oldest_ms: i64::MIN,
            resumed: resume.iter().copied().max().unwrap_or_default(),
            resume,
            message: Vec::new(),
            content,
            changes,
            destination,
        }
    }

    /// Returns what the requests are made of.
    pub(super) fn content(&self) -> Message {
        self.content
    }

    /// Returns for each shard whether a request is under construction or waits for room.
    pub(super) fn building(&self) -> impl Iterator<Item = bool> + '_ {
        self.builders.iter().map(Building::has_more)
    }

    /// Hands requests that are made to `send`, shard by shard, until it has no room; returns whether all went.
    ///
    /// `send` is told whether the shard has more samples that were read, and gives back what it has no room for.
    pub(super) fn hand_over(
        &mut self,
        mut send: impl FnMut(usize, Batch, bool) -> Result<(), Batch>,
    ) -> bool {
        let mut all = true;
        for (shard, building) in self.builders.iter_mut().enumerate() {
            while let Some(batch) = building.made.pop_front() {
                if let Err(batch) = send(shard, batch, building.has_more()) {
                    building.made.push_front(batch);
                    all = false;
                    break;
                }
            }
        }
        all
    }

    /// Makes requests of what is under construction since the deadline, or of everything; returns when the next is due.
    pub(super) fn make_due(&mut self, now: Instant, all: bool) -> Option<Instant> {
        let deadline = self.destination.config.queue.batch_send_deadline;
        let mut next: Option<Instant> = None;
        for shard in 0..self.builders.len() {
            let Some(since) = self.builders[shard].since else {
                continue;
            };
            let due = since + deadline;
            if all || due <= now {
                self.make(shard);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    /// Returns the limit on a request's samples.
    fn most(&self) -> u64 {
        self.destination.config.queue.max_samples_per_send as u64
    }

    fn make(&mut self, shard: usize) {
        let building = &mut self.builders[shard];
        self.message.clear();
        let counts = building.builder.finish(&mut self.message);
        let compression = self.destination.protocol.compression();
        let batch = Batch {
            body: compression.compress(&self.message),
            message: self.content,
            compression,
            changes: self.changes,
            counts,
            newest_ms: building.newest_ms,
            until: building.until,
        };
        building.since = None;
        building.newest_ms = i64::MIN;
        building.made.push_back(batch);
    }

    /// Counts an item that is not sent.
    fn leave_out(&self, item: &Item<'_>, reason: &'static str) {
        let metrics = &self.destination.metrics;
        match item.value {
            Value::Float(_) => metrics.dropped(reason, 1),
            Value::Histogram(_) => {
                metrics.dropped(reason, 1);
                metrics.dropped_histograms(reason, 1);
            }
            Value::Nothing => {}
        }
        if !item.exemplars.is_empty() {
            metrics.dropped_exemplars(reason, item.exemplars.len() as u64);
        }
    }
}

impl Visit for Spread {
    fn entry(&mut self, at: Position) {
        let is_other_file = at.file != self.entry.file;
        let most = self.most();
        for shard in 0..self.builders.len() {
            let builder = &self.builders[shard].builder;
            if builder.ends_with_round(most) || (is_other_file && builder.ends_with_file()) {
                self.make(shard);
            }
            if is_other_file {
                self.builders[shard].builder.begin_file();
            }
        }
        self.entry = at;
        self.items = 0;
        self.samples = 0;
        self.oldest_ms = self.destination.oldest_ms();
    }

    fn item(&mut self, symbols: &Symbols, item: Item<'_>) {
        let at = Position {
            index: self.items,
            sample: self.entry.sample + self.samples,
            ..self.entry
        };
        self.items += 1;
        self.samples += u64::from(item.value != Value::Nothing);
        let hash = item.series.hash(symbols);
        let shard = ((u128::from(hash) * self.builders.len() as u128) >> 64) as usize;
        if at < self.resumed && at < self.resume[shard] {
            return;
        }
        if item.time_ms < self.oldest_ms {
            return self.leave_out(&item, metrics::TOO_OLD);
        }
        let most = self.most();
        let building = &mut self.builders[shard];
        match building.builder.push(symbols, &item) {
            Pushed::Added => {}
            Pushed::CustomBuckets => return self.leave_out(&item, metrics::CUSTOM_BUCKETS),
            Pushed::LoneExemplar => return self.leave_out(&item, metrics::LONE_EXEMPLAR),
        }
        building.since.get_or_insert_with(Instant::now);
        building.newest_ms = building.newest_ms.max(item.time_ms);
        building.until = Position {
            index: self.items,
            sample: self.entry.sample + self.samples,
            ..self.entry
        };
        if building.builder.is_full(most) {
            self.make(shard);
        }
    }
}
