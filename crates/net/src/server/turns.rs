//! Turns of a connection: how long it is polled before others run.
//!
//! hyper, the channel of a request's body and our handlers are one task, and wake it while it is polled: at least once for
//! each piece of a body. A runtime of several threads puts such a task behind all others and wakes another thread, which
//! then takes it away from this CPU's caches. So a connection that was woken meanwhile is polled again at once.
//!
//! **Invariant:** no wake is lost, and a connection that always has something to do lets others run after each [`TURN`].

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Longest time for which a connection is polled again at once: much more than what it costs to begin a turn, and
/// less than others notice.
const TURN: Duration = Duration::from_micros(250);

/// Nobody polls, and no wake has come since.
const IDLE: u8 = 0;
const POLLED: u8 = 1;
/// A wake has come that no poll has followed yet.
const WOKEN: u8 = 2;

/// The turns of one connection.
#[derive(Debug, Default)]
pub(super) struct Turns {
    own: Option<(Arc<Own>, Waker)>,
}

/// What the connection is polled with in place of its task's waker.
#[derive(Debug)]
struct Own {
    state: AtomicU8,
    task: Waker,
}

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, AcqRel) == IDLE {
            self.task.wake_by_ref();
        }
    }
}

impl Turns {
    /// Polls until nothing is left to do, or the turn has ended.
    pub(super) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let (own, waker) = self.waker(context);
        let mut began = None;
        loop {
            // Whoever woke it before is followed by this poll; the swap makes what they did visible to it.
            own.state.swap(POLLED, AcqRel);
            let polled = poll(&mut Context::from_waker(waker));
            if polled.is_ready() {
                return polled;
            }
            let ended = own.state.compare_exchange(POLLED, IDLE, AcqRel, Acquire);
            if ended.is_ok() {
                return Poll::Pending;
            }
            let began = *began.get_or_insert_with(Instant::now);
            if began.elapsed() >= TURN {
                own.state.swap(IDLE, AcqRel);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Returns the waker for a poll of the connection's task, which nearly always has the same waker.
    fn waker(&mut self, context: &Context<'_>) -> &(Arc<Own>, Waker) {
        let task = context.waker();
        if self
            .own
            .as_ref()
            .is_some_and(|(own, _)| !own.task.will_wake(task))
        {
            self.own = None;
        }
        self.own.get_or_insert_with(|| {
            let own = Arc::new(Own {
                state: AtomicU8::new(IDLE),
                task: task.clone(),
            });
            let waker = Waker::from(Arc::clone(&own));
            (own, waker)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Counts the wakes of a task.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn task() -> (Arc<Task>, Waker) {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        (task, waker)
    }

    #[test]
    fn who_wakes_itself_is_polled_again_in_the_same_turn() {
        let (task, waker) = task();
        let (mut turns, mut polls) = (Turns::default(), 0);
        let polled: Poll<()> = turns.poll(&mut Context::from_waker(&waker), |context| {
            polls += 1;
            if polls < 4 {
                context.waker().wake_by_ref();
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, task.0.load(SeqCst)), (4, 0));
    }

    #[test]
    fn who_is_woken_between_polls_wakes_its_task_once() {
        let (task, waker) = task();
        let (mut turns, mut kept) = (Turns::default(), None);
        let mut poll = |turns: &mut Turns| {
            let polled: Poll<()> = turns.poll(&mut Context::from_waker(&waker), |context| {
                kept = Some(context.waker().clone());
                Poll::Pending
            });
            assert!(polled.is_pending());
            kept.clone().unwrap()
        };
        for round in 1..=3 {
            let kept = poll(&mut turns);
            kept.wake_by_ref();
            kept.wake();
            assert_eq!(task.0.load(SeqCst), round);
        }
    }

    /// A page that is made while it is sent always has another piece.
    #[test]
    fn who_never_rests_lets_others_run() {
        let (task, waker) = task();
        let (mut turns, start) = (Turns::default(), Instant::now());
        let polled: Poll<()> = turns.poll(&mut Context::from_waker(&waker), |context| {
            context.waker().wake_by_ref();
            Poll::Pending
        });
        assert!(polled.is_pending() && start.elapsed() >= TURN);
        assert_eq!(task.0.load(SeqCst), 1);
    }

    #[test]
    fn a_wake_after_a_turn_that_was_cut_is_not_lost() {
        let (task, waker) = task();
        let (mut turns, mut kept) = (Turns::default(), None);
        let _pending: Poll<()> = turns.poll(&mut Context::from_waker(&waker), |context| {
            kept = Some(context.waker().clone());
            context.waker().wake_by_ref();
            Poll::Pending
        });
        kept.unwrap().wake();
        assert_eq!(task.0.load(SeqCst), 2);
    }

    #[test]
    fn another_task_is_woken_once_it_polls() {
        let ((first, first_waker), (second, second_waker)) = (task(), task());
        let (mut turns, mut kept) = (Turns::default(), Vec::new());
        for waker in [&first_waker, &second_waker] {
            let _pending: Poll<()> = turns.poll(&mut Context::from_waker(waker), |context| {
                kept.push(context.waker().clone());
                Poll::Pending
            });
        }
        kept.pop().unwrap().wake();
        assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
    }

    /// Wakes from another thread at any moment: each is followed by a poll.
    #[test]
    fn wakes_from_other_threads_are_followed_by_polls() {
        let rounds = 20_000;
        let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
        let sent = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&sent);
        let waking = std::thread::spawn(move || {
            for waker in receiver {
                seen.fetch_add(1, SeqCst);
                waker.wake();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut turns, mut asked) = (Turns::default(), 0);
            let connection = std::future::poll_fn(|context| {
                turns.poll(context, |context| {
                    if asked == rounds {
                        return Poll::Ready(());
                    }
                    // The next one is asked for once the last one was seen.
                    if sent.load(SeqCst) == asked {
                        asked += 1;
                        sender.send(context.waker().clone()).unwrap();
                    }
                    Poll::Pending
                })
            });
            connection.await;
        });
        drop(sender);
        waking.join().unwrap();
    }
}
