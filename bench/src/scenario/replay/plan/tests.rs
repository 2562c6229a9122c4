//! Tests of `plan`.

use super::{super::corpus::tests::recording, *};
use narthex_testkit::TempDir;

const MINUTE_MS: i64 = 60_000;

/// Plans a recording of a round a minute.
fn plan(minutes: i64, arguments: &[&str]) -> Result<Plan, String> {
    let dir = TempDir::new("replay-plan");
    let bodies: Vec<String> = (0..=minutes).map(|at| format!("a {at}\n")).collect();
    dir.write("node.scrapes", recording(60_000, &bodies));
    dir.write("README.md", "no recording");
    let mut all = vec![format!("--corpus={}", dir.path().display())];
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let values = super::super::SCENARIO.values(&all).unwrap();
    Plan::from_values(&values).map_err(|error| error.to_string())
}

/// Returns how far behind the present the first and the last round are written, in minutes.
fn behind(plan: &Plan, minutes: i64) -> (i64, i64) {
    let now_ms = 1_000_000_000;
    let Times::Written { shift_ms } = plan.times(now_ms) else {
        panic!("real time");
    };
    let end_ms = now_ms + minutes * MINUTE_MS / i64::from(plan.compression);
    let (first, last) = (shift_ms, minutes * MINUTE_MS + shift_ms);
    ((now_ms - first) / MINUTE_MS, (end_ms - last) / MINUTE_MS)
}

#[test]
fn written_times_stay_within_what_servers_take_in_order() {
    let real = plan(40, &[]).unwrap();
    assert_eq!(real.times(5), Times::Scraped);
    assert_eq!((real.rounds, real.interval), (41, Duration::from_secs(60)));
    let short = plan(40, &["--compress-time=10"]).unwrap();
    assert_eq!((behind(&short, 40), short.past()), ((36, 0), None));
    let long = plan(70, &["--compress-time=10"]).unwrap();
    assert_eq!((behind(&long, 70), long.past()), ((55, -8), None));
    let cut = plan(300, &["--compress-time=10", "--rounds=71"]).unwrap();
    assert_eq!(behind(&cut, 70), (55, -8));
    let longest = plan(300, &["--compress-time=10"]).unwrap();
    assert_eq!(behind(&longest, 300), (270, 0));
    assert_eq!(longest.past(), Some(Duration::from_mins(330)));
    assert_eq!(longest.notes.len(), 1);
    let own = plan(300, &["--compress-time=10", "--own-times"]).unwrap();
    assert_eq!(
        (own.times(5), own.past(), own.notes.len()),
        (Times::Scraped, None, 0)
    );
}

#[test]
fn what_cannot_be_served_is_refused() {
    let refused = |arguments: &[&str]| plan(3, arguments).unwrap_err();
    assert_eq!(
        refused(&["--target=other"]),
        "--target: is none of the recorded ones"
    );
    assert_eq!(
        refused(&["--compress-time=0"]),
        "--compress-time: \"0\" is not a number from 1 to 1000"
    );
}
