//! How samples are sent to a remote end: one entry of `remote_write`.
//!
//! **Invariant:** values here are checked: counts are positive, `min` is at most `max`.

use crate::Message;
use narthex_model::relabel::Rule;
use narthex_net::{HttpClientConfig, SigV4Config, Url};
use std::time::Duration;

/// One entry of `remote_write`, with Prometheus' names and defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteWriteConfig {
    /// Name in metrics, logs and on disk; derived from the URL if empty.
    pub name: String,
    /// Where requests are sent.
    pub url: Url,
    /// Time for a request. 30 s.
    pub remote_timeout: Duration,
    /// Headers to send.
    pub headers: Vec<(String, String)>,
    /// Rules for series, after external labels.
    pub write_relabel_configs: Vec<Rule>,
    /// Whether exemplars are sent.
    pub send_exemplars: bool,
    /// Whether native histograms are sent in messages of version 1; those of version 2 always have them.
    pub send_native_histograms: bool,
    /// The message for receivers that do not offer frames.
    pub message: Message,
    /// Whether frames are sent to receivers that offer them. True. Not a key of Prometheus.
    pub frames: bool,
    /// Authentication, TLS and proxy.
    pub http: HttpClientConfig,
    /// Whether each connection begins with another of the name's addresses. False.
    pub round_robin_dns: bool,
    /// Signing for AWS, if it is asked for.
    pub sigv4: Option<SigV4Config>,
    /// The queue.
    pub queue: QueueConfig,
    /// Metadata, in messages of version 1.
    pub metadata: MetadataConfig,
}

/// `queue_config`.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    /// Samples that may wait in memory for each shard. 10,000.
    pub capacity: usize,
    /// Most requests at a time. 50.
    pub max_shards: usize,
    /// Fewest requests at a time. 1.
    pub min_shards: usize,
    /// Most samples of a request. 2,000.
    pub max_samples_per_send: usize,
    /// Longest time that a sample waits for others. 5 s.
    pub batch_send_deadline: Duration,
    /// First pause after a failure; it doubles with each. 30 ms.
    pub min_backoff: Duration,
    /// Longest pause after a failure. 5 s.
    pub max_backoff: Duration,
    /// Whether requests answered with 429 are repeated. False.
    pub retry_on_http_429: bool,
    /// Age from which samples are dropped; zero for never.
    pub sample_age_limit: Duration,
    /// Most bytes on disk; beyond, the oldest are dropped. 1 GiB. Not a key of Prometheus.
    pub max_disk_bytes: u64,
    /// Whether new samples are sent beside those that wait since an outage. False. Not a key of Prometheus.
    pub fresh_first: bool,
}

/// Default of [`QueueConfig::max_disk_bytes`].
pub const DEFAULT_DISK_BYTES: u64 = 1 << 30;

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            capacity: 10_000,
            max_shards: 50,
            min_shards: 1,
            max_samples_per_send: 2_000,
            batch_send_deadline: Duration::from_secs(5),
            min_backoff: Duration::from_millis(30),
            max_backoff: Duration::from_secs(5),
            retry_on_http_429: false,
            sample_age_limit: Duration::ZERO,
            max_disk_bytes: DEFAULT_DISK_BYTES,
            fresh_first: false,
        }
    }
}

/// `metadata_config`.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataConfig {
    /// Whether metadata is sent. True.
    pub send: bool,
    /// How often. 1 min.
    pub send_interval: Duration,
    /// Most families of a request. 2,000.
    pub max_samples_per_send: usize,
}

impl Default for MetadataConfig {
    fn default() -> Self {
        Self {
            send: true,
            send_interval: Duration::from_mins(1),
            max_samples_per_send: 2_000,
        }
    }
}

impl RemoteWriteConfig {
    /// Returns Prometheus' defaults for a URL.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            name: String::new(),
            url,
            remote_timeout: Duration::from_secs(30),
            headers: Vec::new(),
            write_relabel_configs: Vec::new(),
            send_exemplars: false,
            send_native_histograms: false,
            message: Message::V1,
            frames: true,
            http: HttpClientConfig {
                enable_http2: false,
                ..HttpClientConfig::default()
            },
            round_robin_dns: false,
            sigv4: None,
            queue: QueueConfig::default(),
            metadata: MetadataConfig::default(),
        }
    }
}
