//! Schedules of entries, and what a reload does to them.

use narthex_files::{Entry, FilesConfig, FilesManager, ManagerConfig, RoundSource};
use narthex_model::{
    MemStore,
    storage::{Sink, StorageError},
    sync::Whole as _,
};
use narthex_net::Stopper;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

/// What sources did, and a bell for it.
#[derive(Clone, Default)]
struct Log(Arc<(Mutex<Vec<String>>, Notify)>);

impl Log {
    fn note(&self, text: String) {
        self.0.0.lock().whole().push(text);
        self.0.1.notify_one();
    }

    fn count(&self, text: &str) -> usize {
        let log = self.0.0.lock().whole();
        log.iter().filter(|line| *line == text).count()
    }

    /// Waits until there are more than `count` lines of this text.
    async fn more_than(&self, text: &str, count: usize) {
        let waiting = async {
            while self.count(text) <= count {
                self.0.1.notified().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.unwrap_or_else(|_| panic!("no {text:?} came"));
    }
}

struct Noting {
    name: &'static str,
    log: Log,
    panics: bool,
}

impl RoundSource for Noting {
    fn round(&mut self, _: i64, _: &dyn Sink) -> Result<(), StorageError> {
        self.log.note(format!("{} round", self.name));
        assert!(!self.panics, "a source that panics");
        Ok(())
    }

    fn end(&mut self, _: i64, _: &dyn Sink) -> Result<(), StorageError> {
        self.log.note(format!("{} end", self.name));
        Ok(())
    }
}

fn entry(job: &str, interval_ms: u64, name: &'static str, log: &Log) -> Entry {
    let config = FilesConfig {
        interval: Duration::from_millis(interval_ms),
        ..FilesConfig::new(job)
    };
    let source = Noting {
        name,
        log: log.clone(),
        panics: name == "panics",
    };
    Entry {
        config,
        source: Box::new(source),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_leaves_alone_what_did_not_change() {
    let (stopper, stop) = Stopper::new();
    let config = ManagerConfig {
        sink: Arc::new(MemStore::new()),
        now_ms: Arc::new(|| 0),
        runtime: tokio::runtime::Handle::current(),
    };
    let (manager, log) = (FilesManager::new(config, stop), Log::default());
    manager.apply(vec![
        entry("stays", 10, "stays", &log),
        entry("changes", 10, "before", &log),
        entry("goes", 10, "goes", &log),
        entry("panics", 10, "panics", &log),
    ]);
    for name in ["stays", "before", "goes", "panics"] {
        // A panic does not end the schedule.
        log.more_than(&format!("{name} round"), 1).await;
    }
    manager.apply(vec![
        entry("stays", 10, "unused", &log),
        entry("changes", 20, "after", &log),
    ]);
    log.more_than("after round", 0).await;
    log.more_than("goes end", 0).await;
    log.more_than("stays round", log.count("stays round")).await;
    // The old source ended its series before the new one began.
    assert_eq!((log.count("before end"), log.count("unused round")), (1, 0));
    {
        let lines = log.0.0.lock().whole();
        let at = |text: &str| lines.iter().position(|line| line == text).unwrap();
        assert!(at("before end") < at("after round"), "{lines:?}");
    }
    stopper.stop();
    manager.join().await;
    // The end of the process is not the end of the series.
    assert_eq!((log.count("stays end"), log.count("after end")), (0, 0));
}
