//! `http_sd_configs`: groups in a JSON document at a URL.
//!
//! Invariant: any response other than a 200 with JSON keeps the targets found before.

use narthex_net::{Client, Request, StopToken, Url};

use crate::config::HttpSdConfig;
use crate::discoverer::{Discoverer, Options, Run, Updates};
use crate::error::DiscoveryError;
use crate::group::{Notation, TargetGroup, read_groups, source};
use crate::metrics;
use crate::refresh::{Refresh, Round};

/// Maximum size of a document.
const MAX_BODY_BYTES: usize = 64 << 20;
const URL_LABEL: &str = "__meta_url";

#[derive(Debug)]
pub(crate) struct HttpDiscovery {
    client: Client,
    request: Request,
    /// As configured: part of sources and labels.
    url: String,
    /// Number of groups in the last good response.
    known: usize,
    refresh: Refresh,
}

impl HttpDiscovery {
    pub(crate) fn new(
        config: &HttpSdConfig,
        job: &str,
        options: &Options,
    ) -> Result<Self, DiscoveryError> {
        let client = Client::with_http(options.client.clone(), config.http.clone())?;
        let mut request = Request::new(Url::parse(&config.url)?);
        request.timeout = config.refresh_interval;
        request.body_limit_bytes = MAX_BODY_BYTES;
        let seconds = config.refresh_interval.as_secs_f64().to_string();
        let headers = &mut request.headers;
        headers.insert("accept", http::HeaderValue::from_static("application/json"));
        headers.insert(
            "x-prometheus-refresh-interval-seconds",
            http::HeaderValue::try_from(seconds).expect("digits and a dot"),
        );
        Ok(Self {
            client,
            request,
            url: config.url.clone(),
            known: 0,
            refresh: Refresh {
                mechanism: "http",
                job: job.to_owned(),
                interval: config.refresh_interval,
            },
        })
    }

    async fn fetch(&mut self) -> Result<Vec<TargetGroup>, DiscoveryError> {
        let mut body = Vec::new();
        let head = self.client.get(&self.request, &mut body).await?;
        head.require_ok()?;
        let content_type = head.content_type.as_deref().unwrap_or_default();
        if !is_json(content_type) {
            return Err(DiscoveryError::Answer {
                message: format!("unsupported content type {content_type:?}"),
            });
        }
        let mut groups = read_groups(&body, Notation::Json, URL_LABEL, &self.url)
            .map_err(|message| DiscoveryError::Answer { message })?;
        let found = groups.len();
        groups.extend((found..self.known).map(|at| TargetGroup::gone(source(&self.url, at))));
        self.known = found;
        Ok(groups)
    }
}

impl Round for HttpDiscovery {
    async fn round(&mut self) -> Result<Vec<TargetGroup>, DiscoveryError> {
        let result = self.fetch().await;
        if result.is_err() {
            metrics::HTTP_FAILURES.inc();
        }
        result
    }
}

impl Discoverer for HttpDiscovery {
    fn run(self: Box<Self>, updates: Updates, stop: StopToken) -> Run {
        Box::pin(self.refresh.clone().run(*self, updates, stop))
    }
}

/// Reports whether the type is `application/json`, alone or with the charset UTF-8.
pub(crate) fn is_json(content_type: &str) -> bool {
    let lower = content_type.trim().to_ascii_lowercase();
    let Some((kind, parameter)) = lower.split_once(';') else {
        return lower == "application/json";
    };
    let charset = parameter.trim_start();
    kind == "application/json" && matches!(charset, "charset=utf-8" | "charset=\"utf-8\"")
}

#[cfg(test)]
mod tests;
