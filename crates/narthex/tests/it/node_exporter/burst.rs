//! Many scrapes at once: what they took is given back soon afterwards.

use super::ours;
use crate::support::{Running, until};
use narthex_testkit::{http, proc::ProcFile};
use std::{fs, thread};

fn resident_kb(one: &Running, part: &str) -> u64 {
    let status = ProcFile::read(one.process.pid(), "status").unwrap();
    status.number(part).unwrap()
}

/// Ten seconds after the start the pages of the program are given back anyway: this is about those that bursts and the
/// landing page leave later.
#[test]
fn memory_of_bursts_and_rare_pages_is_given_back() {
    let ours = ours(&[]);
    let url = format!("{}/metrics", ours.url);
    assert_eq!(http::get(&url).unwrap().status, 200);
    let first = resident_kb(&ours, "RssFile:");
    until("the pages of the start are given back", || {
        (resident_kb(&ours, "RssFile:") < first / 2).then_some(())
    });
    let burst = || {
        thread::scope(|scope| {
            for _ in 0..30 {
                scope.spawn(|| {
                    let gzip = [("accept-encoding", "gzip")];
                    let answer = http::request("GET", &url, &gzip, &[]).unwrap();
                    assert_eq!(answer.status, 200);
                });
            }
        });
    };
    let landing = || assert_eq!(http::get(&ours.url).unwrap().status, 200);
    for work in [&burst as &dyn Fn(), &landing] {
        work();
        let after = resident_kb(&ours, "RssFile:");
        until("the memory of more work than usual is given back", || {
            (resident_kb(&ours, "RssFile:") < after / 2).then_some(())
        });
    }
    ours.stop();
}

/// A scrape runs a thirtieth of the program, spread over all of it, and the kernel mapped 64 KiB or more around each page.
#[test]
fn the_kernel_maps_little_around_a_page_that_is_used() {
    const PIECE_BYTES: u64 = 32 << 10;
    let ours = ours(&[]);
    let maps = fs::read_to_string(format!("/proc/{}/maps", ours.process.pid())).unwrap();
    let hex = |text| u64::from_str_radix(text, 16).unwrap();
    let code = maps.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (from, to) = fields[0].split_once('-').unwrap();
        let is_code =
            fields[1] == "r-xp" && fields.last().is_some_and(|path| path.contains("narthex"));
        is_code.then(|| hex(to) - hex(from))
    });
    let code: Vec<u64> = code.collect();
    assert!(code.len() > 100, "{maps}");
    assert!(code.iter().all(|bytes| *bytes <= PIECE_BYTES), "{maps}");
    ours.stop();
}
