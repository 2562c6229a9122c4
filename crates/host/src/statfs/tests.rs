//! The pool's books while mounts hang and come back.

use std::collections::HashSet;

use super::*;

#[derive(Default)]
struct Gate {
    hanging: Mutex<HashSet<CString>>,
    opened: Condvar,
}

struct Gated(Arc<Gate>);

impl Statfs for Gated {
    fn statfs(&self, path: &std::ffi::CStr) -> Result<FsStat, Errno> {
        let mut hanging = lock(&self.0.hanging);
        while hanging.contains(path) {
            hanging = self
                .0
                .opened
                .wait(hanging)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(FsStat::default())
    }
}

fn round(pool: &mut Pool, mounts: &[Arc<Mount>], wait: Duration) {
    pool.ask(mounts.iter()).expect("threads start");
    pool.wait(mounts.iter(), Instant::now() + wait)
        .expect("threads start");
}

/// Pending, late, queued.
fn books(pool: &Pool) -> (usize, usize, usize) {
    let queue = lock(&pool.shared.queue);
    (queue.pending, queue.late, queue.mounts.len())
}

#[test]
fn every_call_is_pending_or_late_until_it_is_answered() {
    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(10);
    let gate = Arc::new(Gate::default());
    let mut pool = Pool::new(Box::new(Gated(gate.clone())), 2);
    let mounts: Vec<_> = ["/a", "/b", "/c", "/d"]
        .map(|path| Mount::new(CString::new(path).expect("no zero byte")))
        .into();
    let hang = |path: &str| lock(&gate.hanging).insert(CString::new(path).expect("no zero byte"));

    round(&mut pool, &mounts, LONG);
    assert_eq!(books(&pool), (0, 0, 0));
    // A second worker starts when the first is slow to take the calls.
    assert!((1..=2).contains(&pool.threads), "{}", pool.threads);

    // One after the other stops answering; what hung before is not counted again.
    for (hung, path) in ["/a", "/b", "/c"].into_iter().enumerate() {
        hang(path);
        round(&mut pool, &mounts, SHORT);
        assert_eq!(books(&pool), (0, hung + 1, 0), "{path}");
        round(&mut pool, &mounts, LONG);
        assert_eq!(books(&pool), (0, hung + 1, 0), "{path}");
        let fresh = mounts
            .iter()
            .filter(|mount| mount.answer().waiting.is_none())
            .count();
        assert_eq!(fresh, 3 - hung);
    }
    // Three that hang and one or two that work.
    assert!((4..=5).contains(&pool.threads), "{}", pool.threads);
    let threads = pool.threads;

    lock(&gate.hanging).clear();
    gate.opened.notify_all();
    let end = Instant::now() + LONG;
    while books(&pool) != (0, 0, 0) {
        assert!(Instant::now() < end, "{:?}", books(&pool));
        thread::yield_now();
    }
    round(&mut pool, &mounts, LONG);
    assert_eq!((books(&pool), pool.threads), ((0, 0, 0), threads));
}
