//! Memory pressure: levels with hysteresis.
//!
//! **Invariant:** the point where a level is left is below the one where it is entered, so decisions do not flip from
//! one moment to the next.

use std::sync::atomic::{AtomicU8, Ordering};

crate::named! {
    /// Memory pressure, and the response to it.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
    pub enum Pressure {
        /// Memory is sufficient.
        #[default]
        None = "none",
        /// Data that waits in memory for a write to disk is flushed early.
        Flush = "flush early",
        /// Also refuse unknown series.
        RefuseSeries = "refuse new series",
        /// Also refuse writes from outside.
        RefuseWrites = "refuse writes",
        /// Also refuse queries.
        RefuseQueries = "refuse queries",
    }
}

/// Usage, in percent of the limit, at which each level above [`Pressure::None`] is entered and left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PressureLevels {
    /// Usage at which each level is entered, ascending.
    pub enter_percent: [u8; 4],
    /// Usage below which each level is left, each below its entry point.
    pub leave_percent: [u8; 4],
}

impl Default for PressureLevels {
    fn default() -> Self {
        Self {
            enter_percent: [60, 75, 85, 92],
            leave_percent: [52, 68, 80, 88],
        }
    }
}

/// The current level of a whole budget.
#[derive(Debug, Default)]
pub(super) struct Gauge(AtomicU8);

impl Gauge {
    pub(super) fn get(&self) -> Pressure {
        Pressure::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }

    /// Moves to the level for this usage; returns the levels before and after.
    pub(super) fn observe(
        &self,
        levels: &PressureLevels,
        used_bytes: u64,
        limit_bytes: u64,
    ) -> (Pressure, Pressure) {
        let before = self.get();
        let reaches = |percent: u8| {
            u128::from(used_bytes) * 100 >= u128::from(limit_bytes) * u128::from(percent)
        };
        let entered = levels.enter_percent.iter().filter(|p| reaches(**p)).count();
        let held = levels.leave_percent.iter().filter(|p| reaches(**p)).count();
        // Rises at once; falls one level at a time as each is left.
        let at = entered.max(held.min(before as usize));
        self.0
            .store(u8::try_from(at).unwrap_or_default(), Ordering::Relaxed);
        (before, Pressure::ALL[at])
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Budget, *};

    #[test]
    fn levels_are_entered_high_and_left_low() {
        let process = Budget::new("process", 1000);
        let query = process.share("queries", 500, 700);
        let account = process.account();
        let levels = PressureLevels::default();
        let mut seen = Vec::new();
        for used in [
            599, 600, 530, 519, 760, 700, 690, 679, 930, 879, 799, 100, 5000, 0,
        ] {
            account.set(used);
            let (before, after) = query.observe(&levels, 0);
            assert_eq!(seen.last().copied().unwrap_or_default(), before);
            assert_eq!(query.pressure(), after);
            seen.push(after);
        }
        use Pressure::{Flush, None, RefuseQueries, RefuseSeries, RefuseWrites};
        assert_eq!(
            seen,
            [
                None,
                Flush,
                Flush,
                None,
                RefuseSeries,
                RefuseSeries,
                RefuseSeries,
                Flush,
                RefuseQueries,
                RefuseWrites,
                RefuseSeries,
                None,
                RefuseQueries,
                None
            ]
        );
        assert!(
            Pressure::ALL.is_sorted()
                && Pressure::ALL.iter().all(|level| !level.as_str().is_empty())
        );
    }
}
