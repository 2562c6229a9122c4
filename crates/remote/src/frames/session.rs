//! Sessions of senders: what their requests have defined, and which request comes next.

use super::head::{Head, SessionId};
use crate::{
    error::RemoteError,
    metrics,
    place::Place,
    queue::{FileDecoder, SeriesRef},
    receiver::{Stored, Written},
};
use foldhash::fast::RandomState;
use narthex_model::{
    storage::{Budget, Lease, OverBudget},
    sync::Whole as _,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

/// Most sessions; beyond, the one that was used least recently is forgotten.
const MOST_SESSIONS: usize = 1 << 14;
/// Time without requests after which a session is forgotten.
const IDLE_MS: i64 = 30 * 60_000;

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionId, Arc<Entry>, RandomState>>);

/// A session, and when it was last used.
#[derive(Debug)]
pub(super) struct Entry {
    used_ms: AtomicI64,
    /// `None` once it is forgotten.
    pub(super) state: Mutex<Option<Session>>,
}

/// What a session has defined.
#[derive(Debug)]
pub(super) struct Session {
    /// Number of the request that comes next.
    pub(super) next: u64,
    done: Option<Done>,
    pub(super) decoder: FileDecoder,
    pub(super) columns: Columns,
    /// Number of families that are stored.
    pub(super) families: usize,
    /// Memory of the columns.
    pub(super) lease: Lease,
}

/// The last answer.
#[derive(Debug)]
struct Done {
    crc: u32,
    written: Written,
    refused: Option<String>,
}

/// Series of a session, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Indices of strips' columns in the lists below.
    pub(super) strips: Vec<Vec<u32>>,
    pub(super) strip_indices: HashMap<u32, u32, RandomState>,
    /// Indices of series outside of strips, by the number of their set.
    pub(super) sets: HashMap<u32, u32, RandomState>,
    pub(super) series: Vec<Column>,
    /// Where samples of the series go; valid for those looked up in the current epoch.
    pub(super) places: Vec<Place>,
    /// Generation of the series cache that the places are of.
    pub(super) generation: u64,
}

/// A series of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) series: SeriesRef,
    /// Its key in the series cache.
    pub(super) key: u128,
    /// When its place was last looked up; 0 for never.
    pub(super) epoch: u32,
}

impl Columns {
    /// Returns the heap bytes held, about.
    pub(super) fn heap_bytes(&self) -> usize {
        // A series has an index in a strip or in the table of sets.
        self.series.capacity() * (size_of::<Column>() + size_of::<Place>() + 16)
            + self.strips.capacity() * 48
    }
}

impl Session {
    fn new(memory: &Budget) -> Result<Self, OverBudget> {
        Ok(Self {
            next: 0,
            done: None,
            decoder: FileDecoder::within(memory)?,
            columns: Columns::default(),
            families: 0,
            lease: memory.lease(0)?,
        })
    }

    /// Returns the answer of the last request if it is sent again.
    pub(super) fn answer_again(&self, sequence: u64, crc: u32) -> Option<Stored> {
        let done = self.done.as_ref()?;
        let is_again = sequence.checked_add(1) == Some(self.next) && crc == done.crc;
        let refused = |detail: &String| RemoteError::Refused {
            detail: detail.clone(),
        };
        is_again.then(|| (done.written, done.refused.as_ref().map(refused)))
    }

    /// Goes on to the next request.
    pub(super) fn finish(&mut self, crc: u32, written: Written, refused: Option<&RemoteError>) {
        self.next += 1;
        self.done = Some(Done {
            crc,
            written,
            refused: refused.map(ToString::to_string),
        });
    }
}

/// Returns the error that makes a sender begin another session.
pub(super) fn lost(detail: &str) -> RemoteError {
    RemoteError::Session {
        detail: detail.to_owned(),
    }
}

impl Sessions {
    /// Returns the session of a request, which begins if it is its first.
    ///
    /// # Errors
    /// Fails if the session is not known, or there is no memory for another one.
    pub(super) fn find(
        &self,
        head: &Head<'_>,
        memory: &Budget,
        now_ms: i64,
    ) -> Result<Arc<Entry>, RemoteError> {
        let mut sessions = self.0.lock().whole();
        if let Some(entry) = sessions.get(&head.session) {
            entry.used_ms.store(now_ms, Ordering::Relaxed);
            return Ok(Arc::clone(entry));
        }
        if head.sequence > 0 {
            return Err(lost("the session is not known"));
        }
        if let Some(replaced) = &head.replaced {
            sessions.remove(replaced);
        }
        if sessions.len() >= MOST_SESSIONS {
            let used_ms = |entry: &Entry| entry.used_ms.load(Ordering::Relaxed);
            let oldest = sessions.iter().min_by_key(|(_, entry)| used_ms(entry));
            let oldest = oldest.map(|(id, _)| *id);
            oldest.and_then(|id| sessions.remove(&id));
        }
        let entry = Arc::new(Entry {
            used_ms: AtomicI64::new(now_ms),
            state: Mutex::new(Some(Session::new(memory)?)),
        });
        sessions.insert(head.session, Arc::clone(&entry));
        show(sessions.len());
        Ok(entry)
    }

    /// Forgets a session.
    pub(super) fn forget(&self, id: &SessionId) {
        let mut sessions = self.0.lock().whole();
        sessions.remove(id);
        show(sessions.len());
    }

    /// Forgets sessions that were not used for long.
    pub(crate) fn sweep(&self, now_ms: i64) {
        let mut sessions = self.0.lock().whole();
        sessions.retain(|_, entry| {
            // After the clock was set back, a session may have been used in the future.
            let used_ms = entry.used_ms.fetch_min(now_ms, Ordering::Relaxed);
            now_ms.saturating_sub(used_ms) < IDLE_MS
        });
        sessions.shrink_to_fit();
        show(sessions.len());
    }
}

fn show(sessions: usize) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    metrics::SESSIONS.set(sessions as f64);
}
