//! The thread that collects rounds and renders them.
//!
//! **Invariant:** names and labels are rendered when the schema changes; a page of the same schema only gets digits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use narthex_expfmt::{Negotiated, Writer};
use narthex_net::catch_panic;
use tokio::sync::oneshot;

use super::{OwnMetrics, failures};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::{CollectorKind, CollectorSet};
use crate::source::HostSource;

/// A scrape that waits for its page.
pub(super) struct Asked {
    pub(super) only: CollectorSet,
    pub(super) style: Negotiated,
    pub(super) page: oneshot::Sender<Bytes>,
}

pub(super) struct Renderer {
    host: HostConfig,
    source: HostSource,
    own: Option<OwnMetrics>,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    writers: Vec<(Negotiated, Writer)>,
    /// Length of the last page, which the next one is likely to have.
    page_bytes: usize,
    failures: BTreeMap<CollectorKind, String>,
}

impl Renderer {
    pub(super) fn new(
        host: HostConfig,
        own: Option<OwnMetrics>,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) -> Result<Self, HostError> {
        Ok(Self {
            source: HostSource::new(host.clone())?,
            host,
            own,
            now_ms,
            writers: Vec::new(),
            page_bytes: 0,
            failures: BTreeMap::new(),
        })
    }

    pub(super) fn collectors(&self) -> CollectorSet {
        self.source.collectors()
    }

    /// Answers until nobody can ask any more.
    pub(super) fn run(mut self, asks: &Receiver<Asked>) {
        while let Ok(first) = asks.recv() {
            let waiting: Vec<Asked> = std::iter::once(first).chain(asks.try_iter()).collect();
            if catch_panic("host", || self.answer(waiting)).is_ok() {
                continue;
            }
            // What a panic left half-done must not be exported.
            let (host, own) = (self.host.clone(), self.own.clone());
            match Self::new(host, own, Arc::clone(&self.now_ms)) {
                Ok(renewed) => self = renewed,
                Err(error) => return tracing::error!(%error, "Collecting can't be restarted."),
            }
        }
    }

    /// Collects once for each selection of collectors, and renders once for each format of it.
    fn answer(&mut self, waiting: Vec<Asked>) {
        // A client that gave up needs no round.
        let mut waiting: Vec<Asked> = waiting
            .into_iter()
            .filter(|asked| !asked.page.is_closed())
            .collect();
        while let Some(only) = waiting.first().map(|asked| asked.only) {
            self.source.collect_only((self.now_ms)(), only);
            self.log_failures();
            let (mut same, others): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|asked| asked.only == only);
            waiting = others;
            while let Some(style) = same.first().map(|asked| asked.style) {
                let page = self.render(style);
                for asked in same.extract_if(.., |asked| asked.style == style) {
                    // It fails when the client has gone meanwhile.
                    let _ = asked.page.send(page.clone());
                }
            }
        }
    }

    fn render(&mut self, style: Negotiated) -> Bytes {
        let mut page = Vec::with_capacity(self.page_bytes + self.page_bytes / 16);
        if let Some(own) = &self.own {
            own(style, &mut page);
        }
        let frame = self.source.frame();
        let known = self.writers.iter().position(|(known, _)| *known == style);
        let at = known.unwrap_or_else(|| {
            let writer = Writer::new(frame.schema(), style);
            self.writers.push((style, writer));
            self.writers.len() - 1
        });
        if let Some((_, writer)) = self.writers.get_mut(at) {
            writer.write(frame, &mut page);
        }
        Writer::end(style, &mut page);
        self.page_bytes = page.len();
        page.into()
    }

    /// Logs failures that begin, change or end.
    fn log_failures(&mut self) {
        if self.failures.is_empty() && self.source.errors().all(|(_, error)| error.is_no_data()) {
            return;
        }
        let failures = failures(&self.source);
        for (kind, error) in &failures {
            if self.failures.get(kind) != Some(error) {
                tracing::error!(collector = kind.name(), error, "A collector failed.");
            }
        }
        for kind in self
            .failures
            .keys()
            .filter(|kind| !failures.contains_key(kind))
        {
            tracing::info!(collector = kind.name(), "A collector works again.");
        }
        self.failures = failures;
    }
}
