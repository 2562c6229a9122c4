//! Groups that take little time are evaluated by the thread that waited for theirs: waking another thread, and being woken
//! by it, took a sixth of the time of ten thousand rules.
//!
//! While that thread evaluates, nobody waits for the times of other groups. A deputy looks from time to time whether it is
//! held up, and wakes another thread of the runtime to wait in its place.
//!
//! **Invariant:** a group that takes long unexpectedly delays others by a few seconds at most, and only once.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Time between two looks while groups are evaluated, and while there is nothing to see.
const TICK: Duration = Duration::from_millis(100);
const IDLE_TICK: Duration = Duration::from_secs(1);

/// Counts of evaluations by threads that would wait otherwise.
#[derive(Debug, Default)]
pub(super) struct Deputy {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Deputy {
    /// Returns a deputy for a runtime with several threads, `None` for any other.
    pub(super) fn new(runtime: &Handle) -> Option<Arc<Self>> {
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        let deputy = Arc::new(Self::default());
        let (watched, runtime) = (Arc::downgrade(&deputy), runtime.clone());
        let named = thread::Builder::new().name("narthex-deputy".to_owned());
        // Without it, groups are evaluated as if all took long.
        let spawned = named.spawn(move || watch(&watched, &runtime));
        spawned.ok().map(|_| deputy)
    }

    /// Does `work`, watched.
    pub(super) fn watched<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Ended<'a>(&'a AtomicU64);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.begun.fetch_add(1, Ordering::Relaxed);
        let _ended = Ended(&self.ended);
        work()
    }
}

/// Wakes a thread of the runtime whenever an evaluation runs and none began or ended since the last look.
fn watch(watched: &Weak<Deputy>, runtime: &Handle) {
    let mut before = (0, 0);
    let mut tick = IDLE_TICK;
    loop {
        thread::sleep(tick);
        let Some(deputy) = watched.upgrade() else {
            return;
        };
        let ended = deputy.ended.load(Ordering::Relaxed);
        let begun = deputy.begun.load(Ordering::Relaxed);
        if begun > ended && (begun, ended) == before {
            drop(runtime.spawn(async {}));
        }
        tick = if begun == before.0 { IDLE_TICK } else { TICK };
        before = (begun, ended);
    }
}
