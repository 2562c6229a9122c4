//! The pool's counters while tasks hang and recover.
//!
//! Invariant: no test depends on time. `UntilStuck` lets the pool check again exactly when no thread can continue, so
//! the number of threads is the same however slowly any of them runs.

use narthex_model::sync::Whole as _;
use std::collections::HashSet;

use super::*;

/// Set of hanging tasks, and the number of threads that hang in one.
#[derive(Default)]
struct Gate {
    inner: Mutex<(HashSet<&'static str>, usize)>,
    changed: Condvar,
}

impl Gate {
    fn hang(&self, name: &'static str) {
        lock(&self.inner).0.insert(name);
    }

    fn open(&self) {
        lock(&self.inner).0.clear();
        self.changed.notify_all();
    }

    fn blocked(&self) -> usize {
        lock(&self.inner).1
    }
}

struct Gated {
    gate: Arc<Gate>,
    name: &'static str,
}

impl Job for Gated {
    fn run(&self) {
        let mut inner = lock(&self.gate.inner);
        inner.1 += 1;
        while inner.0.contains(self.name) {
            let woken = self.gate.changed.wait(inner);
            inner = woken.whole();
        }
        inner.1 -= 1;
    }
}

/// Waits until nothing proceeds without help: every thread hangs and tasks are queued, or only hanging tasks are left.
struct UntilStuck(Arc<Gate>);

impl Patience for UntilStuck {
    fn wait<'q, J>(
        &mut self,
        done: &Condvar,
        mut queue: MutexGuard<'q, Queue<J>>,
    ) -> (MutexGuard<'q, Queue<J>>, bool) {
        loop {
            let blocked = self.0.blocked();
            let all_hang = blocked == queue.threads;
            let nothing_left = queue.tasks.is_empty() && blocked == queue.pending + queue.late;
            if queue.pending == 0 || nothing_left || (all_hang && !queue.tasks.is_empty()) {
                let time_is_up = nothing_left && queue.pending > 0;
                return (queue, time_is_up);
            }
            // Only releases the lock: how often this polls does not affect the result.
            let step = done.wait_timeout(queue, Duration::from_millis(1));
            queue = step.whole().0;
        }
    }
}

struct Rig {
    gate: Arc<Gate>,
    pool: Pool<Gated>,
    tasks: Vec<Arc<Task<Gated>>>,
}

impl Rig {
    fn new(workers: usize) -> Self {
        Self::with(workers, SlowFrom(Duration::MAX))
    }

    fn with(workers: usize, slow_from: SlowFrom) -> Self {
        let gate = Arc::new(Gate::default());
        let tasks = ["/a", "/b", "/c", "/d"].map(|name| {
            Task::new(Gated {
                gate: gate.clone(),
                name,
            })
        });
        Self {
            pool: Pool::new("test", workers, slow_from),
            tasks: tasks.into(),
            gate,
        }
    }

    fn round(&mut self) {
        self.pool.ask(self.tasks.iter()).expect("threads start");
        self.pool
            .wait(self.tasks.iter(), UntilStuck(self.gate.clone()))
            .expect("threads start");
    }

    /// Returns pending, late and queued tasks; threads.
    fn books(&self) -> ((usize, usize, usize), usize) {
        let queue = lock(&self.pool.shared.queue);
        (
            (queue.pending, queue.late, queue.tasks.len()),
            queue.threads,
        )
    }
}

#[test]
fn every_run_is_pending_or_late_until_it_ends() {
    let mut rig = Rig::new(2);
    rig.round();
    assert_eq!(rig.books(), ((0, 0, 0), 1), "one thread does them all");

    // Tasks stop answering one after the other; tasks that hang already are not counted again.
    for (hung, path) in ["/a", "/b", "/c"].into_iter().enumerate() {
        rig.gate.hang(path);
        rig.round();
        assert_eq!(rig.books(), ((0, hung + 1, 0), hung + 2), "{path}");
        rig.round();
        assert_eq!(rig.books(), ((0, hung + 1, 0), hung + 2), "{path}");
        let fresh = rig.tasks.iter().filter(|task| task.waiting().is_none());
        assert_eq!(fresh.count(), 3 - hung);
    }

    rig.gate.open();
    // The late runs end when their threads get to it; nothing waits for them, so poll.
    while rig.books().0 != (0, 0, 0) {
        thread::yield_now();
    }
    rig.round();
    assert_eq!(
        rig.books(),
        ((0, 0, 0), 4),
        "three that hung and one that worked"
    );
}

#[test]
fn hanging_threads_do_not_count_against_the_limit() {
    let mut rig = Rig::new(1);
    for path in ["/a", "/b", "/c", "/d"] {
        rig.gate.hang(path);
    }
    rig.round();
    // Four hang in four threads, although one worker is the limit.
    assert_eq!(rig.books(), ((0, 4, 0), 4));
    rig.round();
    assert_eq!(rig.books(), ((0, 4, 0), 4), "all are late: nobody is asked");
    rig.gate.open();
    while rig.books().0 != (0, 0, 0) {
        thread::yield_now();
    }
}

/// A collector that always took longer than a round waits cost every scrape that wait.
#[test]
fn a_task_whose_run_was_slow_is_not_waited_for_until_one_was_quick() {
    const SLOW: Duration = Duration::from_millis(50);
    let mut rig = Rig::with(1, SlowFrom(SLOW));
    rig.gate.hang("/a");
    rig.round();
    assert_eq!(rig.books().0, (0, 1, 0));
    thread::sleep(SLOW);
    rig.gate.open();
    while rig.books().0 != (0, 0, 0) {
        thread::yield_now();
    }
    rig.gate.hang("/a");
    rig.pool.ask(rig.tasks[..1].iter()).expect("threads start");
    assert_eq!((rig.books().0.0, rig.books().0.1), (0, 1));
    rig.gate.open();
    // On a busy machine even a run that does nothing may take long.
    loop {
        while rig.books().0 != (0, 0, 0) {
            thread::yield_now();
        }
        rig.gate.hang("/a");
        rig.pool.ask(rig.tasks[..1].iter()).expect("threads start");
        let is_waited_for = rig.books().0.0 == 1;
        rig.gate.open();
        if is_waited_for {
            break;
        }
    }
}
