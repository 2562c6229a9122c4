//! `narthex node-exporter`: node_exporter's flags.
//!
//! **Invariant:** every flag of node_exporter 1.12 is declared, in one of the three classes.

use narthex_cli::{UsageError, Values, flags};
use narthex_host::HostConfig;
use std::path::PathBuf;

flags! {
    /// What the exporter is asked to do, apart from the collectors.
    #[derive(Clone, Debug)]
    pub(crate) struct WebFlags {
        /// Address to listen on; may be repeated.
        listen_addresses: Vec<String> = "web.listen-address", default(":9100"), value("ADDRESS");
        /// File with TLS, users, headers and a rate limit of what is served.
        config_file: Option<PathBuf> = "web.config.file";
        /// Path under which metrics are exposed.
        telemetry_path: String = "web.telemetry-path", default("/metrics");
        /// Leave out metrics about the exporter itself (promhttp_*, process_*, narthex_*).
        disable_exporter_metrics: bool = "web.disable-exporter-metrics";
        /// Most connections at once; further ones wait.
        max_connections: usize = "web.max-connections", default("512");
        /// Most scrapes at once, those whose answer is still being sent included; further ones get 503. 0 for no limit.
        max_requests: usize = "web.max-requests", default("40");
        /// Listen on the sockets of a systemd socket unit instead of addresses.
        systemd_socket: bool = "web.systemd-socket";
        /// Which log lines are written: debug, info, warn or error.
        log_level: String = "log.level", default("info"), offers(&["debug", "info", "warn", "error"]);
        /// How log lines are written: logfmt or json.
        log_format: String = "log.format", default("logfmt"), offers(&["logfmt", "json"]);
        ..values
    }
    without effect {
        "there is no Go runtime" => "runtime.gomaxprocs": usize;
    }
}

/// What the exporter is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct NodeExporterOptions {
    pub(crate) web: WebFlags,
    pub(crate) host: HostConfig,
}

impl NodeExporterOptions {
    /// Reads the values of `node-exporter`.
    ///
    /// # Errors
    /// Fails on the first invalid value.
    pub(crate) fn read(values: Values) -> Result<Self, UsageError> {
        let mut host = crate::host::defaults();
        host.set_flags(&values).map_err(crate::host::usage)?;
        let mut web = WebFlags::from_values(values)?;
        web.telemetry_path = format!("/{}", web.telemetry_path.trim_start_matches('/'));
        Ok(Self { web, host })
    }

    /// Lists the former names that flags are given by, each with its successor.
    pub(crate) fn deprecated(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let given = |(former, _): &&(&str, &str)| self.web.values.is_given(former);
        narthex_host::DEPRECATED.iter().filter(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_host::{CollectorKind, CollectorSet};
    use std::ffi::OsString;

    fn options(arguments: &[&str]) -> Result<NodeExporterOptions, UsageError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let around = narthex_cli::Surroundings::process();
        let tables = [WebFlags::FLAGS, narthex_host::FLAGS, CollectorKind::FLAGS];
        NodeExporterOptions::read(Values::parse(&tables, &arguments, around)?)
    }

    #[test]
    fn defaults_are_node_exporters() {
        let options = options(&[]).unwrap();
        assert_eq!(options.web.listen_addresses, [":9100"]);
        assert_eq!(options.web.telemetry_path, "/metrics");
        assert_eq!(options.web.config_file, None);
        assert_eq!(
            format!("{:?}", options.host),
            format!("{:?}", crate::host::defaults())
        );
    }

    #[test]
    fn collectors_paths_and_former_names_are_taken() {
        let options = options(&[
            "--collector.disable-defaults",
            "--collector.cpu",
            "--collector.perf.cpus=1",
            "--collector.netdev.ignored-devices=^veth",
            "--path.rootfs=/host",
            "--web.config.file=",
            "--web.telemetry-path=all",
            "--runtime.gomaxprocs=4",
        ])
        .unwrap();
        let cpu = CollectorSet::none().with(CollectorKind::Cpu);
        assert_eq!(options.host.collectors, cpu);
        assert_eq!(options.host.netdev.device.exclude.as_deref(), Some("^veth"));
        assert_eq!(options.host.rootfs.to_str(), Some("/host"));
        assert_eq!(
            (
                options.web.config_file.as_ref(),
                &*options.web.telemetry_path
            ),
            (None, "/all")
        );
        let former: Vec<_> = options.deprecated().map(|(former, _)| *former).collect();
        assert_eq!(former, ["collector.netdev.ignored-devices"]);
        let without_effect = options.web.values.without_effect.iter();
        let without_effect: Vec<_> = without_effect.map(|(flag, _)| *flag).collect();
        assert_eq!(options.host.perf.cpus, "1");
        assert_eq!(without_effect, ["runtime.gomaxprocs"]);
    }

    #[test]
    fn wrong_flags_are_named() {
        for (arguments, text) in [
            (
                &["--collector.cpu=maybe"][..],
                "flag '--collector.cpu': not true or false: \"maybe\"",
            ),
            (
                &["--collector.softnets"],
                "unknown long flag '--collector.softnets'; did you mean '--collector.softnet'?",
            ),
            (
                &[
                    "--collector.netdev.device-exclude=a",
                    "--collector.netdev.device-blacklist=b",
                ],
                "flag '--collector.netdev.device-blacklist': mutually exclusive with --collector.netdev.device-exclude",
            ),
        ] {
            assert_eq!(options(arguments).unwrap_err().to_string(), text);
        }
    }
}
