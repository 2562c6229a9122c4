//! Shares selectors, so that each set of series is read once however often a query names it.
//!
//! **Invariant:** a shared selector covers the time ranges of all its uses and keeps only the hints common to them.

use narthex_model::{
    Matcher,
    storage::{Hints, Selector, TimeRange},
};

/// The selectors of a plan.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    all: Vec<Selector>,
    uses: Vec<Use>,
}

/// A use of a selector, by its index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) selector: usize,
    pub(crate) range: TimeRange,
    /// Whether it reads the newest samples alone.
    pub(crate) newest: bool,
}

impl Selectors {
    /// Adds a selector, or extends the one with these matchers, and returns its index.
    pub(super) fn add(&mut self, matchers: &[Matcher], range: TimeRange, hints: Hints) -> usize {
        let newest = hints.newest;
        let selector = self.find_or_add(matchers, range, hints);
        self.uses.push(Use {
            selector,
            range,
            newest,
        });
        selector
    }

    fn find_or_add(&mut self, matchers: &[Matcher], range: TimeRange, hints: Hints) -> usize {
        if let Some(at) = self.all.iter().position(|s| s.matchers == matchers) {
            let shared = &mut self.all[at];
            // The newest sample of a longer range is another.
            let newest = shared.hints.newest && hints.newest && shared.range == range;
            let hints = Hints {
                newest: shared.hints.newest,
                ..hints
            };
            shared.range = shared.range.hull(range);
            let start_times = shared.hints.start_times || hints.start_times;
            if shared.hints != hints {
                let step_ms = if shared.hints.step_ms == hints.step_ms {
                    hints.step_ms
                } else {
                    0
                };
                shared.hints = Hints {
                    step_ms,
                    start_times,
                    ..Hints::default()
                };
            }
            shared.hints.newest = newest;
            return at;
        }
        self.all.push(Selector {
            matchers: matchers.to_vec(),
            range,
            hints,
        });
        self.all.len() - 1
    }

    /// Reports whether a selector has several uses.
    pub(super) fn has_repeated(&self) -> bool {
        self.uses.len() > self.all.len()
    }

    pub(super) fn finish(self) -> (Vec<Selector>, Vec<Use>) {
        (self.all, self.uses)
    }
}
