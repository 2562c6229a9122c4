//! Hints shared by several origins.
//!
//! Replicas of a program send the same lines with other numbers. Their hints are one allocation, which stays in the
//! processor's cache from one target's body to the next; separate hints would be read from memory every time.
//!
//! **Invariant:** a hint in the pool never changes; the pool by itself keeps none alive.

use super::hint::Hint;
use narthex_model::sync::Whole as _;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

/// All hints in use, by the hash of their contents.
static POOL: Mutex<Pool> = Mutex::new(Pool {
    hints: None,
    sweep_at: SMALLEST_SWEEP,
});

/// The pool is swept of dead entries at twice its size after the last sweep, but not below this size.
const SMALLEST_SWEEP: usize = 64;

struct Pool {
    hints: Option<HashMap<u64, Weak<Hint>>>,
    sweep_at: usize,
}

/// Returns the shared copy of `hint`.
pub(super) fn shared(hint: Hint) -> Arc<Hint> {
    let hash = hint.hash();
    let mut pool = POOL.lock().whole();
    let Pool { hints, sweep_at } = &mut *pool;
    let hints = hints.get_or_insert_default();
    let known = hints.get(&hash).and_then(Weak::upgrade);
    if let Some(known) = known.filter(|known| **known == hint) {
        return known;
    }
    let hint = Arc::new(hint);
    hints.insert(hash, Arc::downgrade(&hint));
    if hints.len() >= *sweep_at {
        hints.retain(|_, hint| hint.strong_count() > 0);
        *sweep_at = (hints.len() * 2).max(SMALLEST_SWEEP);
    }
    hint
}

#[cfg(test)]
mod tests {
    use super::super::hint::{Hint, Learner};
    use super::*;

    fn learned(body: &str, targets: &[u32]) -> Hint {
        let mut learner = Learner::default();
        let mut at = 0;
        for (line, target) in body.split_inclusive('\n').zip(targets) {
            let value_at = at + line.find(' ').unwrap() + 1;
            learner.line(body.as_bytes(), at, value_at, at + line.len(), *target);
            at += line.len();
        }
        learner.finish(body.as_bytes())
    }

    #[test]
    fn equal_hints_are_one_and_others_are_not() {
        let body = "pool_test_a{x=\"1\"} 1\npool_test_b 2\n";
        let one = shared(learned(body, &[0, 1]));
        let same = shared(learned(&body.replace(" 2", " 3"), &[0, 1]));
        assert!(Arc::ptr_eq(&one, &same), "values are no part of a hint");
        let columns = shared(learned(body, &[1, 0]));
        let lines = shared(learned("pool_test_a{x=\"2\"} 1\npool_test_b 2\n", &[0, 1]));
        assert!(!Arc::ptr_eq(&one, &columns) && !Arc::ptr_eq(&one, &lines));
    }

    #[test]
    fn the_pool_forgets_what_nobody_uses() {
        let kept = shared(learned("pool_kept 1\n", &[0]));
        for at in 0..10 * SMALLEST_SWEEP {
            shared(learned(&format!("pool_dropped_{at} 1\n"), &[0]));
        }
        let pool = POOL.lock().whole();
        let left = pool.hints.as_ref().unwrap().len();
        assert!(left <= 4 * SMALLEST_SWEEP, "{left} are left");
        drop(pool);
        assert!(Arc::ptr_eq(&kept, &shared(learned("pool_kept 2\n", &[0]))));
    }
}
