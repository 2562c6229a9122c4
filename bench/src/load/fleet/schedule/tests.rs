//! Tests of `schedule`.

use super::*;

#[test]
fn the_schedule_counts_what_is_missing_and_what_is_late() {
    let at = |target, at_ms| Answer {
        target,
        at_ms,
        us: 0,
        lag_us: 0,
        bytes: 1,
        samples: 1,
        first_value: 0.0,
    };
    let interval = Duration::from_secs(1);
    let steady: Vec<Answer> = (0..20)
        .flat_map(|n| [at(0, n * 1000 + 100), at(1, n * 1000 + 600)])
        .collect();
    let schedule = Schedule::read(&steady, 2, interval, 5_000, 15_000);
    assert_eq!(
        schedule,
        Schedule {
            answered: 20,
            ..Schedule::default()
        }
    );
    let mut uneven = steady.clone();
    uneven
        .iter_mut()
        .step_by(4)
        .for_each(|answer| answer.us = 250);
    let uneven = Schedule::read(&uneven, 2, interval, 5_000, 15_000);
    assert!((uneven.off_p99_ms - 0.25).abs() < 1e-6, "{uneven:?}");
    // Target 2 is never scraped; target 1 misses two scrapes and is off by 300 ms once.
    let mut gaps: Vec<Answer> = steady;
    gaps.retain(|answer| answer.target == 0 || !(7_000..9_000).contains(&answer.at_ms));
    gaps.iter_mut()
        .filter(|answer| answer.at_ms == 12_600)
        .for_each(|answer| answer.at_ms += 300);
    let schedule = Schedule::read(&gaps, 3, interval, 5_000, 15_000);
    assert_eq!((schedule.answered, schedule.missed), (18, 2 + 10));
    // The gap itself and both sides of the one that is off.
    assert_eq!((schedule.late, schedule.off_max_ms), (3, 2_000.0));
}
