//! Sorting of label sets: most comparisons are of a few bytes that were taken out of the labels, side by side.
//!
//! **Invariant:** the order is that of the sets' own comparison, and stable.

use super::{Pace, StopReason, ordered};
use crate::labels::{Label, LabelSet};

/// Sets that are compared as a whole.
const FEW: usize = 16;
/// Times that sets with equal bytes are told apart by others, before they are compared as a whole.
const LEVELS: usize = 12;
/// Work of comparing two sets as a whole, and of finding the bytes of one, in samples read.
const COMPARE_WORK: usize = 32;
const KEY_WORK: usize = 8;

/// Memory that [`in_label_order`] takes for each set, in bytes.
pub const LABEL_ORDER_BYTES: usize = 2 * size_of::<usize>() + 2 * size_of::<(u64, usize)>();

/// Returns the numbers of label sets in ascending order, equal ones in theirs.
///
/// # Errors
/// Fails when stopped.
pub fn in_label_order(sets: &[&LabelSet], pace: &mut Pace<'_>) -> Result<Vec<usize>, StopReason> {
    let mut order: Vec<usize> = (0..sets.len()).collect();
    sort_run(&mut order, sets, 0, LEVELS, pace)?;
    Ok(order)
}

/// Sorts some sets, whose first `place` labels are equal.
fn sort_run(
    run: &mut [usize],
    sets: &[&LabelSet],
    place: usize,
    levels: usize,
    pace: &mut Pace<'_>,
) -> Result<(), StopReason> {
    let by_bytes = match levels.checked_sub(1) {
        Some(left) if run.len() > FEW => LeadingBytes::of(run, sets, place).map(|of| (of, left)),
        _ => None,
    };
    let Some((leading, left)) = by_bytes else {
        let compare = |a: usize, b: usize| sets[run[a]].cmp(sets[run[b]]);
        let order = ordered(run.len(), COMPARE_WORK, pace, compare)?;
        let sorted: Vec<usize> = order.into_iter().map(|at| run[at]).collect();
        run.copy_from_slice(&sorted);
        return Ok(());
    };
    let mut keyed = Vec::with_capacity(run.len());
    for number in &*run {
        pace.spend(KEY_WORK)?;
        keyed.push((leading.key(sets[*number]), *number));
    }
    let compare = |a: usize, b: usize| u64::cmp(&keyed[a].0, &keyed[b].0);
    let order = ordered(keyed.len(), 1, pace, compare)?;
    for (number, at) in run.iter_mut().zip(&order) {
        *number = keyed[*at].1;
    }
    let mut rest = run;
    let mut order = &*order;
    while let Some(first) = order.first() {
        let is_equal = |at: &&usize| keyed[**at].0 == keyed[*first].0;
        let equal = order.iter().take_while(is_equal).count();
        let (same, others) = rest.split_at_mut(equal);
        if equal > 1 {
            sort_run(same, sets, leading.place, left, pace)?;
        }
        (rest, order) = (others, &order[equal..]);
    }
    Ok(())
}

/// Where label sets begin to differ.
struct LeadingBytes {
    /// Place of the first label that not all have.
    place: usize,
    /// Bytes that all values in that place begin with.
    shared: usize,
}

impl LeadingBytes {
    /// Finds where some sets begin to differ, of which the first `place` labels are equal; `None` if they do not, or in a name.
    fn of(run: &[usize], sets: &[&LabelSet], place: usize) -> Option<Self> {
        let (first, others) = run.split_first()?;
        let first = sets[*first].labels();
        let differs = |place: &usize| {
            let label = first.get(*place);
            others
                .iter()
                .any(|other| sets[*other].labels().get(*place) != label)
        };
        let place = (place..=first.len()).find(differs)?;
        let labels = || run.iter().filter_map(|at| sets[*at].labels().get(place));
        let some = labels().next()?;
        let shared = labels().try_fold(some.value().len(), |shared, label| {
            let both = some.value().bytes().zip(label.value().bytes());
            let same = both.take(shared).take_while(|(a, b)| a == b).count();
            some.same_name(label).then_some(same)
        });
        Some(Self {
            place,
            shared: shared?,
        })
    }

    /// Returns bytes of a set's value as a number: sets with a smaller one come first.
    fn key(&self, set: &LabelSet) -> u64 {
        let label = set.labels().get(self.place);
        let value = label.map(Label::value).unwrap_or_default().as_bytes();
        let rest = value.get(self.shared..).unwrap_or_default();
        let mut bytes = [0; size_of::<u64>()];
        let taken = rest.len().min(bytes.len());
        bytes[..taken].copy_from_slice(&rest[..taken]);
        u64::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Stop;
    use narthex_testkit::rng::SplitMix64;

    /// Returns sets that differ in names, values, lengths and zero bytes, or hardly.
    fn sets(random: &mut SplitMix64, count: u64) -> Vec<LabelSet> {
        let (names, values) = (1 + random.below(4), 1 + random.below(40));
        let (gaps, long) = (random.one_in(3), random.one_in(3));
        let set = |_| {
            let mut labels = Vec::new();
            for name in 0..names {
                if gaps && random.one_in(4) {
                    continue;
                }
                let value = random.below(values);
                let value = match random.below(4) {
                    0 if long => "a".repeat(value as usize * 5),
                    1 if long => "\0".repeat(value as usize % 12),
                    2 => format!("10.0.0.{value}:9100"),
                    _ => value.to_string(),
                };
                labels.push((format!("n{name}"), value));
            }
            LabelSet::new(labels.iter().map(|(name, value)| (&**name, &**value)))
        };
        (0..count).map(set).collect()
    }

    #[test]
    fn the_order_is_that_of_the_sets() {
        let mut random = SplitMix64::new(21);
        let mut with_equal = 0;
        for count in [0, 1, 2, 16, 17, 300, 2000] {
            for _ in 0..12 {
                let all = sets(&mut random, count);
                let sets: Vec<&LabelSet> = all.iter().collect();
                let mut expected: Vec<usize> = (0..sets.len()).collect();
                expected.sort_by(|a, b| all[*a].cmp(&all[*b]));
                let found = in_label_order(&sets, &mut Stop::never().pace()).unwrap();
                assert_eq!(found, expected, "{all:?}");
                let equal = |two: &[usize]| all[two[0]] == all[two[1]];
                with_equal += usize::from(expected.windows(2).any(equal));
            }
        }
        assert!(with_equal > 10, "{with_equal}");
    }

    #[test]
    fn values_that_share_ever_more_bytes_end_in_time() {
        let value = |at: usize| format!("{}b", "a".repeat(8 * (at * 7 % 300)));
        let all: Vec<LabelSet> = (0..300)
            .map(|at| LabelSet::new([("n", &*value(at))]))
            .collect();
        let sets: Vec<&LabelSet> = all.iter().collect();
        let found = in_label_order(&sets, &mut Stop::never().pace()).unwrap();
        assert!(found.is_sorted_by(|a, b| all[*a] <= all[*b]));
    }

    #[test]
    fn a_sort_stops_between_any_two_checks() {
        let all = sets(&mut SplitMix64::new(3), 20_000);
        let sets: Vec<&LabelSet> = all.iter().collect();
        let counted = Stop::at_check(0);
        in_label_order(&sets, &mut counted.pace()).unwrap();
        assert!(counted.checks() > 5, "{}", counted.checks());
        for check in 1..=counted.checks() {
            let stop = Stop::at_check(check);
            assert!(in_label_order(&sets, &mut stop.pace()).is_err(), "{check}");
        }
    }
}
