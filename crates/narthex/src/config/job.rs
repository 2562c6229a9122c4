//! Jobs: what they inherit from the global section, their checks, and their parsed form.

use super::{ConfigError, access::Access as _, discovery, http, keys::SCRAPE, print, rules::rules};
use narthex_discovery::SdConfig;
use narthex_expfmt::{Escaping, ScrapeProtocol};
use narthex_model::NameScheme;
use narthex_scrape::{JobConfig, Limits};
use narthex_yaml::{Node, Value};

/// One entry of `scrape_configs`, with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) scrape: JobConfig,
    pub(crate) discovery: Vec<SdConfig>,
}

/// Keys that a job inherits from the global section unless it sets them.
const INHERITED: [&str; 14] = [
    "scrape_interval",
    "body_size_limit",
    "sample_limit",
    "target_limit",
    "label_limit",
    "label_name_length_limit",
    "label_value_length_limit",
    "keep_dropped_targets",
    "scrape_failure_log_file",
    "scrape_native_histograms",
    "convert_classic_histograms_to_nhcb",
    "always_scrape_classic_histograms",
    "extra_scrape_metrics",
    "metric_name_validation_scheme",
];

/// Supported exposition formats.
const PROTOCOLS: [&str; 6] = [
    "OpenMetricsText0.0.1",
    "OpenMetricsText1.0.0",
    "OpenMetricsText2.0.0",
    "PrometheusProto",
    "PrometheusText0.0.4",
    "PrometheusText1.0.0",
];

pub(super) const PROTO_FIRST: [&str; 5] = [
    "PrometheusProto",
    "OpenMetricsText1.0.0",
    "OpenMetricsText0.0.1",
    "PrometheusText1.0.0",
    "PrometheusText0.0.4",
];

/// The formats of text, in the same order.
const TEXT: &[&str] = PROTO_FIRST.split_at(1).1;

const ESCAPINGS: [&str; 4] = ["allow-utf-8", "underscores", "dots", "values"];

/// Checks a job, completes it in place from the global section and returns its parsed form.
///
/// # Errors
/// Fails, in Prometheus' words, on an unusable setting.
pub(super) fn read(node: &mut Node, global: &Node) -> Result<Job, ConfigError> {
    if node.is_null() {
        return Err(node.error("empty or null scrape config section"));
    }
    let discovery = discovery::mechanisms(node)?;
    let name = node.text_of("job_name").to_owned();
    if name.is_empty() {
        return Err(node.error("job_name is empty"));
    }
    let http = http::client(node)?;
    if node.items("relabel_configs").is_empty() {
        check_addresses(node)?;
    }
    let local_scheme = node.given("metric_name_validation_scheme").is_some();
    inherit(node, global);
    periods(node, global, &name)?;
    protocols(node, global, &name)?;
    let name_scheme = scheme(node)?;
    escaping(node, global, name_scheme, local_scheme)?;
    let mut scrape = JobConfig::new(&name);
    let what = "empty or null target relabeling rule in scrape config";
    scrape.relabel_configs = rules(node, "relabel_configs", name_scheme, what)?;
    let what = "empty or null metric relabeling rule in scrape config";
    scrape.metric_relabel_configs = rules(node, "metric_relabel_configs", name_scheme, what)?;
    scrape.http = http;
    scrape.metric_name_validation_scheme = name_scheme;
    read_plain_settings(&mut scrape, node);
    http::settle(node);
    scrape.shown = print::print(node, &SCRAPE).into();
    Ok(Job { scrape, discovery })
}

