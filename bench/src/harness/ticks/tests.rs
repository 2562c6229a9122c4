//! Tests of `ticks`.

use super::*;

fn ticks(all: impl Iterator<Item = (u64, u64)>) -> Ticks {
    let tick = |(seconds, counted)| Tick {
        at: Duration::from_secs(seconds),
        disk_bytes: counted * 1_000_000,
        counted,
        ..Tick::default()
    };
    Ticks {
        started: Instant::now(),
        all: all.map(tick).collect(),
    }
}

#[test]
fn readings_become_levels_and_rates() {
    let ticks = ticks([(1, 10), (2, 30), (4, 30), (5, 25)].into_iter());
    let level = &ticks.disk_courses()[1];
    assert_eq!(
        (level.key.as_str(), level.unit.as_str()),
        ("data directory", "MB")
    );
    assert_eq!(
        level.points,
        [[1.0, 10.0], [2.0, 30.0], [4.0, 30.0], [5.0, 25.0]]
    );
    let rate = &ticks.courses(Some(("pushes", "a second")))[2];
    assert_eq!(rate.points, [[2.0, 20.0], [4.0, 0.0], [5.0, 0.0]]);
}

#[test]
fn long_runs_are_thinned() {
    let ticks = ticks((0..1000).map(|at| (at, at)));
    let level = &ticks.disk_courses()[1];
    assert_eq!((level.points.len(), level.points[1]), (250, [4.0, 4.0]));
}
