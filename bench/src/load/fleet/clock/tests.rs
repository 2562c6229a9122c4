//! Tests of `clock`.

use super::*;

#[test]
fn a_fast_clock_reaches_the_present_and_stays_there() {
    let clock = Clock::new(10, Duration::from_secs(60));
    let began = clock.began_ms;
    assert_eq!(clock.at(began), began - 540_000);
    assert_eq!(clock.at(began + 1_000), began - 530_000);
    assert_eq!(clock.at(began + 60_000), began + 60_000);
    assert_eq!(clock.at(began + 90_000), began + 90_000);
    let plain = Clock::new(1, Duration::from_secs(60));
    assert_eq!(plain.at(plain.began_ms + 7), plain.began_ms + 7);
}
