//! Tests that panics are counted once, under the interrupted task, with their location.

use super::*;
use crate::stop::Stopper;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_panic_is_counted_under_its_task_and_says_where_it_was() {
    log_panics();
    assert_eq!(catch_panic("calm", || 7), Ok(7));
    assert_eq!(panics_total("calm"), 0);
    let line = line!() + 1;
    let caught = catch_panic("wild", || panic!("no {}", "way")).map(|()| 0);
    let caught = caught.expect_err("it panicked");
    assert_eq!((caught.task, caught.message.as_str()), ("wild", "no way"));
    let place = format!("src/panics/tests.rs:{line}:");
    let text = caught.to_string();
    assert!(
        text.contains(&place) && text.ends_with(": no way"),
        "{text}"
    );
    assert_eq!(panics_total("wild"), 1);
}

#[test]
fn a_panic_that_nobody_catches_is_counted_too() {
    log_panics();
    // Another test's panic counts as well, so expect at least one more.
    let before = panics_total(UNSUPERVISED);
    std::thread::spawn(|| panic!("alone"))
        .join()
        .expect_err("it panicked");
    assert!(panics_total(UNSUPERVISED) > before);
}

#[test]
fn what_catches_inside_leaves_the_task_outside_as_it_was() {
    log_panics();
    let outer = catch_panic("outer", || {
        let inner = catch_panic("inner", || panic!("inside"));
        assert_eq!(inner.expect_err("it panicked").task, "inner");
        panic!("outside")
    });
    let outer: Panicked = outer.map(|()| 0).expect_err("it panicked");
    assert_eq!((outer.task, outer.message.as_str()), ("outer", "outside"));
    assert_eq!((panics_total("inner"), panics_total("outer")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_started_again_ever_later_until_it_ends_or_is_stopped() {
    let (_stopper, stop) = Stopper::new();
    let starts = AtomicUsize::new(0);
    let began = Instant::now();
    keep_running("patient", &stop, || async {
        tokio::task::yield_now().await;
        assert!(starts.fetch_add(1, Ordering::Relaxed) == 4, "not yet");
    })
    .await;
    assert_eq!(starts.load(Ordering::Relaxed), 5);
    assert_eq!(panics_total("patient"), 4);
    assert_eq!(began.elapsed().as_secs(), 1 + 2 + 4 + 8);

    let (stopper, stop) = Stopper::new();
    stopper.stop();
    keep_running("stopped", &stop, || async { panic!("again") }).await;
    assert_eq!(panics_total("stopped"), 1);
}
