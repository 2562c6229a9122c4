//! Collects rounds and renders them.
//!
//! **Invariant:** names and labels are rendered when the schema changes; a page of the same schema only gets digits.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use narthex_expfmt::{Format, Negotiated, Writer};
use narthex_net::{COMPRESS_FROM_BYTES, Encoding, PageCompressor};

use super::{Adviser, Finding, OwnMetrics, failures};
use crate::config::HostConfig;
use crate::cost::CollectorCost;
use crate::error::HostError;
use crate::kind::{CollectorKind, CollectorSet};
use crate::source::HostSource;

/// Kinds of pages that have a compressor of their own; a few jobs may each ask for some collectors.
const MOST_COMPRESSORS: usize = 4;

/// A page as it is sent, or before it is compressed in another encoding.
pub(super) struct Page {
    pub(super) body: Bytes,
    pub(super) encoding: Encoding,
}

pub(super) struct Renderer {
    host: HostConfig,
    source: HostSource,
    own: Option<OwnMetrics>,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    writers: Vec<(Negotiated, Writer)>,
    compressors: Vec<((Negotiated, CollectorSet), PageCompressor)>,
    /// Length of the last page, which the next one is likely to have.
    page_bytes: usize,
    /// The last page, if it was sent compressed.
    spare: Vec<u8>,
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
            compressors: Vec::new(),
            page_bytes: 0,
            spare: Vec::new(),
            failures: BTreeMap::new(),
        })
    }

    /// Collects once, so that no scrape is the one that waits for a device that does not answer.
    pub(super) fn warm_up(&mut self) {
        self.source.warm_up((self.now_ms)());
    }

    pub(super) fn collectors(&self) -> CollectorSet {
        self.source.collectors()
    }

    /// Returns a renderer with the same settings that has not collected anything yet.
    pub(super) fn renewed(&self) -> Self {
        let now_ms = Arc::clone(&self.now_ms);
        let renewed = Self::new(self.host.clone(), self.own.clone(), now_ms);
        renewed.expect("the same settings were valid before")
    }

    /// Collects; returns what each collector cost, and advice on the host.
    pub(super) fn measured(
        &mut self,
        adviser: Option<&Adviser>,
    ) -> (Vec<CollectorCost>, Vec<Finding>) {
        let now_ms = (self.now_ms)();
        let costs = self.source.collect_measured(now_ms);
        self.log_failures();
        let findings = adviser.map(|examine| examine(self.source.frame(), now_ms));
        (costs, findings.unwrap_or_default())
    }

    /// Collects with only these collectors, and renders the page; compresses it if that is to be by gzip.
    pub(super) fn page(
        &mut self,
        only: CollectorSet,
        style: Negotiated,
        encoding: Encoding,
    ) -> Page {
        self.source.collect_only((self.now_ms)(), only);
        self.log_failures();
        let page = self.render(style);
        let is_text = style.format != Format::Protobuf;
        if encoding == Encoding::Gzip && is_text && page.len() >= COMPRESS_FROM_BYTES {
            let packed = self.compressor((style, only)).gzip(&page);
            if let Some(packed) = packed {
                self.spare = page;
                return Page {
                    body: packed.into(),
                    encoding,
                };
            }
        }
        Page {
            body: page.into(),
            encoding: Encoding::Identity,
        }
    }

    fn render(&mut self, style: Negotiated) -> Vec<u8> {
        let mut page = std::mem::take(&mut self.spare);
        page.clear();
        page.reserve(self.page_bytes + self.page_bytes / 16);
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
        page
    }

    /// Returns the compressor for pages of a kind, of which the one used last is the last.
    fn compressor(&mut self, kind: (Negotiated, CollectorSet)) -> &mut PageCompressor {
        let known = self
            .compressors
            .iter()
            .position(|(known, _)| *known == kind);
        let compressor = match known {
            Some(at) => self.compressors.remove(at).1,
            None => PageCompressor::new(),
        };
        if self.compressors.len() == MOST_COMPRESSORS {
            self.compressors.remove(0);
        }
        &mut self.compressors.push_mut((kind, compressor)).1
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
