//! Checks of sections whose work this version does not do yet, or does without their help.
//!
//! **Invariant:** what Prometheus refuses about them is refused, so that a file does not turn bad later.

use super::{
    ConfigError,
    access::show_size,
    discovery, http,
    job::check_addresses,
    rules::rules,
    yaml::{Node, Value},
};
use narthex_model::NameScheme;
use std::collections::BTreeSet;

/// Headers of requests that are not the file's business, in lower case.
const RESERVED: [&str; 16] = [
    "host",
    "content-encoding",
    "content-length",
    "content-type",
    "user-agent",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "www-authenticate",
    "accept-encoding",
    "x-prometheus-remote-write-version",
    "x-prometheus-remote-read-version",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

/// Checks everything but the global section and the jobs.
///
/// # Errors
/// Fails, in Prometheus' words, at the first setting that cannot be used.
pub(super) fn check(root: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    if let Some(alerting) = root.given("alerting") {
        check_alerting(alerting, scheme)?;
    }
    if let Some(tracing) = root.given("tracing") {
        check_tracing(tracing)?;
    }
    check_remote(root, scheme)?;
    if let Some(otlp) = root.given("otlp") {
        check_otlp(otlp, scheme)?;
    }
    match root
        .get("storage")
        .and_then(|storage| storage.given("tsdb"))
    {
        Some(tsdb) => check_tsdb(tsdb),
        None => Ok(()),
    }
}

/// Checks the paths that name several files, as they are written.
///
/// # Errors
/// Fails, in Prometheus' words, at the first that is no such path.
pub(super) fn check_patterns(root: &Node) -> Result<(), ConfigError> {
    let what = "invalid rule file path";
    patterns(root, "rule_files", what)?;
    let what = "invalid scrape config file path";
    patterns(root, "scrape_config_files", what)
}

/// Paths may hold one `*`, and only in their last part.
fn patterns(root: &Node, key: &str, message: &str) -> Result<(), ConfigError> {
    for item in root.items(key) {
        let path = item.as_text();
        let star_elsewhere = path
            .split_once('*')
            .is_some_and(|(_, behind)| behind.contains('/'));
        if star_elsewhere {
            return Err(item.error(format!("{message} {path:?}")));
        }
    }
    Ok(())
}

fn check_alerting(node: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    rules(
        node,
        "alert_relabel_configs",
        scheme,
        "empty or null alert relabeling rule",
    )?;
    for manager in node.items("alertmanagers") {
        let client = http::client(manager)?;
        let authenticates = client.basic_auth.is_some()
            || client.authorization.is_some()
            || client.oauth2.is_some();
        if authenticates && manager.given("sigv4").is_some() {
            return Err(manager.error(
                "at most one of basic_auth, authorization, oauth2, & sigv4 must be configured",
            ));
        }
        let version = manager.text_of("api_version");
        if version != "v2" {
            return Err(manager.error(format!(
                "expected Alertmanager api version to be one of [v2] but got {version}"
            )));
        }
        discovery::mechanisms(manager)?;
        if manager.items("relabel_configs").is_empty() {
            check_addresses(manager)?;
        }
        let what = "empty or null Alertmanager target relabeling rule";
        rules(manager, "relabel_configs", scheme, what)?;
        let what = "empty or null Alertmanager alert relabeling rule";
        rules(manager, "alert_relabel_configs", scheme, what)?;
    }
    Ok(())
}

/// Refuses Alertmanagers that there are: without rules nothing would ever be sent to them.
///
/// The stock file has a section without any target, which is fine.
pub(super) fn refuse_alertmanagers(root: &Node) -> Result<(), ConfigError> {
    let idle = |manager: &Node| {
        let Value::Map(pairs) = &manager.value else {
            return true;
        };
        pairs.iter().all(|(word, value)| {
            let finds = word.text.ends_with("_configs") && !word.text.ends_with("relabel_configs");
            let Value::List(items) = &value.value else {
                return true;
            };
            !finds
                || items
                    .iter()
                    .all(|item| word.text == "static_configs" && item.items("targets").is_empty())
        })
    };
    let Some(alerting) = root.given("alerting") else {
        return Ok(());
    };
    match alerting
        .items("alertmanagers")
        .iter()
        .find(|item| !idle(item))
    {
        Some(manager) => {
            Err(manager
                .error("alerting.alertmanagers is not supported: this version does not have it"))
        }
        None => Ok(()),
    }
}

fn check_headers(node: &Node, authorization: &str) -> Result<(), ConfigError> {
    for (name, _) in node.pairs("headers") {
        let lower = name.to_lowercase();
        if lower == "authorization" {
            return Err(node.error(authorization));
        }
        if RESERVED.contains(&lower.as_str()) {
            return Err(node.error(format!(
                "{name} is a reserved header. It must not be changed"
            )));
        }
    }
    Ok(())
}

fn check_tracing(node: &Node) -> Result<(), ConfigError> {
    let kind = node.text_of("client_type");
    if !matches!(kind, "http" | "grpc") {
        return Err(node.error(format!(
            "expected tracing client type to be to be http or grpc, but got {kind}"
        )));
    }
    let what = "custom authorization header configuration is not yet supported";
    check_headers(node, what)?;
    if node.text_of("endpoint").is_empty() {
        return Err(node.error("tracing endpoint must be set"));
    }
    match node.text_of("compression") {
        "" | "gzip" => Ok(()),
        other => Err(node.error(format!(
            "invalid compression type {other} provided, valid options: gzip"
        ))),
    }
}

fn check_remote(root: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    for (key, what, check) in [
        (
            "remote_write",
            "remote write",
            check_write as fn(&Node, NameScheme) -> Result<(), ConfigError>,
        ),
        ("remote_read", "remote read", check_read),
    ] {
        let mut names = BTreeSet::new();
        for item in root.items(key) {
            if item.is_null() {
                return Err(item.error(format!("empty or null {what} config section")));
            }
            if item.text_of("url").is_empty() {
                return Err(item.error(format!("url for {key} is empty")));
            }
            check(item, scheme)?;
            let name = item.text_of("name");
            if !name.is_empty() && !names.insert(name) {
                return Err(item.error(format!(
                    "found multiple {what} configs with job name {name:?}"
                )));
            }
        }
    }
    Ok(())
}

const AUTHORIZATION: &str = "authorization header must be changed via the basic_auth, authorization, oauth2, sigv4, azuread or google_iam parameter";

fn check_write(node: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    let what = "empty or null relabeling rule in remote write config";
    rules(node, "write_relabel_configs", scheme, what)?;
    check_headers(node, AUTHORIZATION)?;
    let messages = ["prometheus.WriteRequest", "io.prometheus.write.v2.Request"];
    let message = node.text_of("protobuf_message");
    if !messages.contains(&message) {
        return Err(node.error(format!(
            "invalid protobuf_message value: unknown type for remote write protobuf message {message}, supported: {}",
            messages.join(", ")
        )));
    }
    http::client(node)?;
    if let Some(queue) = node.given("queue_config") {
        check_queue(queue)?;
    }
    let kinds = [
        "basic_auth",
        "authorization",
        "oauth2",
        "sigv4",
        "azuread",
        "google_iam",
    ];
    let given: Vec<&str> = kinds
        .into_iter()
        .filter(|key| node.given(key).is_some())
        .collect();
    if given.len() > 1 {
        return Err(node.error(format!(
            "at most one of basic_auth, authorization, oauth2, sigv4, azuread or google_iam must be configured. Currently configured: [{}]",
            given.join(" ")
        )));
    }
    Ok(())
}

fn check_queue(node: &Node) -> Result<(), ConfigError> {
    let positive = |key: &str| node.whole(key) > 0;
    let fault = if !positive("max_shards") {
        "max_shards must be positive"
    } else if !positive("min_shards") {
        "min_shards must be positive"
    } else if node.whole("min_shards") > node.whole("max_shards") {
        "min_shards must not be greater than max_shards"
    } else if !positive("max_samples_per_send") {
        "max_samples_per_send must be positive"
    } else if !positive("capacity") {
        "capacity must be positive"
    } else if node.period("max_backoff") < node.period("min_backoff") {
        "max_backoff must not be less than min_backoff"
    } else {
        return Ok(());
    };
    Err(node.error(format!("remote write queue {fault}")))
}

fn check_read(node: &Node, _: NameScheme) -> Result<(), ConfigError> {
    check_headers(node, AUTHORIZATION)?;
    http::client(node).map(drop)
}

fn check_otlp(node: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    let promoted = node.texts("promote_resource_attributes");
    let ignored = node.texts("ignore_resource_attributes");
    let fault = if node.flag("promote_all_resource_attributes") {
        if !promoted.is_empty() {
            Some("'promote_all_resource_attributes' and 'promote_resource_attributes' cannot be configured simultaneously".to_owned())
        } else {
            attributes(&ignored, "ignored")
                .map(|faults| format!("invalid 'ignore_resource_attributes': {faults}"))
        }
    } else if !ignored.is_empty() {
        Some("'ignore_resource_attributes' cannot be configured unless 'promote_all_resource_attributes' is true".to_owned())
    } else {
        attributes(&promoted, "promoted")
            .map(|faults| format!("invalid 'promote_resource_attributes': {faults}"))
    };
    if let Some(fault) = fault {
        return Err(node.error(fault));
    }
    match node.text_of("translation_strategy") {
        "" | "UnderscoreEscapingWithSuffixes" | "UnderscoreEscapingWithoutSuffixes" => Ok(()),
        strategy @ ("NoTranslation" | "NoUTF8EscapingWithSuffixes") => match scheme {
            NameScheme::Utf8 => Ok(()),
            NameScheme::Legacy => Err(node.error(format!(
                "OTLP translation strategy {strategy:?} is not allowed when UTF8 is disabled"
            ))),
        },
        strategy => Err(node.error(format!(
            "unsupported OTLP translation strategy {strategy:?}"
        ))),
    }
}

/// Takes the spaces around attributes away.
pub(super) fn tidy_otlp(root: &mut Node) {
    let Some(otlp) = root.get_mut("otlp") else {
        return;
    };
    for key in ["promote_resource_attributes", "ignore_resource_attributes"] {
        if let Some(Value::List(items)) = otlp.get_mut(key).map(|node| &mut node.value) {
            for item in items {
                if let Value::Scalar(scalar) = &mut item.value {
                    scalar.text = scalar.text.trim().to_owned();
                }
            }
        }
    }
}

/// Returns what is wrong with a list of attributes, a line each.
fn attributes(list: &[String], adjective: &str) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for attribute in list.iter().map(|attribute| attribute.trim()) {
        if attribute.is_empty() {
            faults.push(format!("empty {adjective} OTel resource attribute"));
        } else if !seen.insert(attribute) {
            faults.push(format!(
                "duplicated {adjective} OTel resource attribute {attribute:?}"
            ));
        }
    }
    (!faults.is_empty()).then(|| faults.join("\n"))
}

fn check_tsdb(node: &Node) -> Result<(), ConfigError> {
    if let Some(encoding) = node.given("chunk_encoding") {
        let floats = encoding.text_of("floats");
        if !matches!(floats, "" | "xor" | "xor2") {
            return Err(encoding.error(format!(
                "'storage.tsdb.chunk_encoding.floats' must be 'xor' or 'xor2', or the field must be omitted entirely, got {floats:?}"
            )));
        }
    }
    let Some(retention) = node.given("retention") else {
        return Ok(());
    };
    let size = retention.size_of("size");
    if size < 0 {
        let shown = show_size(size);
        return Err(retention.error(format!(
            "'storage.tsdb.retention.size' must be greater than or equal to 0, got {shown}"
        )));
    }
    let percentage = retention.float("percentage");
    if !(0.0..=100.0).contains(&percentage) {
        return Err(retention.error(format!(
            "'storage.tsdb.retention.percentage' must be in the range [0, 100], got {percentage}"
        )));
    }
    Ok(())
}
