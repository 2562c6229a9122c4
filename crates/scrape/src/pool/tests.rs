//! Scrape times of a pool's targets.

use super::*;
use crate::buffers::Buffers;
use narthex_discovery::LabelMap;
use narthex_model::MemStore;
use std::sync::{Mutex, atomic::AtomicBool};

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        sink: Arc::new(MemStore::new()),
        buffers: Buffers::new(0),
        memory: crate::ScrapeMemory::default(),
        refusals: crate::memory::Refusals::default(),
        now_ms: Arc::new(|| 0),
        storage_fails: AtomicBool::new(false),
        failure_logs: crate::failure_log::FailureLogs::default(),
        labels_in_use: Mutex::default(),
    })
}

fn groups(addresses: &[&str]) -> [TargetGroup; 1] {
    let addresses = addresses.iter().map(|address| (*address).to_owned());
    [TargetGroup::of_addresses("g", addresses, LabelMap::new())]
}

/// Returns the first scrape time of each target that `addresses` adds.
fn times(pool: &mut Pool, addresses: &[&str]) -> Vec<i64> {
    let starts = pool.sync(&groups(addresses), &shared());
    starts.iter().map(|s| s.scraping.first_due(0)).collect()
}

#[test]
fn a_pool_keeps_the_seed_it_began_with() {
    let mut one = JobConfig::new("one");
    let pool = |job: &JobConfig, seed| Pool::new(job.clone(), &ClientConfig::default(), 0, seed);
    let (mut first, mut second) = (pool(&one, 1).unwrap(), pool(&one, 1 << 20).unwrap());
    assert_eq!(times(&mut first, &["a:1"]).len(), 1);
    let offset = times(&mut first, &["a:1", "b:1"]);
    assert_eq!(offset.len(), 1, "a:1 goes on");
    assert_ne!(offset, times(&mut second, &["b:1"]), "the other server's");
    // Changing how to scrape keeps the pool.
    one.metrics_path = "/other".to_owned();
    first.configure(one, &ClientConfig::default(), 1).unwrap();
    times(&mut first, &[]);
    let mut fresh = pool(first.job(), 1).unwrap();
    assert_eq!(times(&mut first, &["c:1"]), times(&mut fresh, &["c:1"]));
}

/// Ten kilobytes of it were those of a request, which is under way for a moment of each interval.
#[test]
fn a_waiting_loop_is_small() {
    let job = JobConfig::new("job");
    let mut pool = Pool::new(job, &ClientConfig::default(), 0, 1).unwrap();
    let starts = pool.sync(&groups(&["a:1"]), &shared());
    let Start { scraping, control } = starts.into_iter().next().unwrap();
    let (_stopper, stop) = narthex_net::Stopper::new();
    let run = scraping.run(control, stop);
    assert!(size_of_val(&run) < 4 << 10, "{} bytes", size_of_val(&run));
}
