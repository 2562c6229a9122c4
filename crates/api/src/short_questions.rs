//! Questions that took little time when they were last asked.
//!
//! **Invariant:** a question may be taken for another with the same hash, so whoever relies on its being short has a limit.

use std::{
    hash::{BuildHasher as _, Hash, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Longest time that a short question took.
const SHORT: Duration = Duration::from_micros(500);
/// Questions that are known, 32 KiB.
const PLACES: usize = 1 << 12;

/// Hashes of questions, each in the place that it leads to.
pub(crate) struct ShortQuestions {
    places: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for ShortQuestions {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::default()).collect(),
            hasher: RandomState::default(),
        }
    }
}

/// What a question is known by.
#[derive(Clone, Copy)]
pub(crate) struct QuestionKey(u64);

impl ShortQuestions {
    /// Returns the key of a question: of all that decides how long its answer takes, as far as it stays the same from one time
    /// that it is asked to the next.
    pub(crate) fn key(&self, question: impl Hash) -> QuestionKey {
        QuestionKey(self.hasher.hash_one(question))
    }

    fn place(&self, QuestionKey(hash): QuestionKey) -> Option<&AtomicU64> {
        let place = usize::try_from(hash % PLACES as u64).ok()?;
        self.places.get(place)
    }

    /// Reports whether a question took little time.
    pub(crate) fn contains(&self, key: QuestionKey) -> bool {
        let place = self.place(key);
        place.is_some_and(|place| place.load(Ordering::Relaxed) == key.0)
    }

    /// Notes how long a question took.
    pub(crate) fn note(&self, key: QuestionKey, took: Duration) {
        let (Some(place), QuestionKey(hash)) = (self.place(key), key) else {
            return;
        };
        if took <= SHORT {
            place.store(hash, Ordering::Relaxed);
        } else {
            // Another one may have taken the place.
            let _ = place.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