/// Reads the settings that need no further checks.
fn read_plain_settings(scrape: &mut JobConfig, node: &Node) {
    scrape.scrape_interval = node.period("scrape_interval");
    scrape.scrape_timeout = node.period("scrape_timeout");
    let protocols = node.texts("scrape_protocols");
    let known = protocols
        .iter()
        .filter_map(|name| ScrapeProtocol::from_name(name));
    scrape.scrape_protocols = Some(known.collect());
    scrape.fallback_scrape_protocol =
        ScrapeProtocol::from_name(node.text_of("fallback_scrape_protocol"));
    scrape.scrape_native_histograms = node.flag("scrape_native_histograms");
    scrape.always_scrape_classic_histograms = node.flag("always_scrape_classic_histograms");
    scrape.convert_classic_histograms_to_nhcb = node.flag("convert_classic_histograms_to_nhcb");
    scrape.metrics_path = node.text_of("metrics_path").to_owned();
    scrape.scheme = node.text_of("scheme").to_owned();
    scrape.params = node.params("params");
    scrape.honor_labels = node.flag("honor_labels");
    scrape.honor_timestamps = node.flag("honor_timestamps");
    scrape.track_timestamps_staleness = node.flag("track_timestamps_staleness");
    scrape.enable_compression = node.flag("enable_compression");
    scrape.extra_scrape_metrics = node.flag("extra_scrape_metrics");
    let escaping = node.text_of("metric_name_escaping_scheme");
    scrape.metric_name_escaping_scheme = Escaping::from_name(escaping);
    let failure_log = node.text_of("scrape_failure_log_file");
    scrape.failure_log = (!failure_log.is_empty()).then(|| failure_log.into());
    let body_size = node.size_of("body_size_limit").max(0);
    scrape.limits = Limits {
        body_size_bytes: usize::try_from(body_size).unwrap_or(usize::MAX),
        samples: node.limit("sample_limit"),
        labels: node.limit("label_limit"),
        label_name_bytes: node.limit("label_name_length_limit"),
        label_value_bytes: node.limit("label_value_length_limit"),
        targets: node.limit("target_limit"),
        keep_dropped_targets: node.limit("keep_dropped_targets"),
        native_histogram_buckets: node.limit("native_histogram_bucket_limit"),
        native_histogram_min_bucket_factor: node.float("native_histogram_min_bucket_factor"),
    };
}

/// Rejects URLs in place of addresses. Only for sections without relabelling, whose rules could still make addresses of
/// them.
pub(super) fn check_addresses(node: &Node) -> Result<(), ConfigError> {
    for group in node.items("static_configs") {
        for target in group.items("targets") {
            if target.as_text().contains('/') {
                let message = format!("{:?} is not a valid hostname", target.as_text());
                return Err(target.error(message));
            }
        }
    }
    Ok(())
}

fn inherit(node: &mut Node, global: &Node) {
    for key in INHERITED {
        let says_something = match node.given(key) {
            None => false,
            // A limit or interval of 0 counts as unset; a switch that is off counts as set.
            Some(value) => match key {
                "scrape_interval" => !node.period(key).is_zero(),
                "body_size_limit" => node.size_of(key) != 0,
                _ => {
                    let text = value.as_text();
                    !text.is_empty() && text != "0"
                }
            },
        };
        if says_something {
            continue;
        }
        match global.given(key) {
            Some(inherited) => node.set(key, unwritten(inherited)),
            None if key.contains("classic_histograms") => node.set(key, Node::text("false")),
            None => {}
        }
    }
}

/// Returns a copy without a position, as it was not written here.
fn unwritten(node: &Node) -> Node {
    Node::new(node.value.clone())
}

fn periods(node: &mut Node, global: &Node, name: &str) -> Result<(), ConfigError> {
    let interval = node.period("scrape_interval");
    if node.period("scrape_timeout") > interval {
        return Err(node.error(format!(
            "scrape timeout greater than scrape interval for scrape config with job name {name:?}"
        )));
    }
    if node.period("scrape_timeout").is_zero() {
        // A global timeout longer than the job's interval is cut to it.
        let key = if global.period("scrape_timeout") < interval {
            global.text_of("scrape_timeout")
        } else {
            node.text_of("scrape_interval")
        };
        let timeout = Node::text(key);
        node.set("scrape_timeout", timeout);
    }
    Ok(())
}

