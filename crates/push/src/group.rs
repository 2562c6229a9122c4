//! One group: what it remembers of bodies, and the state that scrapes read.
//!
//! **Invariant:** states are replaced whole: a push becomes visible in one step. Readers never wait for a push.

use crate::{
    decode::Decoder,
    family::{Content, Incoming, write_labels},
    forward::Forward,
    grouping::Grouping,
    registry::GroupId,
    state::{PushIds, State},
};
use narthex_expfmt::{Escaping, Format};
use narthex_model::{LabelSet, storage::Lease, sync::Whole as _};
use std::sync::{Arc, Mutex};

/// Kinds of bodies a group remembers, for senders that push different families in turn.
const MEMORIES: usize = 4;
/// Bytes at the start of a body that determine its kind.
const KIND_BYTES: usize = 64;

/// A group, and the locks of its pushes.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) grouping: Grouping,
    pub(crate) common: LabelSet,
    /// The group's labels alone, as the page shows them.
    pub(crate) labels: Vec<u8>,
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
    memories: Vec<(u64, Option<Decoder>)>,
    /// Number of the newest journal file that holds the whole group.
    pub(crate) journal: u64,
    pub(crate) ids: PushIds,
    /// Memory of the group's contents, if it is bounded.
    pub(crate) lease: Option<Lease>,
    /// What the store's sink has of the group.
    pub(crate) forward: Option<Forward>,
}

impl Pushing {
    /// Returns the memory for bodies of this one's kind.
    pub(crate) fn memory(&mut self, format: Format, body: &[u8]) -> &mut Option<Decoder> {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        format.hash(&mut hasher);
        let start = &body[..body.len().min(KIND_BYTES)];
        let line = start
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        line.hash(&mut hasher);
        let kind = hasher.finish();
        let at = match self.memories.iter().position(|(known, _)| *known == kind) {
            Some(at) => at,
            None => {
                if self.memories.len() == MEMORIES {
                    self.memories.remove(0);
                }
                self.memories.push((kind, None));
                self.memories.len() - 1
            }
        };
        &mut self.memories[at].1
    }

    /// Forgets all bodies.
    pub(crate) fn forget(&mut self) {
        self.memories.clear();
    }
}

impl Group {
    pub(crate) fn new(id: GroupId, grouping: Grouping) -> Self {
        let mut labels = Vec::new();
        write_labels(
            &mut labels,
            &LabelSet::empty(),
            &grouping,
            Escaping::Underscores,
        );
        Self {
            id,
            labels,
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

/// How a push changes a family.
#[derive(Debug)]
pub(crate) enum Update {
    /// Neither series nor numbers change.
    Same(Arc<Content>),
    /// Only numbers change.
    Numbers(Arc<Content>),
    /// The family is new or its series change.
    Whole(Arc<Content>),
}

impl Update {
    /// Compares a pushed family with the stored one.
    pub(crate) fn new(incoming: Incoming, state: &State, grouping: &Grouping) -> Self {
        let Incoming { shape, numbers } = incoming;
        let stored = state
            .find(&shape.name)
            .ok()
            .map(|at| &state.families[at].content);
        match stored {
            Some(content) if Arc::ptr_eq(&content.shape, &shape) => {
                if content.numbers.are(&numbers) {
                    Self::Same(Arc::clone(content))
                } else {
                    Self::Numbers(Arc::new(content.with(shape, numbers, grouping)))
                }
            }
            // Equal but not the same shape: storing this one lets the next push match by pointer.
            Some(content) if content.shape == shape => {
                Self::Numbers(Arc::new(content.with(shape, numbers, grouping)))
            }
            _ => Self::Whole(Arc::new(Content::new(shape, numbers, grouping))),
        }
    }

    pub(crate) fn content(&self) -> &Arc<Content> {
        match self {
            Self::Same(content) | Self::Numbers(content) | Self::Whole(content) => content,
        }
    }
}
