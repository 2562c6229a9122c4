//! Where a series' samples go.

/// Destination of a series' samples. No two series have the same.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Place {
    /// A group's number, with the bit `UNGROUPED` for a group of ungrouped series; or `NOWHERE`.
    pub(crate) group: u32,
    pub(crate) column: u32,
}

/// Marks a group of ungrouped series.
pub(crate) const UNGROUPED: u32 = 1 << 31;
/// Marks invalid labels.
pub(crate) const NOWHERE: u32 = u32::MAX;

impl Place {
    /// Place of dropped samples.
    pub(crate) const NOWHERE: Self = Self {
        group: NOWHERE,
        column: 0,
    };

    /// Reports whether the series is ungrouped.
    pub(crate) fn is_ungrouped(self) -> bool {
        self.group & UNGROUPED != 0
    }

    pub(crate) fn is_nowhere(self) -> bool {
        self.group == NOWHERE
    }
}
