//! `narthex server`: Prometheus' flags.
//!
//! **Invariant:** every flag of Prometheus 3.14 is in the table, in one of the three classes.

use super::size::Bytes;
use super::{
    flags::{Flag, Kind, Values},
    parse,
};
use narthex_model::duration;
use std::{path::PathBuf, time::Duration};

const GO: &str = "there is no Go runtime";
const LATER: &str = "this version does not have it";

/// All flags of the command.
pub(crate) static FLAGS: &[Flag] = &[
    Flag::new(
        "config.file",
        Kind::Text,
        "",
        "Configuration file. Without it the server watches itself and this host every 5 s.",
    ),
    Flag::new(
        "config.auto-reload",
        Kind::Switch,
        "false",
        "Load the configuration again whenever its files change.",
    ),
    Flag::new(
        "config.auto-reload-interval",
        Kind::Period,
        "30s",
        "How often --config.auto-reload looks at the files.",
    ),
    Flag::new(
        "web.config.file",
        Kind::Text,
        "",
        "File with TLS, users and headers of what is served.",
    ),
    Flag::new(
        "web.listen-address",
        Kind::Texts,
        "0.0.0.0:9090",
        "Address to listen on; may be repeated. Without a configuration file 127.0.0.1:9090.",
    ),
    Flag::new(
        "web.read-timeout",
        Kind::Period,
        "5m",
        "Longest time to read a request, and to keep an idle connection.",
    ),
    Flag::new(
        "web.max-connections",
        Kind::Count,
        "512",
        "Most connections at once.",
    ),
    Flag::new(
        "web.min-transfer-rate",
        Kind::Bytes,
        "1KB",
        "Least bytes a second that a client sends of a request or takes of an answer while it is waited for; 0B for any.",
    ),
    Flag::new(
        "web.transfer-rate-window",
        Kind::Period,
        "30s",
        "Time over which --web.min-transfer-rate is an average; for answers at least 1m.",
    ),
    Flag::new(
        "web.allowed-hosts",
        Kind::Texts,
        "",
        "Names that requests may ask for, by the Host header, separated by commas, beside addresses and localhost; without it any.",
    ),
    Flag::new(
        "web.enable-lifecycle",
        Kind::Switch,
        "false",
        "Reload and shut down by POST or PUT to /-/reload and /-/quit.",
    ),
    Flag::new(
        "web.cors.origin",
        Kind::Text,
        "",
        "Pattern of origins whose pages may read the API and send it requests, anchored; without it none may.",
    ),
    Flag::new(
        "web.enable-remote-write-receiver",
        Kind::Switch,
        "false",
        "Take remote write requests at /api/v1/write.",
    ),
    Flag::new(
        "web.remote-write-receiver.accepted-protobuf-messages",
        Kind::Texts,
        "prometheus.WriteRequest,io.prometheus.write.v2.Request",
        "Messages of remote write that are taken, by their names in protobuf.",
    ),
    Flag::new(
        "web.remote-write-receiver.max-wait",
        Kind::Period,
        "10s",
        "Longest time that a remote write request waits for memory to be read into.",
    ),
    Flag::new(
        "storage.tsdb.path",
        Kind::Text,
        "data/",
        "Directory of the samples.",
    ),
    Flag::new(
        "storage.tsdb.retention.time",
        Kind::Period,
        "15d",
        "How long samples are kept; 0 for ever.",
    ),
    Flag::new(
        "storage.tsdb.retention.size",
        Kind::Bytes,
        "0B",
        "Most bytes kept, logs included; 0 for no bound.",
    ),
    Flag::new(
        "storage.tsdb.retention",
        Kind::Period,
        "",
        "Older name of --storage.tsdb.retention.time.",
    ),
    Flag::new(
        "storage.tsdb.too-far-in-future.time-window",
        Kind::Period,
        "10m",
        "How far ahead of the clock samples may be; those beyond are refused and counted. 0 for no bound.",
    ),
    Flag::new(
        "storage.wal.fsync-interval",
        Kind::Period,
        "1s",
        "How often the log is made to survive a loss of power; 0 makes every write wait for it.",
    ),
    Flag::new(
        "memory.limit",
        Kind::Text,
        "",
        "Most memory, as a size such as 2GB or a percentage of what there is; empty for all the control group or the machine has.",
    ),
    Flag::new(
        "query.lookback-delta",
        Kind::Period,
        "5m",
        "How old the newest sample of a series may be to count.",
    ),
    Flag::new(
        "query.timeout",
        Kind::Period,
        "2m",
        "Longest time a query may take.",
    ),
    Flag::new(
        "query.max-concurrency",
        Kind::Count,
        "20",
        "Most queries at once.",
    ),
    Flag::new(
        "query.max-samples",
        Kind::Count,
        "50000000",
        "Most samples a query may hold in memory.",
    ),
    Flag::new(
        "query.max-metadata-concurrency",
        Kind::Count,
        "8",
        "Most calls about labels, series, metadata and status at once, federation included.",
    ),
    Flag::new(
        "query.max-parameters",
        Kind::Count,
        "10000",
        "Most parameters of a request.",
    ),
    Flag::new(
        "query.max-pattern-memory",
        Kind::Bytes,
        "128MB",
        "Most memory that the regular expressions of a query take.",
    ),
    Flag::new(
        "query.max-label-size",
        Kind::Bytes,
        "1MB",
        "Longest label that a query may make.",
    ),
    Flag::new(
        "enable-feature",
        Kind::Texts,
        "",
        "Features by name, separated by commas; unknown ones get a warning.",
    ),
    Flag::new(
        "log.level",
        Kind::Text,
        "info",
        "One of debug, info, warn, error.",
    ),
    Flag::new("log.format", Kind::Text, "logfmt", "One of logfmt, json."),
    Flag::no_effect(
        "storage.tsdb.min-block-duration",
        Kind::Period,
        "blocks end at every two hours whatever it says",
    ),
    Flag::no_effect(
        "storage.tsdb.max-block-duration",
        Kind::Period,
        "blocks end at every two hours whatever it says",
    ),
    Flag::no_effect(
        "storage.tsdb.wal-compression",
        Kind::Switch,
        "the log holds encoded samples, there is nothing to gain",
    ),
    Flag::no_effect(
        "storage.tsdb.wal-compression-type",
        Kind::Text,
        "the log holds encoded samples, there is nothing to gain",
    ),
    Flag::no_effect(
        "storage.tsdb.wal-segment-size",
        Kind::Bytes,
        "the log chooses the size of its files",
    ),
    Flag::no_effect(
        "storage.tsdb.no-lockfile",
        Kind::Switch,
        "the directory is always locked; the lock needs no clean-up",
    ),
    Flag::no_effect(
        "storage.tsdb.allow-overlapping-blocks",
        Kind::Switch,
        "overlapping blocks are always allowed",
    ),
    Flag::no_effect(
        "storage.tsdb.head-chunks-write-queue-size",
        Kind::Count,
        "the head writes no chunk files",
    ),
    Flag::no_effect(
        "storage.tsdb.samples-per-chunk",
        Kind::Count,
        "chunks hold as many samples as pay off",
    ),
    Flag::no_effect(
        "storage.tsdb.block-reload-interval",
        Kind::Period,
        "blocks are known without reloading",
    ),
    Flag::no_effect(
        "storage.tsdb.delay-compact-file.path",
        Kind::Text,
        "blocks are made continuously",
    ),
    Flag::no_effect("auto-gomaxprocs", Kind::Switch, GO),
    Flag::no_effect("auto-gomemlimit", Kind::Switch, GO),
    Flag::no_effect("auto-gomemlimit.ratio", Kind::Text, GO),
    Flag::no_effect(
        "web.console.templates",
        Kind::Text,
        "there are no console templates",
    ),
    Flag::no_effect(
        "web.console.libraries",
        Kind::Text,
        "there are no console templates",
    ),
    Flag::no_effect("web.page-title", Kind::Text, "the page has its own title"),
    Flag::no_effect(
        "web.max-notifications-subscribers",
        Kind::Count,
        "there are no notifications",
    ),
    Flag::no_effect(
        "web.search.max-limit",
        Kind::Count,
        "there is no search API",
    ),
    Flag::no_effect(
        "rules.alert.for-outage-tolerance",
        Kind::Period,
        "there are no rules",
    ),
    Flag::no_effect(
        "rules.alert.for-grace-period",
        Kind::Period,
        "there are no rules",
    ),
    Flag::no_effect(
        "rules.alert.resend-delay",
        Kind::Period,
        "there are no rules",
    ),
    Flag::no_effect(
        "rules.max-concurrent-evals",
        Kind::Count,
        "there are no rules",
    ),
    Flag::no_effect(
        "alertmanager.notification-queue-capacity",
        Kind::Count,
        "there are no rules",
    ),
    Flag::no_effect(
        "alertmanager.notification-batch-size",
        Kind::Count,
        "there are no rules",
    ),
    Flag::no_effect(
        "alertmanager.drain-notification-queue-on-shutdown",
        Kind::Switch,
        "there are no rules",
    ),
    Flag::no_effect(
        "storage.remote.flush-deadline",
        Kind::Period,
        "nothing is written to remote ends",
    ),
    Flag::no_effect(
        "storage.remote.read-sample-limit",
        Kind::Count,
        "there is no remote read",
    ),
    Flag::no_effect(
        "storage.remote.read-concurrent-limit",
        Kind::Count,
        "there is no remote read",
    ),
    Flag::no_effect(
        "storage.remote.read-max-bytes-in-frame",
        Kind::Count,
        "there is no remote read",
    ),
    Flag::no_effect(
        "scrape.adjust-timestamps",
        Kind::Switch,
        "timestamps are always adjusted within 2 ms",
    ),
    Flag::no_effect(
        "scrape.timestamp-tolerance",
        Kind::Period,
        "timestamps are always adjusted within 2 ms",
    ),
    Flag::no_effect(
        "scrape.discovery-reload-interval",
        Kind::Period,
        "targets are listed in the configuration",
    ),
    Flag::no_effect(
        "storage.agent.no-lockfile",
        Kind::Switch,
        "this is not an agent",
    ),
    Flag::no_effect(
        "storage.agent.wal-compression",
        Kind::Switch,
        "this is not an agent",
    ),
    Flag::no_effect(
        "storage.agent.wal-compression-type",
        Kind::Text,
        "this is not an agent",
    ),
    Flag::no_effect(
        "storage.agent.wal-segment-size",
        Kind::Bytes,
        "this is not an agent",
    ),
    Flag::no_effect(
        "storage.agent.wal-truncate-frequency",
        Kind::Period,
        "this is not an agent",
    ),
    Flag::no_effect(
        "storage.agent.retention.min-time",
        Kind::Period,
        "this is not an agent",
    ),
    Flag::no_effect(
        "storage.agent.retention.max-time",
        Kind::Period,
        "this is not an agent",
    ),
    Flag::refused("agent", Kind::Switch, LATER),
    Flag::refused("storage.agent.path", Kind::Text, LATER),
    Flag::refused("web.external-url", Kind::Text, LATER),
    Flag::refused("web.route-prefix", Kind::Text, LATER),
    Flag::refused("web.user-assets", Kind::Text, LATER),
    Flag::refused("web.systemd-socket", Kind::Switch, LATER),
    Flag::refused("web.enable-admin-api", Kind::Switch, LATER),
    Flag::refused("web.enable-otlp-receiver", Kind::Switch, LATER),
    Flag::refused("enable-otlp-receiver", Kind::Switch, LATER),
];

