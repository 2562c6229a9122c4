//! Parameters of a fleet, and its list of targets in a server's configuration.

use super::{clock::Clock, shape::Shape};
use std::net::SocketAddrV4;

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

/// Returns the `static_configs` of targets with their labels.
pub(crate) fn static_configs(
    targets: impl Iterator<Item = (SocketAddrV4, Vec<(String, String)>)>,
) -> String {
    let mut text = "    static_configs:\n".to_owned();
    for (address, labels) in targets {
        text.push_str(&format!("      - targets: [\"{address}\"]\n"));
        if !labels.is_empty() {
            text.push_str("        labels:\n");
        }
        for (name, value) in labels {
            text.push_str(&format!("          {name}: \"{value}\"\n"));
        }
    }
    text
}
