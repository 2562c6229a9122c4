//! Sources inside this process: its own metrics and the host's.

use narthex_client::Registry;
use narthex_expfmt::{Format, KeepLabels, Negotiated, ParseOptions, Parser, Writer};
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

/// Renders this process' metrics in the format that an `Accept` header asks for; returns it with its content type,
/// `None` for text.
///
/// Text is what the registry writes itself; other formats are made from its frame.
pub(crate) fn own_page(registry: &'static Registry, accept: &str) -> (Option<String>, Vec<u8>) {
    let style = Negotiated::from_accept(accept);
    let mut page = Vec::new();
    if style.format != Format::Text {
        let mut source = OwnMetrics::new(registry, LabelSet::empty());
        if let Ok(frame) = source.collect(0) {
            Writer::new(frame.schema(), style).write(frame, &mut page);
            Writer::end(style, &mut page);
            return (Some(style.content_type()), page);
        }
    }
    registry.encode_text(&mut page);
    (None, page)
}

/// The host's metrics.
pub(crate) struct HostMetrics(pub(crate) HostSource);

impl LocalSource for HostMetrics {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        Ok(self.0.collect(now_ms))
    }
}
