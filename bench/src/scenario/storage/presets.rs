//! The servers that are built in, ours first.
//!
//! Everything is at its default but what a comparison needs: the same scrapes, answers that do not lag behind what was
//! stored, and targets' files looked at as soon as they change. In the configuration `{scrape}` is what every server
//! gets and `{storage}` what only Prometheus' configuration knows.

use crate::frame::Preset;

pub(super) static PRESETS: &[Preset] = &[
    Preset {
        config: "{scrape}{storage}",
        ..Preset::NARTHEX
    },
    Preset {
        config: "{scrape}{storage}",
        ..Preset::PROMETHEUS
    },
    Preset {
        more: &[
            "-promscrape.config={config}",
            "-promscrape.fileSDCheckInterval=1s",
        ],
        config: "{scrape}",
        ..Preset::VICTORIA_METRICS
    },
];
