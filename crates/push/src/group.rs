//! One group: its memory of bodies, and the state that scrapes read.
//!
//! **Invariant:** a state is whole: what a push stores becomes visible in one step. Whoever reads states waits for no push.

use crate::{
    decode::{Decoder, Incoming},
    family::{Content, write_labels},
    grouping::Grouping,
    registry::GroupId,
};
use narthex_expfmt::{Escaping, Format};
use narthex_model::{LabelSet, sync::Whole as _};
use std::sync::{Arc, Mutex};

/// Kinds of bodies a group remembers: senders that push different families in turn have one each.
const MEMORIES: usize = 4;
/// Bytes at the beginning of a body that tell its kind.
const KIND_BYTES: usize = 64;

/// A group and the lock of its pushes.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) grouping: Grouping,
    pub(crate) common: LabelSet,
    /// The labels of the group alone, as the page shows them.
    pub(crate) labels: Vec<u8>,
    pub(crate) pushing: Mutex<Pushing>,
    state: Mutex<Arc<State>>,
    /// One push of a group is worked on at a time; others wait here, without a thread.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// What a push needs for itself.
#[derive(Debug, Default)]
pub(crate) struct Pushing {
    /// Whether the group has left the store.
    pub(crate) is_gone: bool,
    memories: Vec<(u64, Option<Decoder>)>,
    /// The journal this group has been written to whole.
    pub(crate) journal: u64,
}

/// What a group holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Whether anything was ever pushed, with success or without.
    pub(crate) exists: bool,
    /// In order of their names.
    pub(crate) families: Vec<Stored>,
    /// Times in nanoseconds since the Unix epoch, 0 for never.
    pub(crate) pushed_ns: i64,
    pub(crate) failed_ns: i64,
    /// When it expires, if it does.
    pub(crate) ttl_ms: Option<u64>,
    /// Bytes of the last body.
    pub(crate) body_bytes: usize,
}

/// A family and when it was pushed.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) content: Arc<Content>,
    pub(crate) pushed_ns: i64,
}

impl State {
    /// Returns the place of a family, or where it would be.
    pub(crate) fn find(&self, name: &str) -> Result<usize, usize> {
        let families = &self.families;
        families.binary_search_by(|stored| (*stored.content.shape.name).cmp(name))
    }

    /// Returns the number of series.
    pub(crate) fn series(&self) -> usize {
        self.families
            .iter()
            .map(|stored| stored.content.cells.len())
            .sum()
    }

    /// Returns whether the last push was stored.
    pub(crate) fn is_last_push_stored(&self) -> bool {
        self.failed_ns <= self.pushed_ns
    }
}

impl Pushing {
    /// Returns the memory of bodies that begin as this one does.
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

    /// Returns what it holds.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().whole())
    }

    /// Makes a state visible.
    pub(crate) fn set_state(&self, state: State) {
        *self.state.lock().whole() = Arc::new(state);
    }
}

/// What becomes of a family that a push brings.
#[derive(Debug)]
pub(crate) enum Update {
    /// Its numbers are what they were.
    Same(Arc<Content>),
    /// Its series are what they were.
    Numbers(Arc<Content>),
    /// It is not what it was.
    Whole(Arc<Content>),
}

impl Update {
    /// Compares what came with what is stored.
    pub(crate) fn new(incoming: Incoming, state: &State, grouping: &Grouping) -> Self {
        let Incoming {
            shape,
            cells,
            natives,
        } = incoming;
        let stored = state
            .find(&shape.name)
            .ok()
            .map(|at| &state.families[at].content);
        match stored {
            Some(content) if Arc::ptr_eq(&content.shape, &shape) => {
                if content.has_numbers(&cells, &natives) {
                    Self::Same(Arc::clone(content))
                } else {
                    Self::Numbers(Arc::new(content.with(shape, cells, natives, grouping)))
                }
            }
            // From here on the shape is the one that the next push brings too.
            Some(content) if content.shape == shape => {
                Self::Numbers(Arc::new(content.with(shape, cells, natives, grouping)))
            }
            _ => Self::Whole(Arc::new(Content::new(shape, cells, natives, grouping))),
        }
    }

    pub(crate) fn content(&self) -> &Arc<Content> {
        match self {
            Self::Same(content) | Self::Numbers(content) | Self::Whole(content) => content,
        }
    }
}
