//! A receiver over a store in memory, and the store's contents afterwards.

use narthex_model::{
    LabelSet, METRIC_NAME, Matcher, MemStore,
    cell::Cell,
    storage::{Context, Layout, Selector, SeriesQuery, Store, Tile, TimeRange},
};
use narthex_remote::{Message, Receiver, RemoteError, Written};
use narthex_testkit::remote_write::Request;
use std::{collections::BTreeMap, sync::Arc};

/// Fixed time of the receiver's clock.
pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

/// A receiver and its store.
pub(crate) struct Rig {
    pub(crate) store: MemStore,
    pub(crate) receiver: Receiver,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let store = MemStore::new();
        let receiver = Receiver::new(Arc::new(store.clone()), Arc::new(|| NOW_MS));
        Self { store, receiver }
    }

    /// Stores a request in version 1 and fails if any of it is rejected.
    pub(crate) fn store(&self, request: &Request) -> Written {
        let (written, refused) = self.receiver.store(Message::V1, &request.v1()).unwrap();
        assert!(refused.is_none(), "{refused:?}");
        written
    }

    /// Stores a request and returns what was written and the message for the sender.
    pub(crate) fn offer(&self, message: Message, request: &Request) -> (Written, String) {
        let body = match message {
            Message::V1 => request.v1(),
            Message::V2 => request.v2(),
            Message::Frames => unreachable!("requests are messages of remote write"),
        };
        let (written, refused) = self.receiver.store(message, &body).unwrap();
        (
            written,
            refused
                .as_ref()
                .map(RemoteError::to_string)
                .unwrap_or_default(),
        )
    }

    /// Lists all samples of the series of a metric, as text.
    pub(crate) fn samples(&self, metric: &str) -> BTreeMap<String, Vec<String>> {
        samples_of(&self.store, metric)
    }

    /// Lists all series.
    pub(crate) fn series(&self) -> Vec<LabelSet> {
        let view = self.store.view(TimeRange::ALL).unwrap();
        let query = SeriesQuery::all(TimeRange::ALL);
        view.series(&query, &Context::unlimited()).unwrap().items
    }
}

/// Lists all samples of the series of a metric in any store, as text.
pub(crate) fn samples_of(store: &dyn Store, metric: &str) -> BTreeMap<String, Vec<String>> {
    let ctx = Context::unlimited();
    let view = store.view(TimeRange::ALL).unwrap();
    let matchers = vec![Matcher::equal(METRIC_NAME, metric)];
    let prepared = view
        .prepare(&[Selector::new(matchers, TimeRange::ALL)], &ctx)
        .unwrap();
    let mut found = BTreeMap::new();
    for batch in prepared.batches(0, &ctx).unwrap() {
        let mut tile = Tile::default();
        let all: Vec<u32> = (0..batch.len() as u32).collect();
        batch
            .read(&all, TimeRange::ALL, Layout::SeriesMajor, &mut tile, &ctx)
            .unwrap();
        for series in 0..batch.len() {
            let samples = tile
                .times_ms
                .iter()
                .enumerate()
                .filter_map(|(row, time_ms)| {
                    let shown = match Cell::decode(tile.get(row, series)) {
                        Cell::Absent => return None,
                        Cell::Stale => "stale".to_owned(),
                        Cell::Float(value) => value.to_string(),
                        Cell::Histogram(at) => tile.histograms[at as usize].test_notation(),
                    };
                    Some(format!("{shown}@{}", time_ms - NOW_MS))
                });
            found.insert(batch.labels(series).to_string(), samples.collect());
        }
    }
    found
}
