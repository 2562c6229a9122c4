//! Sorting that can be stopped: a hundred thousand series take a sort of the standard library a tenth of a second.
//!
//! **Invariant:** sorting is stable, and polls the stop about once in a millisecond.

use super::{Pace, StopReason};
use std::cmp::Ordering;

/// Items that are sorted between two polls at least.
const RUN: usize = 64;

/// Returns the numbers of `count` items in ascending order, equal ones in theirs; a comparison takes `work`.
///
/// # Errors
/// Fails when stopped.
pub fn ordered(
    count: usize,
    work: usize,
    pace: &mut Pace<'_>,
    compare: impl Fn(usize, usize) -> Ordering,
) -> Result<Vec<usize>, StopReason> {
    let mut order: Vec<usize> = (0..count).collect();
    for run in order.chunks_mut(RUN) {
        pace.spend(work * RUN.ilog2() as usize * run.len())?;
        run.sort_by(|a, b| compare(*a, *b));
    }
    let (mut length, mut merged) = (RUN, Vec::new());
    while length < count {
        merged.clear();
        merged.reserve_exact(count);
        for pair in order.chunks(2 * length) {
            let (mut left, mut right) = pair.split_at(length.min(pair.len()));
            // Items mostly come in order.
            if let (Some(last), Some(next)) = (left.last(), right.first())
                && compare(*last, *next) != Ordering::Greater
            {
                pace.spend(pair.len())?;
                merged.extend_from_slice(pair);
                continue;
            }
            while let ([first, more_left @ ..], [second, more_right @ ..]) = (left, right) {
                pace.spend(work)?;
                if compare(*first, *second) == Ordering::Greater {
                    merged.push(*second);
                    right = more_right;
                } else {
                    merged.push(*first);
                    left = more_left;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        length *= 2;
    }
    Ok(order)
}

/// Puts items into an order that [`ordered`] returned.
pub fn arrange<T>(items: &mut [T], mut order: Vec<usize>) {
    for start in 0..order.len() {
        let mut at = start;
        while order[at] != start && order[at] != at {
            let from = order[at];
            items.swap(at, from);
            order[at] = at;
            at = from;
        }
        order[at] = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Stop;
    use narthex_testkit::rng::SplitMix64;

    #[test]
    fn sorts_as_the_standard_library_does() {
        let mut rng = SplitMix64::new(3);
        for count in [0, 1, 2, 63, 64, 65, 129, 1000, 5000] {
            for most in [2, 50, 1_000_000] {
                let mut items: Vec<(u64, usize)> =
                    (0..count).map(|at| (rng.below(most), at)).collect();
                if rng.one_in(3) {
                    items.sort();
                }
                let stop = Stop::never();
                let compare = |a: usize, b: usize| items[a].0.cmp(&items[b].0);
                let order = ordered(count, 1, &mut stop.pace(), compare).unwrap();
                let mut expected = items.clone();
                expected.sort_by_key(|item| item.0);
                arrange(&mut items, order);
                assert_eq!(items, expected);
            }
        }
    }

    #[test]
    fn a_sort_stops_between_any_two_checks() {
        let items: Vec<u64> = (0..20_000).map(|at| at * 7_919 % 20_011).collect();
        let sort = |stop: &Stop| {
            ordered(items.len(), 16, &mut stop.pace(), |a, b| {
                items[a].cmp(&items[b])
            })
            .map(drop)
        };
        let counted = Stop::at_check(0);
        sort(&counted).unwrap();
        assert!(counted.checks() > 50, "{}", counted.checks());
        for check in (1..=counted.checks()).step_by(7) {
            assert!(sort(&Stop::at_check(check)).is_err(), "{check}");
        }
    }
}
