//! `narthex pushgateway`: the Pushgateway's flags, and our additions.
//!
//! **Invariant:** every flag of the Pushgateway 1.11 is declared, in one of the three classes.

use narthex_cli::{Bytes, UsageError, Value, ValueKind, Values, flags};
use narthex_push::GaugeMode;
use std::{collections::HashMap, ffi::OsStr, path::PathBuf, time::Duration};

flags! {
    /// What the gateway is asked to do.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct PushOptions {
        /// Address to listen on; may be repeated.
        listen_addresses: Vec<String> = "web.listen-address", default(":9091"), value("ADDRESS");
        /// File with TLS settings, users, response headers and a rate limit.
        web_config_file: Option<PathBuf> = "web.config.file";
        /// Path under which metrics are exposed.
        telemetry_path: String = "web.telemetry-path", default("/metrics");
        /// URL under which the gateway is reachable from outside; its path is the default of --web.route-prefix.
        external_url: String = "web.external-url";
        /// Prefix of all paths.
        route_prefix: String = "web.route-prefix";
        /// Allow shutdown by requests to /-/quit.
        enable_lifecycle: bool = "web.enable-lifecycle";
        /// Allow PUT /api/v1/admin/wipe to delete all groups.
        enable_admin_api: bool = "web.enable-admin-api";
        /// Maximum number of simultaneous connections; further ones wait.
        max_connections: usize = "web.max-connections", default("4096");
        /// Listen on the sockets of a systemd socket unit instead of addresses.
        systemd_socket: bool = "web.systemd-socket";
        /// Keep what is pushed in a journal, this name with .journal behind it. A file of a Pushgateway of this name is
        /// imported while there is no journal. Without it nothing outlives the process.
        persistence_file: Option<PathBuf> = "persistence.file";
        /// Do not check pushes for consistency with other groups; the response is then 202.
        is_unchecked: bool = "push.disable-consistency-check";
        /// Allow any UTF-8 in metric and label names.
        utf8_names: bool = "push.enable-utf8-names";
        /// How long a group lives after its last push, or JOB=PERIOD for the groups of one job; may be repeated. Without
        /// it for ever.
        ttls: Periods = "push.ttl";
        /// Longest time between the pushes to a group, or JOB=PERIOD for the groups of one job; may be repeated. A group
        /// with one gets narthex_push_up, which is 0 once a push is late by half of it.
        intervals: Periods = "push.interval";
        /// Keep timestamps of samples, instead of refusing pushes with them.
        keep_timestamps: bool = "push.keep-timestamps";
        /// Job whose pushes are added up in their group, with =last, =sum, =min or =max behind it for what becomes of its
        /// gauges; may be repeated.
        aggregate: Aggregated = "push.aggregate", value("JOB");
        /// Maximum size of a push, both compressed and uncompressed; larger ones get 413.
        max_body: Bytes = "push.max-body-size", default("64MB");
        /// Maximum memory for bodies being read; above it, pushes get 503.
        max_reading: Bytes = "push.max-reading-memory", default("256MB");
        /// Timeout of reading a body; slower ones get 408.
        body_timeout: Duration = "push.body-timeout", default("1m");
        /// Maximum number of pushes processed at once.
        max_concurrency: usize = "push.max-concurrency", default("64");
        /// How long a push waits for others before it gets 503.
        max_wait: Duration = "push.max-wait", default("10s");
        /// Minimum level of log lines: debug, info, warn or error.
        log_level: String = "log.level", default("info"), offers(&["debug", "info", "warn", "error"]);
        /// Format of log lines: logfmt or json.
        log_format: String = "log.format", default("logfmt"), offers(&["logfmt", "json"]);
        ..values
    }
    without effect {
        "every push is in the journal before it is answered" => "persistence.interval": Duration;
    }
}

impl PushOptions {
    /// Reads the values of `pushgateway`.
    ///
    /// # Errors
    /// Fails on the first invalid value.
    pub(crate) fn read(values: Values) -> Result<Self, UsageError> {
        let mut options = Self::from_values(values)?;
        options.telemetry_path = format!("/{}", options.telemetry_path.trim_matches('/'));
        options.route_prefix = prefix(&options.route_prefix, &options.external_url);
        Ok(options)
    }
}

/// Periods in milliseconds by job; the empty name holds the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Periods(pub(crate) HashMap<String, u64>);

