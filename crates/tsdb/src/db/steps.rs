//! Distinguishes steps of the wall clock from the passing of time, so that a wrong clock removes nothing.
//!
//! A step shows as the wall clock advancing by another amount than the monotonic one. A step while no process ran
//! shows as a gap: nothing is stored from the time before. Nobody here can know whether that time has really passed,
//! so it is doubted at first: ages do not include it. After a server has stored samples for three days with a clock,
//! the clock is believed, and data that is old by then is removed.
//!
//! **Invariant:** a step forward changes no age before it is believed; a step back reduces the doubt.

use narthex_model::storage::TimeRange;

/// A smaller difference between two looks is not a step: a thread may have slept between reading the two clocks.
const SLACK_MS: i64 = 60_000;
/// A shorter time without samples counts as a restart or a slow source.
const GAP_MS: i64 = 3_600_000;
/// Time of storing after which a clock is believed; the retention, if that is shorter.
const BELIEF_MS: i64 = 3 * 86_400_000;

/// Steps that are not yet believed.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Both clocks at the last look.
    last: Option<Clocks>,
    doubted: Vec<Doubted>,
}

/// Wall-clock and monotonic time, read together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) wall_ms: i64,
    pub(super) monotonic_ms: i64,
}

#[derive(Debug)]
struct Doubted {
    /// Size of the step, ms; positive is forward.
    step_ms: i64,
    /// Monotonic time since which samples were stored with it.
    since_ms: i64,
}

impl Steps {
    /// Returns the doubts at a start: the gaps in the stored times, up to `now`.
    ///
    /// `last_ms` is the time of the last store by the clock of that moment. If the clock is now behind it, it was set
    /// back, as on a machine that keeps no time while it is off; correcting it is not a step forward.
    pub(super) fn at_start(
        now: Clocks,
        last_ms: Option<i64>,
        stored: impl IntoIterator<Item = TimeRange>,
    ) -> Self {
        let back_ms = now.wall_ms.saturating_sub(last_ms.unwrap_or(now.wall_ms));
        let set_back = (back_ms < -SLACK_MS).then_some(Doubted {
            step_ms: back_ms,
            since_ms: now.monotonic_ms,
        });
        let mut doubted = gaps(now, stored);
        doubted.extend(set_back);
        Self {
            last: Some(now),
            doubted,
        }
    }

    /// Records the clocks, and starts to believe steps that are old enough.
    pub(super) fn look(&mut self, now: Clocks, retention_ms: Option<i64>) {
        if let Some(last) = self.last.replace(now) {
            let passed_ms = now.monotonic_ms - last.monotonic_ms;
            let step_ms = now
                .wall_ms
                .saturating_sub(last.wall_ms)
                .saturating_sub(passed_ms);
            if step_ms.saturating_abs() > SLACK_MS {
                self.doubted.push(Doubted {
                    step_ms,
                    since_ms: now.monotonic_ms,
                });
            }
        }
        let belief_ms = retention_ms.map_or(BELIEF_MS, |retention_ms| retention_ms.min(BELIEF_MS));
        self.doubted
            .retain(|doubted| now.monotonic_ms - doubted.since_ms < belief_ms);
    }

    /// Returns how far the wall clock may be ahead of the time that has really passed.
    pub(super) fn doubt_ms(&self) -> i64 {
        let sum = |sum: i64, doubted: &Doubted| sum.saturating_add(doubted.step_ms);
        self.doubted.iter().fold(0, sum).max(0)
    }
}

