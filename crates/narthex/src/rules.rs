//! Rules: their files, and what evaluates them.
//!
//! **Invariant:** files are read before anything of a configuration is applied: one that is invalid changes nothing.

use crate::{cli::ServerOptions, config::Config, memory::Memory, status::hostname};
use narthex_model::storage::{Sink, Store};
use narthex_net::{Router, Url};
use narthex_promql::Engine;
use narthex_rules::{AlertSink, EvalOptions, Manager, ParseOptions, RouteLimits, RuleSet};
use std::{sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// Work that another thread for rules of one group saves at least.
const WORTH_A_THREAD: Duration = Duration::from_millis(1);

/// What evaluates rules, and what it needs beside a configuration.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) manager: Arc<Manager>,
    external_url: Arc<str>,
    language: narthex_promql::ParseOptions,
}

impl Rules {
    /// Returns what evaluates rules with `engine` on the blocking threads of `runtime` and sends alerts to
    /// `alerts`; there are none yet.
    ///
    /// # Errors
    /// Fails on an unusable external URL; `address` makes the default.
    pub(crate) fn new(
        options: &ServerOptions,
        address: &str,
        memory: &Memory,
        engine: Engine,
        alerts: Arc<dyn AlertSink>,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
        runtime: Handle,
    ) -> Result<Self, String> {
        let external_url = external_url(&options.external_url, address)?;
        let evaluation = EvalOptions {
            engine,
            queries: memory.queries.clone(),
            state: memory.rules.clone(),
            timeout: options.query_timeout,
            now_ms,
            alerts: Some(alerts),
            outage_tolerance: options.outage_tolerance,
            grace_period: options.alert_grace_period,
            resend_delay: options.alert_resend_delay,
        };
        let manager = Manager::new(evaluation, runtime);
        manager.evaluate_at_once(options.rules_at_once(), WORTH_A_THREAD);
        Ok(Self {
            manager,
            external_url,
            language: options.query_language(),
        })
    }

    /// Reads the rules that a configuration names.
    ///
    /// # Errors
    /// Fails with all errors of the first invalid file.
    pub(crate) fn load(&self, config: &Config) -> Result<RuleSet, String> {
        let settings = &config.rules;
        let options = ParseOptions {
            scheme: settings.scheme,
            language: self.language,
            ..ParseOptions::default()
        };
        let mut files = Vec::with_capacity(settings.files.len());
        for path in &settings.files {
            let shown = path.display();
            let file = narthex_rules::load(path, options).map_err(|errors| {
                let lines = errors.iter().map(|error| format!("{shown}: {error}"));
                lines.collect::<Vec<_>>().join("; ")
            })?;
            for warning in &file.warnings {
                tracing::warn!(file = shown.to_string(), warning, "Rules");
            }
            files.push((shown.to_string(), file));
        }
        Ok(RuleSet {
            files,
            interval: settings.interval,
            query_offset: settings.query_offset,
            external_labels: config.external_labels.clone(),
            external_url: self.external_url.to_string(),
        })
    }

    /// Lets evaluations begin and returns the routes about rules and alerts.
    pub(crate) fn open(
        &self,
        store: Arc<dyn Store>,
        sink: Arc<dyn Sink>,
        options: &ServerOptions,
        memory: &Memory,
    ) -> Router {
        self.manager.open(store, sink);
        let limits = RouteLimits {
            memory: memory.listings.clone(),
            wait: options.query_timeout,
        };
        narthex_rules::routes(Arc::clone(&self.manager), limits)
    }
}

/// Returns the URL under which others reach this server, without a slash at its end.
fn external_url(given: &str, address: &str) -> Result<Arc<str>, String> {
    if given.is_empty() {
        let port = address.rsplit(':').next().unwrap_or_default();
        return Ok(format!("http://{}:{port}", hostname()).into());
    }
    Url::parse(given).map_err(|error| error.to_string())?;
    if given.contains(['?', '#']) {
        return Err(format!("{given:?} has more than a path behind its host"));
    }
    Ok(given.trim_end_matches('/').into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_urls_end_without_a_slash() {
        let shown = |given: &str| external_url(given, "127.0.0.1:9090");
        assert_eq!(
            &*shown("https://p.example:8443/").unwrap(),
            "https://p.example:8443"
        );
        let own = shown("").unwrap();
        assert_eq!(&*own, format!("http://{}:9090", hostname()));
        assert_eq!(
            &*shown("http://p.example/prom/a/").unwrap(),
            "http://p.example/prom/a"
        );
        assert!(shown("http://p.example/?a=b").is_err());
        assert!(shown("p.example").is_err());
    }
}
