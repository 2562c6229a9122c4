//! Tests of `measure`.

use super::*;

#[test]
fn a_thread_that_ended_leaves_the_count_to_clock_ticks() {
    let threads = |ran: &[(&str, u64)], ticks| Threads {
        ran: ran
            .iter()
            .map(|(name, ns)| ((*name).to_owned(), Duration::from_nanos(*ns)))
            .collect(),
        ticks: Duration::from_millis(ticks),
    };
    let before = threads(&[("1", 100), ("2", 50)], 10);
    let after = threads(&[("1", 180), ("2", 50), ("3", 5)], 30);
    assert_eq!(after.since(&before), Duration::from_nanos(85));
    let gone = threads(&[("1", 180)], 30);
    assert_eq!(gone.since(&before), Duration::from_millis(20));
    let own = Threads::read(i32::try_from(std::process::id()).unwrap()).unwrap();
    assert!(own.ran.values().any(|ran| !ran.is_zero()));
}
