//! Reads the remote ends that samples are sent to.

use super::{ConfigError, Environment, access::Access as _, cloud, http, rules::rules};
use narthex_model::NameScheme;
use narthex_net::{BasicAuth, HttpClientConfig, Secret, Url, percent};
use narthex_remote::{DEFAULT_DISK_BYTES, Message, MetadataConfig, QueueConfig, RemoteWriteConfig};
use narthex_yaml::Node;
use std::{collections::BTreeSet, time::Duration};

/// Headers that belong to the protocol, in lower case.
const RESERVED_HEADERS: [&str; 16] = [
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

/// The remote ends of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RemoteWrite {
    /// Those that samples can be sent to.
    pub(crate) destinations: Vec<RemoteWriteConfig>,
    /// Why the first of the others cannot be used.
    ///
    /// Prometheus accepts any URL and then fails at every request: the file is valid, but nothing may start with it.
    pub(crate) unusable: Option<String>,
}

/// Reads the entries of `remote_write` and completes them in place.
///
/// # Errors
/// Fails, in Prometheus' words, at the first unusable setting.
pub(super) fn read(
    root: &mut Node,
    scheme: NameScheme,
    environment: Environment<'_>,
) -> Result<RemoteWrite, ConfigError> {
    let mut remote = RemoteWrite::default();
    let mut names = BTreeSet::new();
    for item in root.items_mut("remote_write") {
        let name = item.text_of("name").to_owned();
        let read = destination(item, scheme, environment)?;
        if !name.is_empty() && !names.insert(name.clone()) {
            return Err(item.error(format!(
                "found multiple remote write configs with job name {name:?}"
            )));
        }
        match read {
            Ok(destination) => remote.destinations.push(destination),
            Err(reason) => {
                let reason = item.error(format!("remote_write: {reason}")).to_string();
                remote.unusable.get_or_insert(reason);
            }
        }
        http::settle(item);
    }
    Ok(remote)
}

/// Reads an entry; the inner error says why its URL cannot be used.
fn destination(
    node: &Node,
    scheme: NameScheme,
    environment: Environment<'_>,
) -> Result<Result<RemoteWriteConfig, String>, ConfigError> {
    if node.is_null() {
        return Err(node.error("empty or null remote write config section"));
    }
    if node.given("url").is_none() {
        return Err(node.error("url for remote_write is empty"));
    }
    let what = "empty or null relabeling rule in remote write config";
    let write_relabel_configs = rules(node, "write_relabel_configs", scheme, what)?;
    let headers = node.labels("headers");
    check_headers(&headers).map_err(|message| node.error(message))?;
    let message = message(node)?;
    let mut http = http::client(node)?;
    let queue = queue(node)?;
    check_authentication(node, &http)?;
    let sigv4 = cloud::sigv4(node)?;
    let azuread = cloud::azuread(node, environment)?;
    let tokens =
        azuread.map_or_else(|| cloud::google_iam(node, environment), |one| Ok(Some(one)))?;
    if let Some(tokens) = tokens {
        http.oauth2 = Some(tokens);
    }
    let url = match url(node.text_of("url"), &mut http) {
        Ok(url) => url,
        Err(reason) => return Ok(Err(reason)),
    };
    Ok(Ok(RemoteWriteConfig {
        name: node.text_of("name").to_owned(),
        remote_timeout: node.period("remote_timeout"),
        headers,
        write_relabel_configs,
        send_exemplars: node.flag("send_exemplars"),
        send_native_histograms: node.flag("send_native_histograms"),
        message,
        frames: !node.flag("disable_frames"),
        http,
        round_robin_dns: node.flag("round_robin_dns"),
        sigv4,
        queue,
        metadata: metadata(node),
        ..RemoteWriteConfig::new(url)
    }))
}

fn check_headers(headers: &[(String, String)]) -> Result<(), String> {
    for (name, _) in headers {
        let plain = name.to_ascii_lowercase();
        if plain == "authorization" {
            return Err("authorization header must be changed via the basic_auth, authorization, oauth2, sigv4, azuread or google_iam parameter".to_owned());
        }
        if RESERVED_HEADERS.contains(&plain.as_str()) {
            return Err(format!(
                "{name} is a reserved header. It must not be changed"
            ));
        }
    }
    Ok(())
}

