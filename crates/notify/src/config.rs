//! What is sent where: the `alerting` section of a configuration, and the flags of the notifier.

use narthex_discovery::{Options as DiscoveryOptions, SdConfig};
use narthex_model::{relabel::Rule, storage::Budget};
use narthex_net::{ClientConfig, HttpClientConfig, SigV4Config};
use std::time::Duration;

/// The `alerting` section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlertingConfig {
    /// `alert_relabel_configs`: rules for all alerts.
    pub alert_relabel_configs: Vec<Rule>,
    /// `alertmanagers`: sets of Alertmanagers; each gets every alert.
    pub sets: Vec<AlertmanagerConfig>,
}

/// One entry of `alertmanagers`. Two equal ones are the same set across a reload.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertmanagerConfig {
    /// `http` or `https`.
    pub scheme: String,
    /// Path before `/api/v2/alerts`.
    pub path_prefix: String,
    /// Time for one request.
    pub timeout: Duration,
    /// Rules that turn discovered labels into Alertmanagers.
    pub relabel_configs: Vec<Rule>,
    /// Rules for alerts sent to this set alone, after those for all.
    pub alert_relabel_configs: Vec<Rule>,
    /// HTTP settings of requests.
    pub http: HttpClientConfig,
    /// How requests are signed for AWS, if they are.
    pub sigv4: Option<SigV4Config>,
    /// How its Alertmanagers are found.
    pub discovery: Vec<SdConfig>,
}

impl Default for AlertmanagerConfig {
    /// Returns Prometheus' defaults, without discovery.
    fn default() -> Self {
        Self {
            scheme: "http".to_owned(),
            path_prefix: String::new(),
            timeout: Duration::from_secs(10),
            relabel_configs: Vec::new(),
            alert_relabel_configs: Vec::new(),
            http: HttpClientConfig::default(),
            sigv4: None,
            discovery: Vec::new(),
        }
    }
}

/// Settings of a notifier that do not change while it runs.
#[derive(Clone, Debug)]
pub struct NotifierOptions {
    /// Most alerts that wait for one Alertmanager; beyond it the oldest are dropped. 10,000.
    pub queue_capacity: usize,
    /// Most alerts of one request; 0 means the default. 256.
    pub max_batch_size: usize,
    /// Whether what waits for an Alertmanager is sent when it goes and at shutdown, or dropped. Yes.
    pub drain_on_shutdown: bool,
    /// Base client settings, which HTTP settings of sets override.
    pub client: ClientConfig,
    /// Environment of service discovery.
    pub discovery: DiscoveryOptions,
    /// Memory for waiting alerts.
    pub memory: Budget,
}

/// Prometheus' `DefaultMaxBatchSize`.
const DEFAULT_BATCH_SIZE: usize = 256;

impl Default for NotifierOptions {
    fn default() -> Self {
        Self {
            queue_capacity: 10_000,
            max_batch_size: DEFAULT_BATCH_SIZE,
            drain_on_shutdown: true,
            client: ClientConfig::default(),
            discovery: DiscoveryOptions::default(),
            memory: Budget::unlimited(),
        }
    }
}

impl NotifierOptions {
    pub(crate) fn batch_size(&self) -> usize {
        match self.max_batch_size {
            0 => DEFAULT_BATCH_SIZE,
            size => size,
        }
    }
}
