//! A day of scraping, compressed: neither memory nor descriptors grow.
//!
//! `NARTHEX_TEST_SCALE=10` runs a day's 5,760 scrapes, one every 15 s.

use super::ours;
use crate::support::{Running, until};
use narthex_testkit::{TempDir, http, scaled};
use std::fs;

/// Scrapes before memory is compared. One right after the other, they let the allocator keep up to a mebibyte more than the
/// first ones for some seconds.
const WARM_UP: usize = 480;
const SCRAPES: u64 = 576;
/// What the allocator may keep for itself.
const SLACK_BYTES: u64 = 1 << 20;

/// Returns bytes of anonymous memory and the number of open descriptors.
fn usage(one: &Running) -> (u64, usize) {
    let dir = format!("/proc/{}", one.process.pid());
    let status = fs::read_to_string(format!("{dir}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    let descriptors = fs::read_dir(format!("{dir}/fd")).unwrap().count();
    (kilobytes.parse::<u64>().unwrap() << 10, descriptors)
}

#[test]
fn a_day_of_scrapes_leaks_nothing() {
    let files = TempDir::new("one-day");
    let directory = format!("--collector.textfile.directory={}", files.path().display());
    let flags = [
        "--collector.textfile",
        "--collector.processes",
        "--collector.tcpstat",
        "--collector.interrupts",
        "--collector.cost-metrics",
        &directory,
    ];
    let ours = ours(&flags);
    let url = format!("{}/metrics", ours.url);
    let gzip = [("accept-encoding", "gzip")];
    let scrape = |at: usize| {
        // Text files come, change and go, and so do the series in them.
        let file = files.join("jobs.prom");
        match at % 16 {
            0 => drop(fs::remove_file(&file)),
            one => {
                let line = |job: usize| format!("job_seconds{{job=\"{}\"}} {at}\n", one * 7 + job);
                let lines: String = (0..100).map(line).collect();
                fs::write(files.join("jobs.part"), lines).unwrap();
                fs::rename(files.join("jobs.part"), &file).unwrap();
            }
        }
        let headers = if at.is_multiple_of(2) { &gzip[..] } else { &[] };
        let answer = http::request("GET", &url, headers, &[]).unwrap();
        assert_eq!(answer.status, 200);
        if at.is_multiple_of(240) {
            // Somebody looks at the landing page once an hour.
            assert_eq!(http::get(&ours.url).unwrap().status, 200);
        }
    };
    (0..WARM_UP).for_each(scrape);
    let (before, descriptors) = usage(&ours);
    // The scrapes before have at most one connection that is not closed yet.
    let descriptors = descriptors + 1;
    let scrapes = usize::try_from(scaled(SCRAPES)).unwrap();
    (WARM_UP..WARM_UP + scrapes).for_each(scrape);
    let (after, _) = usage(&ours);
    assert!(
        after <= before + SLACK_BYTES,
        "{before} bytes became {after}"
    );
    // On a loaded machine, connections that were closed here are closed there somewhat later.
    until("no more descriptors than before", || {
        (usage(&ours).1 <= descriptors).then_some(())
    });
    ours.stop();
}
