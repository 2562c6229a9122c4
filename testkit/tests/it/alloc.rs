//! The counting allocator counts what a thread asks for, and bounds are kept.

use std::panic::{AssertUnwindSafe, catch_unwind};

use narthex_testkit::alloc::{bounded, measured, process, thread};

#[test]
fn what_a_thread_allocates_is_counted() {
    let ((kept, dropped), used) = measured(|| {
        let mut kept: Vec<u8> = Vec::with_capacity(1000);
        kept.reserve_exact(3000);
        let dropped = vec![0_u8; 500].len();
        (kept, dropped)
    });
    assert_eq!(dropped, 500);
    assert_eq!(used.live_bytes, 3000);
    assert_eq!(used.peak_bytes, 3500);
    assert_eq!(used.total_bytes, 3500);
    assert_eq!(used.calls, 3);
    let live = thread().live_bytes;
    drop(kept);
    assert_eq!(thread().live_bytes, live - 3000);
}

#[test]
fn measurements_nest_and_leave_the_outer_peak() {
    let (inner, outer) = measured(|| {
        drop(vec![0_u8; 10_000]);
        let kept = vec![0_u8; 100];
        let ((), inner) = measured(|| drop(vec![0_u8; 200]));
        drop(kept);
        inner
    });
    assert_eq!(inner.peak_bytes, 200);
    assert_eq!(outer.peak_bytes, 10_000);
}

#[test]
fn other_threads_are_counted_for_the_process_alone() {
    let before = process().total_bytes;
    let ((), used) = measured(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| drop(vec![0_u8; 1 << 20]));
        });
    });
    assert!(used.peak_bytes < 1 << 16, "{used:?}");
    assert!(process().total_bytes - before >= 1 << 20);
}

fn refusal(f: impl FnOnce()) -> String {
    let cause = catch_unwind(AssertUnwindSafe(f)).expect_err("it is refused");
    cause.downcast_ref::<String>().expect("a text").clone()
}

#[test]
fn a_bound_is_kept() {
    bounded(b"abcd", 2, 8, |data| drop(vec![0_u8; 4 * data.len()]));
    let text = refusal(|| {
        bounded(b"abcd", 2, 8, |data| drop(vec![0_u8; 4 * data.len() + 1]));
    });
    assert!(
        text.contains("4 bytes of input took 17 bytes of memory at once"),
        "{text}"
    );
    let text = refusal(|| {
        bounded(b"abcd", 2, 8, |_| (0..9).for_each(|_| drop(vec![0_u8; 16])));
    });
    assert!(text.contains("allocated 144 bytes in all"), "{text}");
}

/// The bombs found in reviews look like this: a length in the input is trusted.
#[test]
fn an_amplifying_input_is_found() {
    let text = refusal(|| {
        narthex_testkit::mutate::Mutator::new(1).run(&[b"\x01\0\0"], 10_000, |data| {
            bounded(data, 16, 64, |data| {
                let len = data.iter().take(3).fold(0, |n, b| n << 8 | usize::from(*b));
                drop(Vec::<u8>::with_capacity(len));
            });
        });
    });
    assert!(text.contains("of memory at once"), "{text}");
}