/// What the server is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerOptions {
    pub(crate) config_file: Option<PathBuf>,
    /// How often to look whether it changed; `None` for never.
    pub(crate) auto_reload: Option<Duration>,
    pub(crate) web_config_file: Option<PathBuf>,
    pub(crate) listen_addresses: Vec<String>,
    pub(crate) read_timeout: Duration,
    pub(crate) max_connections: usize,
    pub(crate) min_transfer_rate: u64,
    pub(crate) transfer_rate_window: Duration,
    /// Empty for all.
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) enable_lifecycle: bool,
    pub(crate) cors_origin: String,
    pub(crate) remote_write_receiver: bool,
    pub(crate) remote_write_messages: Vec<String>,
    pub(crate) remote_write_wait: Duration,
    pub(crate) storage_path: PathBuf,
    /// `None` where no flag was given: then the configuration file or the default decides.
    pub(crate) retention: Option<Duration>,
    pub(crate) retention_bytes: Option<u64>,
    pub(crate) future_limit: Duration,
    pub(crate) fsync_interval: Duration,
    /// A size or a percentage; empty for what is there.
    pub(crate) memory_limit: String,
    pub(crate) lookback_delta: Duration,
    pub(crate) query_timeout: Duration,
    pub(crate) max_concurrency: usize,
    pub(crate) max_samples: u64,
    pub(crate) max_metadata_concurrency: usize,
    pub(crate) max_parameters: usize,
    pub(crate) max_pattern_bytes: u64,
    pub(crate) max_label_bytes: usize,
    pub(crate) features: Vec<String>,
    pub(crate) log_level: String,
    pub(crate) log_format: String,
    pub(crate) values: Values,
}

