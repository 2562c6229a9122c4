//! Tests of `scraper`.

use super::*;
use crate::load::tests::stall_server::{StallServer, Stalls};

#[test]
fn samples_are_lines_that_are_no_comments() {
    assert_eq!(samples(b"# HELP a b\n# TYPE a counter\na 1\n\nb 2\n"), 2);
    assert_eq!(samples(b""), 0);
}

#[test]
fn scrapes_go_on_until_it_is_over() {
    let never = Stalls {
        every: Duration::from_secs(1),
        length: Duration::ZERO,
    };
    let server = StallServer::start(never).unwrap();
    let is_over = AtomicBool::new(false);
    let new = || Scraper::new("x", &[server.address()], "/", Duration::from_secs(60));
    let scrapes = thread::scope(|scope| {
        let scraping = scope.spawn(|| new().until(&is_over, Duration::from_millis(10)));
        let mut probe = new();
        for _ in 0..20 {
            assert_eq!(probe.once().unwrap().bytes, 3);
            thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Release);
        scraping.join().unwrap()
    });
    let scrapes: Vec<Scrape> = scrapes.into_iter().map(Result::unwrap).collect();
    assert!(!scrapes.is_empty());
    assert!(scrapes.is_sorted_by(|a, b| a.at <= b.at));
    assert!(scrapes.iter().all(|scrape| scrape.samples == 1));
}
