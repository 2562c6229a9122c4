//! Tests of `paced`.

use super::*;

#[test]
fn a_stall_delays_what_was_due_behind_it() {
    let class = Class {
        key: "x",
        rate: 500.0,
        workers: 1,
    };
    let none = Class { rate: 0.0, ..class };
    let mut load = PacedLoad::start(&[none, class], |at| {
        assert_eq!(at, 1);
        Box::new(|number| {
            if number == 10 {
                thread::sleep(Duration::from_millis(300));
            }
            number != 11
        })
    })
    .unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while load.events()[1].1.len() < 150 {
        assert!(Instant::now() < end, "the load does not go on");
        thread::sleep(Duration::from_millis(5));
    }
    load.stop();
    let (first, second) = (&load.events()[0], &load.events()[1]);
    assert!(first.1.is_empty());
    let events = &second.1;
    assert_eq!(events.iter().filter(|event| !event.is_success).count(), 1);
    let all = latencies(events, events[0].due, Instant::now());
    // 150 requests were due during the stall; only one was sent before it ended.
    assert!(all.corrected.quantile_ms(0.9) > 50.0);
    assert!(all.uncorrected.quantile_ms(0.9) < all.corrected.quantile_ms(0.9));
    // The worker was busy: none of these is a late start.
    assert!(events[11..100].iter().any(|event| !event.was_awaited));
}