fn protocols(node: &mut Node, global: &Node, name: &str) -> Result<(), ConfigError> {
    if node.given("scrape_protocols").is_none() {
        let list = match global.given("scrape_protocols") {
            Some(list) => unwritten(list),
            None if node.flag("scrape_native_histograms") => texts(&PROTO_FIRST),
            None => texts(TEXT),
        };
        node.set("scrape_protocols", list);
    }
    let job = format!("for scrape config with job name {name:?}");
    check_protocols(node).map_err(|message| node.error(format!("{message} {job}")))?;
    let fallback = node.text_of("fallback_scrape_protocol");
    let spoken = node
        .texts("scrape_protocols")
        .iter()
        .any(|name| ScrapeProtocol::from_name(name).is_some());
    if !spoken {
        return Err(node.error(format!(
            "OpenMetricsText2.0.0 alone is not supported by this version {job}"
        )));
    }
    if !fallback.is_empty() && !PROTOCOLS.contains(&fallback) {
        let unknown = unknown_protocol(fallback);
        return Err(node.error(format!("invalid fallback_scrape_protocol {job}: {unknown}")));
    }
    Ok(())
}

/// Checks the formats that a section names.
pub(super) fn check_protocols(node: &Node) -> Result<(), String> {
    let protocols = node.texts("scrape_protocols");
    if protocols.is_empty() {
        return Err("scrape_protocols cannot be empty".to_owned());
    }
    for (number, protocol) in protocols.iter().enumerate() {
        let earlier = protocols.iter().take(number);
        if earlier
            .into_iter()
            .any(|other| other.eq_ignore_ascii_case(protocol))
        {
            return Err(format!(
                "duplicated protocol in scrape_protocols, got [{}]",
                protocols.join(" ")
            ));
        }
        if !PROTOCOLS.contains(&protocol.as_str()) {
            return Err(format!("scrape_protocols: {}", unknown_protocol(protocol)));
        }
    }
    Ok(())
}

fn unknown_protocol(protocol: &str) -> String {
    let supported = PROTOCOLS.join(" ");
    format!("unknown scrape protocol {protocol}, supported: [{supported}]")
}

pub(super) fn texts(list: &[&str]) -> Node {
    Node::new(Value::List(
        list.iter().map(|&text| Node::text(text)).collect(),
    ))
}

/// Parses `metric_name_validation_scheme`.
pub(super) fn scheme(node: &Node) -> Result<NameScheme, ConfigError> {
    match node.text_of("metric_name_validation_scheme") {
        "" | "utf8" => Ok(NameScheme::Utf8),
        "legacy" => Ok(NameScheme::Legacy),
        other => Err(node.error(format!("unrecognized ValidationScheme: {other:?}"))),
    }
}

fn escaping(
    node: &mut Node,
    global: &Node,
    scheme: NameScheme,
    local_scheme: bool,
) -> Result<(), ConfigError> {
    const KEY: &str = "metric_name_escaping_scheme";
    let of_scheme = |scheme| match scheme {
        NameScheme::Utf8 => "allow-utf-8",
        NameScheme::Legacy => "underscores",
    };
    let names = |what: &str, got: &str| {
        let [a, b, c, d] = ESCAPINGS;
        format!(
            "unknown {what} name escaping method specified, must be one of '{a}', '{b}', '{c}', or '{d}', got {got:?}"
        )
    };
    let globally = match global.text_of(KEY) {
        "" => of_scheme(self::scheme(global)?),
        other if ESCAPINGS.contains(&other) => other,
        other => return Err(global.error(names("global", other))),
    };
    if node.text_of(KEY).is_empty() {
        let inferred = if local_scheme {
            of_scheme(scheme)
        } else {
            globally
        };
        node.set(KEY, Node::text(inferred));
    }
    let chosen = node.text_of(KEY);
    if !ESCAPINGS.contains(&chosen) {
        return Err(node.error(names("scrape config", chosen)));
    }
    if chosen == "allow-utf-8" && scheme == NameScheme::Legacy {
        return Err(
            node.error("utf8 metric names requested but validation scheme is not set to UTF8")
        );
    }
    Ok(())
}