fn message(node: &Node) -> Result<Message, ConfigError> {
    let known = [Message::V1, Message::V2];
    let name = node.text_of("protobuf_message");
    let found = known.into_iter().find(|message| message.name() == name);
    found.ok_or_else(|| {
        let [first, second] = known.map(Message::name);
        node.error(format!(
            "invalid protobuf_message value: unknown type for remote write protobuf message {name}, supported: {first}, {second}"
        ))
    })
}

fn queue(node: &Node) -> Result<QueueConfig, ConfigError> {
    let Some(node) = node.given("queue_config") else {
        return Ok(QueueConfig::default());
    };
    let positive = |key: &str| match usize::try_from(node.whole(key)) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(node.error(format!("remote write queue {key} must be positive"))),
    };
    let (max_shards, min_shards) = (positive("max_shards")?, positive("min_shards")?);
    if min_shards > max_shards {
        return Err(node.error("remote write queue min_shards must not be greater than max_shards"));
    }
    let max_samples_per_send = positive("max_samples_per_send")?;
    let capacity = positive("capacity")?;
    let (min_backoff, max_backoff) = (node.period("min_backoff"), node.period("max_backoff"));
    if max_backoff < min_backoff {
        return Err(node.error("remote write queue max_backoff must not be less than min_backoff"));
    }
    let max_disk_bytes = match node.size_of("max_disk_size") {
        0 => DEFAULT_DISK_BYTES,
        bytes => u64::try_from(bytes)
            .map_err(|_| node.error("remote write queue max_disk_size must be positive"))?,
    };
    Ok(QueueConfig {
        capacity,
        max_shards,
        min_shards,
        max_samples_per_send,
        batch_send_deadline: node.period("batch_send_deadline"),
        min_backoff,
        max_backoff,
        retry_on_http_429: node.flag("retry_on_http_429"),
        sample_age_limit: node.period("sample_age_limit"),
        max_disk_bytes,
        fresh_first: node.flag("fresh_first"),
    })
}

fn metadata(node: &Node) -> MetadataConfig {
    let Some(node) = node.given("metadata_config") else {
        return MetadataConfig::default();
    };
    MetadataConfig {
        send: node.flag("send"),
        // Prometheus ends with a panic at 0.
        send_interval: node.period("send_interval").max(Duration::from_secs(1)),
        max_samples_per_send: node.limit("max_samples_per_send").max(1),
    }
}

fn check_authentication(node: &Node, http: &HttpClientConfig) -> Result<(), ConfigError> {
    let given = [
        ("basic_auth", http.basic_auth.is_some()),
        ("authorization", http.authorization.is_some()),
        ("oauth2", http.oauth2.is_some()),
        ("sigv4", node.given("sigv4").is_some()),
        ("azuread", node.given("azuread").is_some()),
        ("google_iam", node.given("google_iam").is_some()),
    ];
    let given: Vec<&str> = given
        .into_iter()
        .filter_map(|(name, is_given)| is_given.then_some(name))
        .collect();
    if given.len() > 1 {
        return Err(node.error(format!(
            "at most one of basic_auth, authorization, oauth2, sigv4, azuread or google_iam must be configured. Currently configured: [{}]",
            given.join(" ")
        )));
    }
    Ok(())
}

/// Parses a URL; credentials in it become those of the client, as in Go.
fn url(text: &str, http: &mut HttpClientConfig) -> Result<Url, String> {
    let parsed = |text: &str| Url::parse(text).map_err(|error| error.to_string());
    let Some((scheme, rest)) = text.split_once("://") else {
        return parsed(text);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let Some((userinfo, host)) = authority.rsplit_once('@') else {
        return parsed(text);
    };
    let url = parsed(&format!("{scheme}://{host}{path}"))?;
    if http.basic_auth.is_none() && http.authorization.is_none() && http.oauth2.is_none() {
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        let decoded = |part: &str| {
            let bytes = percent::decode(part)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let both = decoded(user).zip(decoded(password));
        let (username, password) = both.ok_or("malformed credentials in a URL")?;
        http.basic_auth = Some(BasicAuth {
            username,
            password: Secret::new(password),
            ..BasicAuth::default()
        });
    }
    Ok(url)
}
