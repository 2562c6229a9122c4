//! Tests of `turns`.

use super::*;

#[test]
fn repetitions_alternate_their_order() {
    let short = |turn: &Turn| (turn.repetition, turn.subject, turn.variant);
    let all: Vec<_> = turns(2, 2, 2).iter().map(short).collect();
    assert_eq!(all[..4], [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]);
    assert_eq!(all[4..], [(1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0)]);
}
