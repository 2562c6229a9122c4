//! Templates shared by several origins.
//!
//! Replicas of a program send the same lines with other numbers. Their templates are one allocation, which stays in the
//! processor's cache from one target's body to the next; separate templates would be read from memory every time.
//!
//! **Invariant:** a template in the pool never changes; the pool by itself keeps none alive.

use super::line_template::LineTemplate;
use narthex_model::sync::Whole as _;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

/// All templates in use, by the hash of their contents.
static POOL: Mutex<Pool> = Mutex::new(Pool {
    templates: None,
    sweep_at: SMALLEST_SWEEP,
});

/// The pool is swept of dead entries at twice its size after the last sweep, but not below this size.
const SMALLEST_SWEEP: usize = 64;

struct Pool {
    templates: Option<HashMap<u64, Weak<LineTemplate>>>,
    sweep_at: usize,
}

/// Returns the shared copy of `template`.
pub(super) fn shared(template: LineTemplate) -> Arc<LineTemplate> {
    let hash = template.hash();
    let mut pool = POOL.lock().whole();
    let Pool {
        templates,
        sweep_at,
    } = &mut *pool;
    let templates = templates.get_or_insert_default();
    let known = templates.get(&hash).and_then(Weak::upgrade);
    if let Some(known) = known.filter(|known| **known == template) {
        return known;
    }
    let template = Arc::new(template);
    templates.insert(hash, Arc::downgrade(&template));
    if templates.len() >= *sweep_at {
        templates.retain(|_, template| template.strong_count() > 0);
        *sweep_at = (templates.len() * 2).max(SMALLEST_SWEEP);
    }
    template
}

#[cfg(test)]
mod tests {
    use super::super::line_template::{Learner, LineTemplate};
    use super::*;

    fn learned(body: &str, targets: &[u32]) -> LineTemplate {
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
    fn equal_templates_are_one_and_others_are_not() {
        let body = "pool_test_a{x=\"1\"} 1\npool_test_b 2\n";
        let one = shared(learned(body, &[0, 1]));
        let same = shared(learned(&body.replace(" 2", " 3"), &[0, 1]));
        assert!(Arc::ptr_eq(&one, &same), "values are no part of a template");
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
        let left = pool.templates.as_ref().unwrap().len();
        assert!(left <= 4 * SMALLEST_SWEEP, "{left} are left");
        drop(pool);
        assert!(Arc::ptr_eq(&kept, &shared(learned("pool_kept 2\n", &[0]))));
    }
}