impl Value for Periods {
    const KIND: ValueKind = ValueKind::Duration;
    const IS_REPEATABLE: bool = true;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = String::parse(text)?;
        let (job, period) = text.rsplit_once('=').unwrap_or(("", &text));
        let period = Duration::parse(OsStr::new(period))?;
        let period_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        Ok(Self([(job.to_owned(), period_ms)].into()))
    }

    fn collect(given: &[&OsStr]) -> Result<Self, String> {
        let one = given.iter().map(|text| Self::parse(text));
        let all: Result<Vec<Self>, String> = one.collect();
        Ok(Self(all?.into_iter().flat_map(|period| period.0).collect()))
    }
}

/// Jobs whose pushes are added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Aggregated(pub(crate) HashMap<String, GaugeMode>);

impl Value for Aggregated {
    const KIND: ValueKind = ValueKind::Text;
    const IS_REPEATABLE: bool = true;

    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = String::parse(text)?;
        let named = text.rsplit_once('=');
        let named = named.and_then(|(job, name)| Some((job, GaugeMode::from_name(name)?)));
        let (job, mode) = named.unwrap_or((&text, GaugeMode::default()));
        if job.is_empty() {
            return Err("a job has to be named".to_owned());
        }
        Ok(Self([(job.to_owned(), mode)].into()))
    }

    fn collect(given: &[&OsStr]) -> Result<Self, String> {
        let one = given.iter().map(|text| Self::parse(text));
        let all: Result<Vec<Self>, String> = one.collect();
        Ok(Self(all?.into_iter().flat_map(|one| one.0).collect()))
    }
}

/// Returns the prefix of all paths, as Prometheus and the Pushgateway compute it.
pub(super) fn prefix(given: &str, external_url: &str) -> String {
    let path = if given.is_empty() {
        let behind = external_url.split_once("://").map(|(_, behind)| behind);
        let path = behind.map_or(external_url, |behind| {
            behind.find('/').map_or("", |at| &behind[at..])
        });
        path.split(['?', '#']).next().unwrap_or_default()
    } else {
        given
    };
    let path = path.trim_end_matches('/');
    if path.is_empty() || path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn options(arguments: &[&str]) -> Result<PushOptions, UsageError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let around = narthex_cli::Surroundings::process();
        PushOptions::read(Values::parse(&[PushOptions::FLAGS], &arguments, around)?)
    }

    #[test]
    fn defaults_are_the_pushgateways() {
        let options = options(&[]).unwrap();
        assert_eq!(options.listen_addresses, [":9091"]);
        assert_eq!(
            (
                options.telemetry_path.as_str(),
                options.route_prefix.as_str()
            ),
            ("/metrics", "")
        );
        assert_eq!(options.persistence_file, None);
        assert!(!options.is_unchecked && !options.utf8_names && options.ttls.0.is_empty());
        assert_eq!(options.max_body.as_usize(), 64 << 20);
    }

    #[test]
    fn prefixes_are_computed_as_the_pushgateway_does() {
        for (given, url, expected) in [
            ("", "", ""),
            ("", "http://a.example", ""),
            ("", "http://a.example/", ""),
            ("", "http://a.example/b/c/?d", "/b/c"),
            ("", "b", "/b"),
            ("/", "http://a.example/b", ""),
            ("d", "http://a.example/b", "/d"),
            ("/d/", "", "/d"),
        ] {
            assert_eq!(prefix(given, url), expected, "{given} {url}");
        }
    }

    #[test]
    fn jobs_are_added_up_with_a_mode_for_their_gauges() {
        let given = options(&["--push.aggregate=ci", "--push.aggregate=a=b=max"]).unwrap();
        assert_eq!(given.aggregate.0["ci"], GaugeMode::Last);
        assert_eq!(given.aggregate.0["a=b"], GaugeMode::Max);
        let refused = options(&["--push.aggregate==sum"]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "flag '--push.aggregate': a job has to be named"
        );
    }

    #[test]
    fn lives_are_those_of_a_job_or_of_all() {
        let given = options(&["--push.ttl=1h", "--push.ttl=backup=1d"]).unwrap();
        assert_eq!(given.ttls.0[""], 3_600_000);
        assert_eq!(given.ttls.0["backup"], 86_400_000);
        let refused = options(&["--push.ttl=x"]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "flag '--push.ttl': not a valid duration string: \"x\""
        );
    }
}
