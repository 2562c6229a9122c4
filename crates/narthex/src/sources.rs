//! Sources inside this process: its own metrics and the host's.

use narthex_client::Registry;
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_host::HostSource;
use narthex_model::{Frame, LabelSet};
use narthex_scrape::LocalSource;

/// This process' own metrics.
pub(crate) struct OwnMetrics {
    registry: &'static Registry,
    page: Vec<u8>,
    parser: Parser,
}

impl OwnMetrics {
    pub(crate) fn new(registry: &'static Registry, labels: LabelSet) -> Self {
        Self {
            registry,
            page: Vec::new(),
            parser: Parser::new(labels, ParseOptions::default()),
        }
    }
}

impl LocalSource for OwnMetrics {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        self.page.clear();
        self.registry.encode_text(&mut self.page);
        let round = self
            .parser
            .parse(Format::Text, &self.page, now_ms, &mut KeepLabels)
            .map_err(|error| error.to_string())?;
        Ok(round.frame)
    }
}

/// The host's metrics.
pub(crate) struct HostMetrics(pub(crate) HostSource);

impl LocalSource for HostMetrics {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        Ok(self.0.collect(now_ms))
    }
}