/// Finds the latest gaps, going back until there are enough samples to believe in the time.
fn gaps(now: Clocks, stored: impl IntoIterator<Item = TimeRange>) -> Vec<Doubted> {
    let mut ranges: Vec<TimeRange> = stored
        .into_iter()
        .filter(|range| range.min_ms <= now.wall_ms)
        .collect();
    ranges.sort_unstable_by_key(|range| std::cmp::Reverse(range.max_ms));
    let mut doubted = Vec::new();
    let (mut from_ms, mut covered_ms) = (now.wall_ms, 0_i64);
    for range in ranges {
        let max_ms = range.max_ms.min(from_ms);
        let gap_ms = from_ms.saturating_sub(max_ms);
        if gap_ms > GAP_MS {
            doubted.push(Doubted {
                step_ms: gap_ms,
                since_ms: now.monotonic_ms - covered_ms,
            });
        }
        // Sources that report once a day are no reason for permanent doubt.
        let filled_ms = max_ms.saturating_sub(range.min_ms).max(0);
        covered_ms = covered_ms
            .saturating_add(gap_ms.min(GAP_MS))
            .saturating_add(filled_ms);
        if covered_ms >= BELIEF_MS {
            break;
        }
        from_ms = from_ms.min(range.min_ms);
    }
    doubted
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const DAY_MS: i64 = 24 * HOUR_MS;
    const NOW_MS: i64 = 1_767_225_600_000;

    fn at(wall_ms: i64, monotonic_ms: i64) -> Clocks {
        Clocks {
            wall_ms,
            monotonic_ms,
        }
    }

    #[test]
    fn a_step_is_doubted_until_it_is_taken_back_or_has_stood_for_three_days() {
        for step_ms in [HOUR_MS, DAY_MS, 3653 * DAY_MS] {
            let mut steps = Steps::at_start(at(NOW_MS, 0), None, []);
            steps.look(at(NOW_MS + 10_000, 10_000), None);
            assert_eq!(steps.doubt_ms(), 0, "time that passes");
            steps.look(at(NOW_MS + 20_000 + step_ms, 20_000), None);
            assert_eq!(steps.doubt_ms(), step_ms);
            steps.look(at(NOW_MS + DAY_MS + step_ms, DAY_MS), None);
            assert_eq!(steps.doubt_ms(), step_ms, "a day later");
            let mut back = Steps {
                last: steps.last,
                doubted: steps.doubted.drain(..).collect(),
            };
            back.look(at(NOW_MS + DAY_MS + 1000, DAY_MS + 1000), None);
            assert_eq!(back.doubt_ms(), 0, "set back");

            let mut stays = Steps::at_start(at(NOW_MS, 0), None, []);
            stays.look(at(NOW_MS + step_ms, 0), None);
            stays.look(at(NOW_MS + step_ms + BELIEF_MS - 1, BELIEF_MS - 1), None);
            assert_eq!(stays.doubt_ms(), step_ms);
            stays.look(at(NOW_MS + step_ms + BELIEF_MS, BELIEF_MS), None);
            assert_eq!(stays.doubt_ms(), 0, "believed");
        }
    }

    #[test]
    fn a_step_back_is_no_reason_to_keep_more_and_what_follows_it_is_none_either() {
        let mut steps = Steps::at_start(at(NOW_MS, 0), None, []);
        steps.look(at(NOW_MS - DAY_MS, 1000), None);
        assert_eq!(steps.doubt_ms(), 0);
        steps.look(at(NOW_MS + 2000, 2000), None);
        assert_eq!(steps.doubt_ms(), 0, "put right again");
    }

    #[test]
    fn a_start_doubts_the_time_without_samples_as_long_as_it_has_no_samples_behind_it() {
        let range = |from_ms: i64, to_ms: i64| TimeRange::new(NOW_MS + from_ms, NOW_MS + to_ms);
        let month = [range(-30 * DAY_MS, -20 * DAY_MS)];
        assert_eq!(
            Steps::at_start(at(NOW_MS, 0), None, month).doubt_ms(),
            20 * DAY_MS
        );
        let restart = [range(-30 * DAY_MS, -HOUR_MS / 2)];
        assert_eq!(Steps::at_start(at(NOW_MS, 0), None, restart).doubt_ms(), 0);
        // An earlier process stored for an hour with that clock.
        let wrong = [range(-30 * DAY_MS, -20 * DAY_MS), range(-HOUR_MS, 0)];
        let mut steps = Steps::at_start(at(NOW_MS, 0), None, wrong);
        assert_eq!(steps.doubt_ms(), 20 * DAY_MS - HOUR_MS);
        let left_ms = BELIEF_MS - HOUR_MS;
        steps.look(at(NOW_MS + left_ms, left_ms), None);
        assert_eq!(steps.doubt_ms(), 0, "three days altogether");
        let right = [range(-30 * DAY_MS, -20 * DAY_MS), range(-4 * DAY_MS, 0)];
        assert_eq!(Steps::at_start(at(NOW_MS, 0), None, right).doubt_ms(), 0);
        // Samples of the future say nothing about the past.
        let ahead = [range(-DAY_MS, 0), range(20 * DAY_MS, 21 * DAY_MS)];
        assert_eq!(Steps::at_start(at(NOW_MS, 0), None, ahead).doubt_ms(), 0);
    }

    #[test]
    fn a_start_in_1970_is_put_right_without_doubt() {
        let stored = || [TimeRange::new(NOW_MS - 30 * DAY_MS, NOW_MS)];
        let mut steps = Steps::at_start(at(5000, 0), Some(NOW_MS), stored());
        assert_eq!(steps.doubt_ms(), 0);
        steps.look(at(NOW_MS + 10_000, 1000), None);
        assert!(steps.doubt_ms() <= 10_000, "{}", steps.doubt_ms());
        // A further step is doubted.
        steps.look(at(NOW_MS + DAY_MS, 2000), None);
        assert!((DAY_MS - 10_000..=DAY_MS).contains(&steps.doubt_ms()));
    }

    #[test]
    fn belief_takes_no_longer_than_retention() {
        let mut steps = Steps::at_start(at(NOW_MS, 0), None, []);
        steps.look(at(NOW_MS + DAY_MS, 0), Some(HOUR_MS));
        assert_eq!(steps.doubt_ms(), DAY_MS);
        steps.look(at(NOW_MS + DAY_MS + HOUR_MS, HOUR_MS), Some(HOUR_MS));
        assert_eq!(steps.doubt_ms(), 0);
    }
}
