//! The exporters that are built in.
//!
//! **Invariant:** each runs with its default collectors: what is compared is what people start.

use crate::frame::Preset;

/// All of them, ours first.
pub(super) static PRESETS: &[Preset] = &[
    Preset {
        name: "narthex",
        program: "narthex",
        package: "",
        arguments: &["node-exporter", "--web.listen-address={listen}"],
        more: &[],
        version: &["--version"],
        config: "",
        ready: "/metrics",
    },
    Preset {
        name: "node_exporter",
        program: "prometheus-node-exporter",
        package: "prometheus-node-exporter",
        arguments: &["--web.listen-address={listen}"],
        more: &[],
        version: &["--version"],
        config: "",
        ready: "/metrics",
    },
];
