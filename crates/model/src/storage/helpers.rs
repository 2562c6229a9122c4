//! Threads that help large queries read.
//!
//! **Invariant:** all who share `Helpers` together have at most as many at once as were allowed; results do not depend on who
//! computed what.

use crate::sync::Whole as _;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

/// Threads that help queries, shared by engines and stores.
#[derive(Clone, Debug)]
pub struct Helpers {
    free: Arc<AtomicUsize>,
    start: fn(),
    /// Work that a query does alone, in cells, and for how long.
    alone: (usize, Duration),
    /// When the query began; `None` where that is not known, so that each of its parts is taken for a query.
    begun: Option<Instant>,
}

/// Some two milliseconds of reading.
const ALONE: (usize, Duration) = (256 << 10, Duration::from_millis(2));

/// The right to one helping thread, until it is dropped.
#[derive(Debug)]
pub struct Helper {
    free: Arc<AtomicUsize>,
    start: fn(),
}

impl Helpers {
    /// Allows at most `most` threads at once, each of which calls `start` first.
    #[must_use]
    pub fn new(most: usize, start: fn()) -> Self {
        Self {
            free: Arc::new(AtomicUsize::new(most)),
            start,
            alone: ALONE,
            begun: None,
        }
    }

    /// Lets them help small queries too.
    #[must_use]
    pub fn at_once(self) -> Self {
        let alone = (0, Duration::ZERO);
        Self { alone, ..self }
    }

    /// Allows none: every query runs on its caller's thread alone.
    #[must_use]
    pub fn none() -> Self {
        Self::new(0, || ())
    }

    /// Returns the same for a query that begins now: its later parts are helped sooner.
    #[must_use]
    pub fn of_query(&self) -> Self {
        Self {
            begun: Some(Instant::now()),
            ..self.clone()
        }
    }

    /// Returns the same for a part of a query that is known to be so much work, in cells: if it is much it is helped at once.
    #[must_use]
    pub fn of_work(&self, work: usize) -> Self {
        let alone = self.alone.0;
        match work >= alone {
            true => self.clone().at_once(),
            false => self.clone(),
        }
    }

    /// Reports whether a query that did so much work, in cells, is to ask for help.
    #[must_use]
    pub fn are_due(&self, work: usize) -> bool {
        let (most, longest) = self.alone;
        work >= most || self.begun.is_some_and(|begun| begun.elapsed() >= longest)
    }

    /// Returns the right to a helper, if one is free.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Helper> {
        let less = |free: usize| free.checked_sub(1);
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(|_| Helper {
            free: Arc::clone(&self.free),
            start: self.start,
        })
    }

    /// Computes `work` of each item, and returns the results in the items' order. Helpers take part in what takes long.
    pub fn map<I: Sync, T: Send>(&self, items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
        let begun = self.begun.unwrap_or_else(Instant::now);
        let mut done = Vec::with_capacity(items.len());
        let mut left = items;
        while let Some((item, others)) = left.split_first() {
            done.push(work(item));
            left = others;
            if left.len() > 1
                && begun.elapsed() >= self.alone.1
                && let Some(helper) = self.try_acquire()
            {
                done.extend(map_together(left, helper, &work));
                break;
            }
        }
        done
    }
}

/// Computes `work` of each item with a helper.
fn map_together<I: Sync, T: Send>(
    items: &[I],
    helper: Helper,
    work: &(impl Fn(&I) -> T + Sync),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<T>>> = items.iter().map(|_| Mutex::default()).collect();
    let take_part = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        for at in numbers.take_while(|at| *at < items.len()) {
            *done[at].lock().whole() = Some(work(&items[at]));
        }
    };
    thread::scope(|scope| {
        helper.help(scope, take_part);
        take_part();
    });
    let result = |done: Mutex<Option<T>>| done.into_inner().whole().expect("all were computed");
    done.into_iter().map(result).collect()
}

impl Helper {
    /// Begins `work` on a thread of its own. There may be none: whoever calls does what others leave.
    pub fn help<'s>(self, scope: &'s Scope<'s, '_>, work: impl FnOnce() + Send + 's) {
        let help = move || {
            let helper = self;
            (helper.start)();
            work();
        };
        let thread = thread::Builder::new().name("narthex-query".to_owned());
        let _ = thread.spawn_scoped(scope, help);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many_at_once() {
        let helpers = Helpers::new(2, || ());
        let same = helpers.clone();
        let (first, second) = (helpers.try_acquire(), same.try_acquire());
        assert!(first.is_some() && second.is_some());
        assert!(helpers.try_acquire().is_none() && same.try_acquire().is_none());
        drop(first);
        assert!(helpers.try_acquire().is_some());
        assert!(Helpers::none().try_acquire().is_none());
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..50).collect();
        let expected: Vec<String> = items.iter().map(usize::to_string).collect();
        let caller = thread::current().id();
        let by_helpers = AtomicUsize::new(0);
        let work = |item: &usize| {
            // Long enough for the helper to begin, while the caller is in one item.
            thread::sleep(Duration::from_millis(1));
            let is_caller = thread::current().id() == caller;
            by_helpers.fetch_add(usize::from(!is_caller), Ordering::Relaxed);
            item.to_string()
        };
        let helpers = Helpers::new(1, || ());
        assert_eq!(Helpers::none().map(&items, work), expected);
        assert_eq!(helpers.map(&items[..1], work), expected[..1]);
        assert_eq!(helpers.map(&[], work), [""; 0]);
        assert_eq!(by_helpers.load(Ordering::Relaxed), 0);
        assert_eq!(helpers.map(&items, work), expected);
        assert_eq!(helpers.clone().at_once().map(&items, work), expected);
        assert!(by_helpers.load(Ordering::Relaxed) > 10);
        // A query that has taken long already is helped at once.
        let of_query = helpers.of_query();
        thread::sleep(ALONE.1);
        assert!(of_query.are_due(0) && !helpers.are_due(0));
        assert!(helpers.of_work(ALONE.0).are_due(0) && !helpers.of_work(ALONE.0 - 1).are_due(0));
        by_helpers.store(0, Ordering::Relaxed);
        let end = Instant::now() + Duration::from_secs(20);
        let until_helped = |item: &usize| {
            let is_caller = thread::current().id() == caller;
            by_helpers.fetch_add(usize::from(!is_caller), Ordering::Relaxed);
            while *item > 0 && by_helpers.load(Ordering::Relaxed) == 0 {
                assert!(Instant::now() < end, "nobody helps");
                thread::yield_now();
            }
            item.to_string()
        };
        assert_eq!(of_query.map(&items[..3], until_helped), expected[..3]);
        assert!(helpers.try_acquire().is_some(), "it is free again");
    }

    #[test]
    fn what_panics_in_a_helper_panics_in_its_caller() {
        let helpers = Helpers::new(1, || ()).at_once();
        let caller = thread::current().id();
        let map = || {
            helpers.map(&[0; 100], |_| {
                thread::sleep(Duration::from_millis(1));
                assert_eq!(thread::current().id(), caller);
            })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(map)).is_err());
        assert!(helpers.try_acquire().is_some(), "it is free again");
    }
}
