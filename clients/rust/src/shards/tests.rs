//! Tests of which thread gets which shard.

use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use super::*;
use crate::range;

/// Held by a test that takes all shards, or that needs some.
static ALL: Mutex<()> = Mutex::new(());

/// Writes once, as any metric does, and returns whether it went to a leased shard.
fn writes_to_a_leased_shard(slot: Slot) -> bool {
    let mut owned = false;
    write(slot, 1, |cells| {
        cells.add(0, 1);
        owned = cells.owned;
    });
    assert_eq!(owned, MINE.get().is_some());
    owned
}

#[test]
fn shards_of_ended_threads_are_leased_again() {
    let _all = ALL.lock().unwrap();
    let slot = range::allocate(1).unwrap();
    // Far more threads than shards, one after the other. Tests elsewhere may hold all shards for a moment, but not for
    // most of these.
    let leased = (0..300).filter(|_| {
        thread::spawn(move || writes_to_a_leased_shard(slot))
            .join()
            .unwrap()
    });
    assert!(leased.count() > 100);
    assert_eq!(Reader::new().sum(slot, 1, 0), 300);
    range::release(slot, 1);
}

#[test]
fn threads_that_share_a_shard_lose_nothing() {
    let _all = ALL.lock().unwrap();
    let slot = range::allocate(2).unwrap();
    let threads = leasable() as usize + 3 * SHARED;
    let barrier = &Barrier::new(threads);
    let shared = &AtomicU64::new(0);
    let steps = if cfg!(miri) { 100 } else { 50_000 };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || {
                write(slot, 2, |_| ());
                barrier.wait();
                let (_, owned) = current();
                // Only those without a shard: if they have all CPUs to themselves, they meet more often.
                if !owned {
                    shared.fetch_add(1, Relaxed);
                    for _ in 0..steps {
                        write(slot, 2, |cells| {
                            cells.add(0, 1);
                            cells.add_f64(1, 0.5);
                        });
                    }
                }
                // No thread may end, and release its shard, before all have counted.
                barrier.wait();
            });
        }
    });
    let shared = shared.load(Relaxed);
    assert!(shared >= 2 * SHARED as u64, "{shared} threads share shards");
    let reader = Reader::new();
    assert_eq!(reader.sum(slot, 2, 0), shared * steps);
    assert_eq!(reader.sum_f64(slot, 2, 1), (shared * steps) as f64 * 0.5);
    range::release(slot, 2);
}

#[test]
fn a_thread_that_gave_its_shard_back_does_not_write_it_any_more() {
    struct AtTheEnd(mpsc::Sender<(bool, bool)>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            let given_back = LEASE.try_with(|_| ()).is_err();
            self.0.send((given_back, MINE.get().is_some())).unwrap();
        }
    }
    // One destructor is registered before the lease's and one after it, so that one of them runs later.
    thread_local!(static BEFORE: Cell<Option<AtTheEnd>> = const { Cell::new(None) });
    thread_local!(static AFTER: Cell<Option<AtTheEnd>> = const { Cell::new(None) });
    let slot = range::allocate(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        BEFORE.set(Some(AtTheEnd(sender.clone())));
        writes_to_a_leased_shard(slot);
        AFTER.set(Some(AtTheEnd(sender)));
    });
    thread.join().unwrap();
    let seen: Vec<(bool, bool)> = receiver.iter().collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.contains(&(true, false)), "{seen:?}");
    assert!(!seen.contains(&(true, true)), "{seen:?}");
    range::release(slot, 1);
}
