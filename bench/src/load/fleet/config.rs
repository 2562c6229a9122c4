//! What a fleet consists of.

use super::{clock::Clock, shape::Shape};

/// What the fleet consists of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetConfig {
    pub(crate) targets: usize,
    pub(crate) series: usize,
    pub(crate) seed: u64,
    pub(crate) shape: Shape,
    pub(crate) gzip: bool,
    /// Whether lines have their target's labels, which otherwise the configuration gives.
    pub(crate) line_labels: bool,
    /// What lines have as timestamps; None leaves them without.
    pub(crate) clock: Option<Clock>,
}
