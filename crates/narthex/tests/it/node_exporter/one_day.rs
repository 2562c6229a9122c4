//! A day of scraping, compressed: neither memory nor descriptors grow.
//!
//! `NARTHEX_TEST_SCALE=10` runs a day's 5,760 scrapes, one every 15 s.

use super::ours;
use crate::support::{Running, until};
use narthex_testkit::{TempDir, http, proc::ProcFile, scaled};
use std::fs;

/// Scrapes before memory is compared.
const WARM_UP: usize = 480;
const SCRAPES: u64 = 576;
/// When usage is printed, for the record.
const MARKS: [usize; 9] = [51, 481, 961, 1_921, 2_881, 3_841, 4_801, 5_761, 6_239];
const OPENMETRICS: (&str, &str) = ("accept", "application/openmetrics-text;version=1.0.0");
const PROTOBUF: (&str, &str) = (
    "accept",
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
);
/// What the allocator may keep for itself.
const SLACK_KB: u64 = 1 << 10;

#[derive(Debug)]
#[expect(dead_code, reason = "all of it is printed")]
struct Usage {
    resident_kb: u64,
    anonymous_kb: u64,
    descriptors: usize,
    threads: u64,
}

fn usage(one: &Running) -> Usage {
    let pid = one.process.pid();
    let status = ProcFile::read(pid, "status").unwrap();
    let number = |name: &str| status.number(name).unwrap();
    Usage {
        resident_kb: number("VmRSS:"),
        anonymous_kb: number("RssAnon:"),
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        threads: number("Threads:"),
    }
}

/// Waits, right after a scrape, until what the scrapes had taken is given back.
fn settled(one: &Running) -> Usage {
    let file_kb = |usage: &Usage| usage.resident_kb - usage.anonymous_kb;
    let busy = file_kb(&usage(one));
    until("memory is given back", || {
        Some(usage(one)).filter(|usage| file_kb(usage) < busy / 2)
    })
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
    let gzip = ("accept-encoding", "gzip");
    let styles = [
        &[][..],
        &[gzip],
        &[OPENMETRICS],
        &[OPENMETRICS, gzip],
        &[PROTOBUF],
        &[PROTOBUF, gzip],
    ];
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
        let answer = http::request("GET", &url, styles[at % styles.len()], &[]).unwrap();
        assert_eq!(answer.status, 200);
        if MARKS.contains(&at) {
            println!("after {at} scrapes {:?}", usage(&ours));
        }
        if at.is_multiple_of(240) {
            // Somebody looks at the landing page once an hour.
            assert_eq!(http::get(&ours.url).unwrap().status, 200);
        }
    };
    (0..WARM_UP).for_each(scrape);
    let before = settled(&ours);
    // The scrapes before have at most one connection that is not closed yet.
    let descriptors = before.descriptors + 1;
    let scrapes = usize::try_from(scaled(SCRAPES)).unwrap();
    (WARM_UP..WARM_UP + scrapes).for_each(scrape);
    let after = settled(&ours);
    assert!(
        after.anonymous_kb <= before.anonymous_kb + SLACK_KB,
        "{before:?}, then {after:?}"
    );
    // On a loaded machine, connections that were closed here are closed there somewhat later.
    until("no more descriptors than before", || {
        (usage(&ours).descriptors <= descriptors).then_some(())
    });
    ours.stop();
}
