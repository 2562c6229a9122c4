//! One group: what it remembers of bodies, and the state that scrapes read.
//!
//! **Invariant:** states are replaced whole: a push becomes visible in one step. Readers never wait for a push.

use crate::{
    decode::Shelf,
    forward::Forward,
    grouping::Grouping,
    registry::GroupId,
    state::{PushIds, State},
    text::{GroupLabels, write_group_labels},
};
use narthex_expfmt::Escaping;
use narthex_model::{LabelSet, storage::Lease, sync::Whole as _};
use std::sync::{Arc, Mutex};

/// A group, and the locks of its pushes.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) grouping: Grouping,
    pub(crate) common: LabelSet,
    /// The group's labels, as the page has them in lines of its own gauges and in others'.
    pub(crate) gauge_labels: Vec<u8>,
    pub(crate) labels: GroupLabels,
    pub(crate) pushing: Mutex<Pushing>,
    state: Mutex<Arc<State>>,
    /// Held by the one push of the group being worked on; others wait here without blocking a thread.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// State that only pushes use.
#[derive(Debug, Default)]
pub(crate) struct Pushing {
    /// Whether the group has been removed from the store.
    pub(crate) is_gone: bool,
    /// Decoders of bodies like its last ones.
    pub(crate) shelves: Vec<Arc<Shelf>>,
    /// Number of the newest journal file that holds the whole group.
    pub(crate) journal: u64,
    pub(crate) ids: PushIds,
    /// Memory of the group's contents, if it is bounded.
    pub(crate) lease: Option<Lease>,
    /// What the store's sink has of the group.
    pub(crate) forward: Option<Forward>,
}

impl Group {
    pub(crate) fn new(id: GroupId, grouping: Grouping) -> Self {
        let mut gauge_labels = Vec::new();
        write_group_labels(&mut gauge_labels, &grouping, Escaping::Underscores);
        Self {
            id,
            gauge_labels,
            labels: GroupLabels::new(&grouping, Escaping::Underscores),
            common: grouping.common().intern(),
            grouping,
            pushing: Mutex::default(),
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the contents.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().whole())
    }

    /// Makes new contents visible.
    pub(crate) fn set_state(&self, state: State) {
        *self.state.lock().whole() = Arc::new(state);
    }
}