impl ServerOptions {
    /// Reads the arguments behind `server`.
    ///
    /// # Errors
    /// Fails on the first argument that makes no sense.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, super::flags::UsageError> {
        let values = parse::parse(FLAGS, arguments)?;
        let text = |name: &str| {
            let given = values.given.get(name)?;
            given.last().cloned()
        };
        let or_default = |name: &str| text(name).unwrap_or_else(|| default_of(name).to_owned());
        let period = |name: &str| {
            let ms =
                duration::parse(&or_default(name)).expect("checked while parsing, or a default");
            Duration::from_millis(ms.unsigned_abs())
        };
        let count = |name: &str| {
            let number = or_default(name).parse::<u64>();
            number.expect("checked while parsing, or a default")
        };
        let bytes = |name: &str| bytes_of(&or_default(name));
        let is_on = |name: &str| or_default(name) == "true";
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let path = |name: &str| {
            text(name)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        let config_file = path("config.file");
        let given = |name: &str| text(name).map(|_| period(name));
        let older_retention = given("storage.tsdb.retention");
        let retention_bytes = text("storage.tsdb.retention.size")
            .map(|size| bytes_of(&size))
            .filter(|bytes| *bytes > 0);
        Ok(Self {
            features: list(&values, "enable-feature"),
            listen_addresses: listen_addresses(&values, config_file.is_some()),
            read_timeout: period("web.read-timeout"),
            max_connections: size(count("web.max-connections")),
            min_transfer_rate: bytes("web.min-transfer-rate"),
            transfer_rate_window: period("web.transfer-rate-window"),
            allowed_hosts: list(&values, "web.allowed-hosts"),
            enable_lifecycle: is_on("web.enable-lifecycle"),
            cors_origin: or_default("web.cors.origin"),
            remote_write_receiver: is_on("web.enable-remote-write-receiver"),
            remote_write_messages: list(
                &values,
                "web.remote-write-receiver.accepted-protobuf-messages",
            ),
            remote_write_wait: period("web.remote-write-receiver.max-wait"),
            storage_path: PathBuf::from(or_default("storage.tsdb.path")),
            retention: given("storage.tsdb.retention.time").or(older_retention),
            retention_bytes,
            future_limit: period("storage.tsdb.too-far-in-future.time-window"),
            fsync_interval: period("storage.wal.fsync-interval"),
            memory_limit: or_default("memory.limit"),
            lookback_delta: period("query.lookback-delta"),
            query_timeout: period("query.timeout"),
            max_concurrency: size(count("query.max-concurrency")),
            max_samples: count("query.max-samples"),
            max_metadata_concurrency: size(count("query.max-metadata-concurrency")),
            max_parameters: size(count("query.max-parameters")),
            max_pattern_bytes: bytes("query.max-pattern-memory"),
            max_label_bytes: size(bytes("query.max-label-size")),
            log_level: or_default("log.level"),
            log_format: or_default("log.format"),
            auto_reload: is_on("config.auto-reload")
                .then(|| period("config.auto-reload-interval"))
                .filter(|interval| !interval.is_zero()),
            web_config_file: path("web.config.file"),
            config_file,
            values,
        })
    }
}

