//! Choice of the blocks to merge next.
//!
//! While a window is being written, its smallest blocks are merged a few at a time; once it is over, all are merged.
//! Late blocks are merged with each other until they are worth rewriting the large one.
//!
//! **Invariant:** the chosen blocks are consecutive within their window, so that merging changes no tie between two
//! samples of one series at one time.

use std::collections::BTreeMap;
use std::ops::Range;

/// Properties of one block that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Number of its window of time.
    pub(super) window: i64,
    pub(super) level: u8,
    pub(super) bytes: u64,
    /// Number of its label sets.
    pub(super) sets: u64,
    /// Whether it cannot be merged.
    pub(super) barred: bool,
}

/// The limits of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Number of blocks of one level that are merged into one of the next.
    pub(super) run: usize,
    /// First window that is not over.
    pub(super) open_from: i64,
    /// Most label sets of blocks merged at once: they stay in memory until the new block is written, at about a hundred
    /// bytes each. A window of short-lived series keeps several blocks.
    pub(super) most_sets: u64,
}

/// Most blocks merged at once; each takes some memory.
const MOST: usize = 32;
/// The rest of a window is merged into its largest block once it reaches this fraction of it.
const WORTH: u64 = 8;

/// Blocks to merge, by index, ascending.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Chosen {
    pub(super) blocks: Vec<usize>,
    /// Number of windows that have blocks to merge, theirs included.
    pub(super) windows: usize,
}

/// Chooses among blocks in order of precedence.
pub(super) fn choose(blocks: &[Candidate], rules: Rules) -> Option<Chosen> {
    let mut windows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (at, block) in blocks.iter().enumerate() {
        windows.entry(block.window).or_default().push(at);
    }
    // Newest window first, because most queries ask for it.
    let mut due = windows.iter().rev().filter_map(|(window, places)| {
        let own: Vec<Candidate> = places.iter().map(|at| blocks[*at]).collect();
        let range = if *window >= rules.open_from {
            level_run(&own, rules)
        } else {
            closed(&own, rules)
        };
        range.map(|range| places[range].to_vec())
    });
    let blocks = due.next()?;
    let windows = 1 + due.count();
    Some(Chosen { blocks, windows })
}

/// Finds consecutive blocks of one level, the lowest first.
fn level_run(own: &[Candidate], rules: Rules) -> Option<Range<usize>> {
    let levels = own.iter().map(|block| block.level).max()?;
    (0..=levels).find_map(|level| {
        longest(
            own,
            |block| block.level == level,
            rules.run,
            rules.most_sets,
        )
    })
}

/// Finds the blocks to merge of a window that is over.
fn closed(own: &[Candidate], rules: Rules) -> Option<Range<usize>> {
    let all = longest(own, |_| true, 2, rules.most_sets)?;
    let bytes = own[all.clone()].iter().map(|block| block.bytes);
    let (sum, largest) = (bytes.clone().sum::<u64>(), bytes.max()?);
    if (sum - largest).saturating_mul(WORTH) >= largest {
        return Some(all);
    }
    longest(
        own,
        |block| block.bytes < largest,
        rules.run,
        rules.most_sets,
    )
}

/// Finds the first longest run of at least `least` blocks that satisfy `fits`, truncated to the most merged at once.
fn longest(
    own: &[Candidate],
    fits: impl Fn(&Candidate) -> bool,
    least: usize,
    most_sets: u64,
) -> Option<Range<usize>> {
    let mut best: Range<usize> = 0..0;
    let mut start = 0;
    for (at, block) in own.iter().enumerate() {
        if block.barred || block.sets > most_sets / 2 || !fits(block) {
            start = at + 1;
        } else if at + 1 - start > best.len() {
            best = start..at + 1;
        }
    }
    if best.len() < least.max(2) {
        return None;
    }
    let mut sets = 0;
    let fitting = own[best.clone()].iter().take_while(|block| {
        sets += block.sets;
        sets <= most_sets
    });
    let count = fitting.take(MOST).count();
    (count >= 2).then_some(best.start..best.start + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_SETS: u64 = 1000;
    const RULES: Rules = Rules {
        run: 3,
        open_from: 10,
        most_sets: MOST_SETS,
    };

    fn block(window: i64, level: u8, bytes: u64) -> Candidate {
        Candidate {
            window,
            level,
            bytes,
            sets: 1,
            barred: false,
        }
    }

    fn chosen(blocks: &[Candidate]) -> Option<Vec<usize>> {
        choose(blocks, RULES).map(|chosen| chosen.blocks)
    }

    #[test]
    fn windows_that_wait_are_counted() {
        let pair = |window| [block(window, 0, 5), block(window, 0, 5)];
        // The open window has too few, the fourth nothing to merge.
        let blocks = [pair(3), pair(9), pair(7), pair(10)].concat();
        let blocks = [blocks, vec![block(4, 1, 10)]].concat();
        let chosen = choose(&blocks, RULES);
        let (blocks, windows) = (vec![2, 3], 3);
        assert_eq!(chosen, Some(Chosen { blocks, windows }));
    }

    #[test]
    fn an_open_window_merges_runs_of_one_level() {
        let mut blocks = vec![block(10, 0, 5), block(10, 0, 5)];
        assert_eq!(chosen(&blocks), None);
        blocks.push(block(11, 0, 5));
        assert_eq!(chosen(&blocks), None);
        blocks.push(block(10, 0, 7));
        assert_eq!(chosen(&blocks), Some(vec![0, 1, 3]));
        blocks[1].level = 1;
        assert_eq!(chosen(&blocks), None, "a run is unbroken");
    }

    #[test]
    fn a_window_that_is_over_becomes_one_block_and_takes_late_ones_when_they_are_worth_it() {
        let over = [block(9, 1, 100), block(9, 1, 90), block(9, 0, 3)];
        assert_eq!(chosen(&over), Some(vec![0, 1, 2]));
        let mut late = vec![block(9, 2, 1000)];
        assert_eq!(chosen(&late), None);
        late.extend([block(9, 0, 1), block(9, 0, 1)]);
        assert_eq!(chosen(&late), None);
        late.push(block(9, 0, 1));
        assert_eq!(chosen(&late), Some(vec![1, 2, 3]));
        late[2].bytes = 130;
        assert_eq!(chosen(&late), Some(vec![0, 1, 2, 3]));
        late[1].barred = true;
        late[3].bytes = 100;
        assert_eq!(
            chosen(&late),
            Some(vec![2, 3]),
            "around what cannot be merged"
        );
    }

    #[test]
    fn label_sets_are_merged_only_as_far_as_memory_goes() {
        let of_sets = |sets| Candidate {
            sets,
            ..block(10, 0, 5)
        };
        let few = [of_sets(MOST_SETS / 3); 4];
        assert_eq!(chosen(&few), Some(vec![0, 1, 2]));
        let many = [of_sets(MOST_SETS / 2); 4];
        assert_eq!(chosen(&many), Some(vec![0, 1]));
        assert_eq!(chosen(&[of_sets(MOST_SETS / 2 + 1); 9]), None);
    }

    #[test]
    fn only_so_many_are_merged_at_once() {
        let many = vec![block(1, 0, 1); 100];
        assert_eq!(chosen(&many).map(|places| places.len()), Some(MOST));
    }
}
