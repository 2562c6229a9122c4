//! The servers that are built in, ours first.
//!
//! Everything is at its default but what a comparison needs: the same scrapes, answers that do not lag behind what was
//! stored, and targets' files looked at as soon as they change. In the configuration `{scrape}` is what every server
//! gets and `{storage}` what only Prometheus' configuration knows.

use crate::frame::Preset;

pub(super) static PRESETS: &[Preset] = &[
    Preset {
        name: "narthex",
        program: "narthex",
        package: "",
        arguments: &[
            "server",
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        version: &["server", "--version"],
        config: "{scrape}{storage}",
        ready: "/-/ready",
    },
    Preset {
        name: "prometheus",
        program: "prometheus",
        package: "prometheus",
        arguments: &[
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        version: &["--version"],
        config: "{scrape}{storage}",
        ready: "/-/ready",
    },
    Preset {
        name: "victoria-metrics",
        program: "victoria-metrics",
        package: "victoria-metrics",
        arguments: &[
            "-promscrape.config={config}",
            "-storageDataPath={data}",
            "-httpListenAddr={listen}",
            "-loggerLevel=WARN",
            "-promscrape.fileSDCheckInterval=1s",
            "-search.latencyOffset=0s",
        ],
        version: &["-version"],
        config: "{scrape}",
        ready: "/health",
    },
];
