//! Everything a loop needs to scrape its target.
//!
//! **Invariant:** a plan is made once per target and job configuration; a loop given an equal plan continues unchanged.

use crate::{
    config::{JobConfig, Limits, StartTimes},
    failure_log::FailureLog,
    target::Target,
};
use http::{HeaderMap, HeaderName, HeaderValue, header::ACCEPT};
use narthex_expfmt::{Format, ParseOptions, ScrapeProtocol, accept_header};
use narthex_model::{
    LabelSet, Pattern,
    labels::NameScheme,
    relabel::{Action, Rule},
};
use narthex_net::{Client, Request, Url};
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, LazyLock},
    time::Duration,
};

/// Bodies larger than this are rejected even without a configured limit.
const BODY_BYTES: usize = 1 << 30;

/// Header that says which process scrapes.
const SCRAPER: &str = "x-narthex-scraper";

/// Returns this process' value of the header: a random one.
fn scraper() -> &'static HeaderValue {
    static ID: LazyLock<HeaderValue> = LazyLock::new(|| {
        let random = RandomState::new().hash_one(SCRAPER);
        HeaderValue::from_str(&format!("{random:016x}")).expect("digits are a valid header")
    });
    &ID
}

/// Reports whether a request with these headers is a scrape of this process by itself.
///
/// What it scrapes must not be on the page that it is shown, or every round would have the one before.
#[must_use]
pub fn is_own_scrape(headers: &HeaderMap) -> bool {
    headers.get(SCRAPER) == Some(scraper())
}

/// How to scrape one target.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) client: Client,
    /// Distinguishes clients.
    client_id: u64,
    pub(crate) url: Url,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    accept: String,
    compression: bool,
    zstd: bool,
    pub(crate) options: ParseOptions,
    pub(crate) start_times: StartTimes,
    /// Format of responses without a usable content type.
    pub(crate) fallback: Option<Format>,
    pub(crate) honor_labels: bool,
    pub(crate) metric_relabel: Vec<Rule>,
    pub(crate) limits: Limits,
    pub(crate) names: NameScheme,
    pub(crate) extra_metrics: bool,
    pub(crate) labels: LabelSet,
    /// Log of failed scrapes.
    pub(crate) failure_log: Option<Arc<FailureLog>>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.client_id == other.client_id
            && self.url.as_str() == other.url.as_str()
            && (self.interval, self.timeout) == (other.interval, other.timeout)
            && self.accept == other.accept
            && (self.compression, self.zstd) == (other.compression, other.zstd)
            && (self.options, self.start_times) == (other.options, other.start_times)
            && self.fallback == other.fallback
            && self.extra_metrics == other.extra_metrics
            && self.resolves_like(other)
            && self.failure_log.as_ref().map(Arc::as_ptr)
                == other.failure_log.as_ref().map(Arc::as_ptr)
            && self.limits == other.limits
    }
}

impl Plan {
    /// Builds the plan of a target; `None` for one inside the process.
    pub(crate) fn new(
        job: &JobConfig,
        target: &Target,
        client: &Client,
        client_id: u64,
    ) -> Option<Self> {
        let protocols = match &job.scrape_protocols {
            Some(protocols) => protocols.as_slice(),
            // As in Prometheus, the job's configuration decides, not the target's label.
            None if job.scrape_native_histograms => &ScrapeProtocol::PROTO_FIRST,
            None => &ScrapeProtocol::DEFAULT,
        };
        let mut options = ParseOptions::default();
        options.honor_timestamps = job.honor_timestamps;
        options.track_timestamps_staleness = job.track_timestamps_staleness;
        options.native_histograms = target.histograms.native;
        options.classic_histograms = target.histograms.classic;
        options.custom_buckets = target.histograms.convert;
        options.start_times = job.start_times.are_read();
        options.type_and_unit_labels = job.type_and_unit_labels;
        options.sample_limit = job.limits.samples;
        options.bucket_limit = job.limits.native_histogram_buckets;
        options.max_histogram_schema = job.limits.max_histogram_schema();
        Some(Self {
            client: client.clone(),
            client_id,
            url: target.url.clone()?,
            interval: target.interval,
            timeout: target.timeout,
            accept: accept_header(protocols, job.escaping()),
            compression: job.enable_compression,
            zstd: job.accept_zstd,
            options,
            start_times: job.start_times,
            fallback: job.fallback_scrape_protocol.map(ScrapeProtocol::format),
            honor_labels: job.honor_labels,
            metric_relabel: job.metric_relabel_configs.clone(),
            limits: job.limits,
            names: job.metric_name_validation_scheme,
            extra_metrics: job.extra_scrape_metrics,
            labels: target.labels.clone(),
            failure_log: None,
        })
    }

    /// Reports whether both plans resolve every series to the same labels or the same error.
    pub(crate) fn resolves_like(&self, other: &Self) -> bool {
        let limits = |plan: &Self| {
            let limits = plan.limits;
            (
                limits.labels,
                limits.label_name_bytes,
                limits.label_value_bytes,
            )
        };
        self.honor_labels == other.honor_labels
            && self.metric_relabel == other.metric_relabel
            && self.names == other.names
            && limits(self) == limits(other)
    }

    /// Returns the request for the page.
    pub(crate) fn request(&self) -> Request {
        let mut request = Request::new(self.url.clone());
        request.timeout = self.timeout;
        request.accept_gzip = self.compression;
        request.body_limit_bytes = match self.limits.body_size_bytes {
            0 => BODY_BYTES,
            // A body of exactly the limit is already too large.
            limit => limit - 1,
        };
        let mut headers = HeaderMap::new();
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(ACCEPT, accept);
        }
        let encodings = match (self.compression, self.zstd) {
            (true, true) => "zstd,gzip",
            (true, false) => "gzip",
            (false, _) => "identity",
        };
        let encodings = HeaderValue::from_static(encodings);
        headers.insert(http::header::ACCEPT_ENCODING, encodings);
        if let Ok(seconds) = HeaderValue::from_str(&self.timeout.as_secs_f64().to_string()) {
            let name = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");
            headers.insert(name, seconds);
        }
        headers.insert(HeaderName::from_static(SCRAPER), scraper().clone());
        request.headers = headers;
        request
    }

    /// Reports whether every series of the target has all of the target's labels.
    ///
    /// If so, the schema stores them once.
    pub(crate) fn labels_are_common(&self) -> bool {
        !self.honor_labels && !self.rules_may_touch(&self.labels)
    }

    /// Reports whether a rule could change or remove any of `labels`.
    pub(crate) fn rules_may_touch(&self, labels: &LabelSet) -> bool {
        let mut rules = self.metric_relabel.iter();
        rules.any(|rule| may_touch(rule, labels))
    }
}

fn may_touch(rule: &Rule, labels: &LabelSet) -> bool {
    let config = rule.config();
    let matches = |name: &str| {
        let pattern = Pattern::anchored(config.regex.as_deref().unwrap_or("(.*)"));
        pattern.is_ok_and(|pattern| pattern.is_match(name))
    };
    match config.action {
        Some(Action::Keep | Action::Drop | Action::KeepEqual | Action::DropEqual) => false,
        Some(Action::LabelDrop) => labels.iter().any(|label| matches(label.name())),
        Some(Action::LabelKeep) => !labels.iter().all(|label| matches(label.name())),
        Some(Action::LabelMap) => true,
        _ => config.target_label.contains('$') || labels.label(&config.target_label).is_some(),
    }
}