/// Without a configuration nobody has said who may look: stay on this machine.
fn listen_addresses(values: &Values, configured: bool) -> Vec<String> {
    let default = || {
        let address = if configured {
            default_of("web.listen-address")
        } else {
            "127.0.0.1:9090"
        };
        vec![address.to_owned()]
    };
    let given = values.given.get("web.listen-address");
    given.cloned().unwrap_or_else(default)
}

impl ServerOptions {
    /// Lists all flags that mean something with the values in effect, as `/api/v1/status/flags` shows them.
    pub(crate) fn flags(&self) -> Vec<(String, String)> {
        let shown = FLAGS
            .iter()
            .filter(|flag| !matches!(flag.class, super::flags::Class::Refused(_)));
        shown
            .map(|flag| {
                let given = self.values.given.get(flag.name);
                let value = given.map_or_else(|| flag.default.to_owned(), |given| given.join(", "));
                (flag.name.to_owned(), value)
            })
            .collect()
    }
}

/// Returns the names of a flag that takes lists and may be repeated.
fn list(values: &Values, flag: &str) -> Vec<String> {
    let given = values.given.get(flag).cloned();
    let lists = given.unwrap_or_else(|| vec![default_of(flag).to_owned()]);
    let names = lists.iter().flat_map(|list| list.split(','));
    let names = names.map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn bytes_of(text: &str) -> u64 {
    let size = Bytes::parse(text);
    size.expect("checked while parsing, or a default").0
}

fn default_of(name: &str) -> &'static str {
    FLAGS
        .iter()
        .find(|flag| flag.name == name)
        .map(|flag| flag.default)
        .expect("a flag of the table")
}
