//! Tests of the allocator.

use std::thread;

use super::*;

fn fresh() -> Space {
    Space {
        segment: 0,
        used: 1,
        free: BTreeMap::new(),
    }
}

#[test]
fn ranges_do_not_overlap_and_stay_in_their_segment() {
    let mut space = fresh();
    let mut last = (0, 1);
    for len in (1..=1000).chain([2, 1024, 1, 512, 16]) {
        let slot = space.allocate(len).expect("space left").raw();
        let (segment, offset) = (slot >> 26, slot & ((1 << 26) - 1));
        let len = len as u32;
        assert!(
            offset + len <= segment_len(segment),
            "{len} at {segment}/{offset}"
        );
        assert!((segment, offset) >= last, "{len} overlaps the one before");
        if len >= ALIGNED_FROM {
            assert_eq!(offset % ALIGNED_FROM, 0);
        }
        last = (segment, offset + len);
    }
}

#[test]
fn space_ends_without_a_panic() {
    let mut space = Space {
        segment: SEGMENTS - 1,
        used: segment_len(SEGMENTS - 1) - 3,
        free: BTreeMap::new(),
    };
    assert!(space.allocate(2).is_some());
    assert!(space.allocate(2).is_none());
}

#[test]
fn a_released_range_comes_back_zeroed() {
    // No other test in this binary uses the length 777.
    let mut range = Range::new();
    let slot = range.slot(777).expect("on");
    shards::write(slot, 777, |cells| {
        cells.add(776, 5);
    });
    assert_eq!(shards::Reader::new().sum(slot, 777, 776), 5);
    range.release(777);
    let again = allocate(777).expect("just released");
    assert_eq!(again, slot);
    assert_eq!(shards::Reader::new().sum(slot, 777, 776), 0);
}

#[test]
fn switching_off_before_the_first_use_keeps_the_range_empty() {
    let range = Range::new();
    range.set_enabled(false);
    assert_eq!(range.slot(2), None);
    assert_eq!(range.peek(), None);
    range.set_enabled(true);
    assert_eq!(range.peek(), Some(None));
    assert!(range.slot(2).is_some());
}

#[test]
fn a_switch_thrown_during_the_first_use_stays_thrown() {
    let rounds = if cfg!(miri) { 20 } else { 100_000 };
    let ranges: Vec<Range> = (0..rounds).map(|_| Range::new()).collect();
    let (arrived, ranges) = (&AtomicU32::new(0), &ranges);
    let meet = |round: usize| {
        arrived.fetch_add(1, Release);
        let mut spins = 0;
        while arrived.load(Acquire) < 2 * (round as u32 + 1) {
            // Spin, so that both continue at the same moment, unless the other one has no CPU.
            spins += 1;
            if spins > 10_000 {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(move || {
            for (i, range) in ranges.iter().enumerate() {
                meet(i);
                range.slot(3);
            }
        });
        for (i, range) in ranges.iter().enumerate() {
            meet(i);
            // Start at various moments of the other thread's work.
            (0..i % 16).for_each(|_| std::hint::spin_loop());
            range.set_enabled(false);
        }
    });
    assert!(ranges.iter().all(|range| !range.is_enabled()));
}
