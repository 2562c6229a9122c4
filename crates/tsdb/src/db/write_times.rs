//! Times of the samples that were stored since a moment, for those who keep what they made of older ones.
//!
//! **Invariant:** a sample that a view taken after a mark may lack is among those stored since the mark. Its time is noted
//! when views see it, and a note that meets a mark under way counts as a later one.

use narthex_model::{storage::WriteMark, sync::Whole as _};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering, fence},
    },
    time::{Duration, Instant},
};

/// Moments that are told apart.
const MOMENTS: usize = 4096;
/// Shortest time between two of them, so that those who ask often do not soon outlive all others' marks.
const BETWEEN: Duration = Duration::from_millis(100);

/// The oldest times of samples, by the moment since which they were stored.
#[derive(Debug)]
pub(super) struct WriteTimes {
    /// The oldest time of each of the last moments.
    oldest_ms: Box<[AtomicI64]>,
    /// Number of the current moment.
    current: AtomicU64,
    /// One more than the moment at which samples were last removed.
    removed: AtomicU64,
    /// When the current moment began.
    begun: Mutex<Option<Instant>>,
}

impl WriteTimes {
    pub(super) fn new() -> Self {
        Self {
            oldest_ms: (0..MOMENTS).map(|_| AtomicI64::new(i64::MAX)).collect(),
            current: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            begun: Mutex::new(None),
        }
    }

    fn slot(&self, moment: u64) -> &AtomicI64 {
        &self.oldest_ms[moment as usize % MOMENTS]
    }

    /// Notes that samples of this time, and of no earlier one, were stored, and that views see them.
    pub(super) fn note(&self, oldest_ms: i64) {
        // Either this sees a mark, or whoever made it sees the samples.
        fence(Ordering::SeqCst);
        let slot = self.slot(self.current.load(Ordering::SeqCst));
        // Most samples are newer than one of their moment.
        if oldest_ms < slot.load(Ordering::Relaxed) {
            slot.fetch_min(oldest_ms, Ordering::SeqCst);
        }
    }

    /// Notes that samples were removed.
    pub(super) fn note_removed(&self) {
        fence(Ordering::SeqCst);
        let moment = self.current.load(Ordering::SeqCst);
        self.removed.fetch_max(moment + 1, Ordering::SeqCst);
    }

    /// Returns a mark of this moment.
    pub(super) fn mark(&self) -> WriteMark {
        let mut begun = self.begun.lock().whole();
        let now = Instant::now();
        let mut moment = self.current.load(Ordering::SeqCst);
        // What was stored earlier in the same moment counts as stored since.
        if begun.is_none_or(|begun| now.duration_since(begun) >= BETWEEN) {
            *begun = Some(now);
            moment += 1;
            self.slot(moment).store(i64::MAX, Ordering::SeqCst);
            self.current.store(moment, Ordering::SeqCst);
        }
        drop(begun);
        fence(Ordering::SeqCst);
        WriteMark(moment)
    }

    /// Returns the oldest time of samples stored since a mark, `i64::MAX` for none; `None` if that is not known.
    pub(super) fn oldest_since(&self, mark: WriteMark) -> Option<i64> {
        let current = self.current.load(Ordering::SeqCst);
        let moments = mark.0..=current;
        // The next mark takes the slot of the oldest.
        let is_known = current.checked_sub(mark.0)? < MOMENTS as u64 - 1;
        if !is_known || self.removed.load(Ordering::SeqCst) > mark.0 {
            return None;
        }
        let times = moments.map(|moment| self.slot(moment).load(Ordering::SeqCst));
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Ends the current moment.
    fn pass(times: &WriteTimes) {
        *times.begun.lock().unwrap() = None;
    }

    #[test]
    fn the_oldest_time_since_a_mark_is_that_of_any_later_moment() {
        let times = WriteTimes::new();
        times.note(5);
        let first = times.mark();
        assert_eq!(times.oldest_since(first), Some(i64::MAX));
        times.note(70);
        times.note(90);
        // It begins no moment: the last one is as good as new.
        assert_eq!(times.mark(), first);
        pass(&times);
        let second = times.mark();
        assert!(second > first);
        assert_eq!(times.oldest_since(first), Some(70));
        assert_eq!(times.oldest_since(second), Some(i64::MAX));
        times.note(60);
        assert_eq!(times.oldest_since(first), Some(60));
        assert_eq!(times.oldest_since(second), Some(60));
    }

    #[test]
    fn nothing_is_known_of_marks_before_a_removal_and_of_old_ones() {
        let times = WriteTimes::new();
        let first = times.mark();
        times.note_removed();
        assert_eq!(times.oldest_since(first), None);
        pass(&times);
        let mark = times.mark();
        times.note(7);
        for _ in 0..MOMENTS - 2 {
            assert_eq!(times.oldest_since(mark), Some(7));
            pass(&times);
            times.mark();
        }
        pass(&times);
        times.mark();
        assert_eq!(times.oldest_since(mark), None);
    }

    /// A reader that sees all rows up to one must be told of each later one.
    #[test]
    fn a_row_is_seen_or_noted() {
        let (times, rows) = (WriteTimes::new(), AtomicI64::new(0));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for row in 1.. {
                    rows.store(row, Ordering::Release);
                    times.note(row);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let ask = || {
                pass(&times);
                let mark = times.mark();
                let seen = rows.load(Ordering::Acquire);
                // The row after the last seen is noted when the next but one comes.
                while rows.load(Ordering::Acquire) < seen + 2 {
                    std::thread::yield_now();
                }
                (seen, times.oldest_since(mark))
            };
            let is_told = |(seen, oldest): &(i64, Option<i64>)| {
                oldest.is_some_and(|oldest| oldest <= seen + 1)
            };
            let untold = (0..narthex_testkit::scaled(3000))
                .map(|_| ask())
                .find(|asked| !is_told(asked));
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(
                untold, None,
                "rows that were seen, and the oldest that was noted"
            );
        });
    }
}
