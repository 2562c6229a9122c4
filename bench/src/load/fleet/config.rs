//! Parameters of a fleet.

use super::{clock::Clock, shape::Shape};

/// Parameters of a fleet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetConfig {
    pub(crate) targets: usize,
    pub(crate) series: usize,
    pub(crate) seed: u64,
    pub(crate) shape: Shape,
    pub(crate) gzip: bool,
    /// Whether lines contain their target's labels; otherwise the configuration adds them.
    pub(crate) line_labels: bool,
    /// Clock of the lines' timestamps; `None` omits them.
    pub(crate) clock: Option<Clock>,
}
