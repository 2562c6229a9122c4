//! What has to be done for pushed groups from time to time.
//!
//! **Invariant:** groups expire and the journal is synced once more after the last request.

use narthex_push::Store;
use std::{
    io,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How often the journal is synced and expired groups are removed.
const UPKEEP: Duration = Duration::from_secs(1);
/// How often groups are handed to a sink while nobody pushes to them: Prometheus' default scrape interval.
const REPEAT_MS: u64 = 60_000;

/// The thread that syncs the journal, removes expired groups, and hands the others to a sink again if there is one.
pub(super) struct Upkeep {
    thread: JoinHandle<()>,
    stop: mpsc::Sender<()>,
}

impl Upkeep {
    pub(super) fn start(store: Arc<Store>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            loop {
                let ended = stopped.recv_timeout(UPKEEP) != Err(mpsc::RecvTimeoutError::Timeout);
                store.expire();
                if !ended {
                    store.repeat(REPEAT_MS);
                }
                store.maintain();
                if ended {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("narthex-push".into())
            .spawn(work);
        Ok(Self {
            thread: thread?,
            stop,
        })
    }

    pub(super) fn join(self) {
        // Fails only when the thread has ended already.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("Keeping the push journal ended with a panic.");
        }
    }
}

/// Returns the wall clock, in nanoseconds since the Unix epoch.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
