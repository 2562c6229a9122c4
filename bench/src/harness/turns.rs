//! Order in which subjects are measured.
//!
//! **Invariant:** every repetition has every subject under every variant once; any drift affects the subjects in both
//! orders.

/// A measurement to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) repetition: usize,
    pub(crate) subject: usize,
    pub(crate) variant: usize,
}

/// Returns all measurements in order; every second repetition runs backwards.
pub(crate) fn turns(subjects: usize, variants: usize, repetitions: usize) -> Vec<Turn> {
    let mut turns = Vec::with_capacity(subjects * variants * repetitions);
    for repetition in 0..repetitions {
        let from = turns.len();
        for variant in 0..variants {
            turns.extend((0..subjects).map(|subject| Turn {
                repetition,
                subject,
                variant,
            }));
        }
        if repetition % 2 == 1 {
            turns[from..].reverse();
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_alternate_their_order() {
        let short = |turn: &Turn| (turn.repetition, turn.subject, turn.variant);
        let all: Vec<_> = turns(2, 2, 2).iter().map(short).collect();
        assert_eq!(all[..4], [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]);
        assert_eq!(all[4..], [(1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0)]);
    }
}
