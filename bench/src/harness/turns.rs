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
mod tests;
