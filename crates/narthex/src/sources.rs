//! Sources inside this process: its own metrics and the host's.

use narthex_client::Registry;
use narthex_expfmt::{Format, KeepLabels, Negotiated, ParseOptions, Parser, Writer};
use narthex_host::HostSource;
use narthex_model::{Frame, LabelSet};
use narthex_scrape::LocalSource;
use std::sync::{Mutex, PoisonError};

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

/// This process' metrics as `/metrics` shows them.
///
/// **Invariant:** text is what the registry writes itself. Other formats come from its frame, by a writer that is kept:
/// only numbers move from one page to the next.
pub(crate) struct OwnPage {
    registry: &'static Registry,
    rendered: Mutex<Rendered>,
}

struct Rendered {
    source: OwnMetrics,
    writers: Vec<(Negotiated, Writer)>,
}

impl OwnPage {
    pub(crate) fn new(registry: &'static Registry) -> Self {
        let rendered = Rendered {
            source: OwnMetrics::new(registry, LabelSet::empty()),
            writers: Vec::new(),
        };
        Self {
            registry,
            rendered: Mutex::new(rendered),
        }
    }

    /// Renders the page as an `Accept` header asks for; returns it with its content type, `None` for text.
    pub(crate) fn render(&self, accept: &str) -> (Option<String>, Vec<u8>) {
        let style = Negotiated::from_accept(accept);
        let mut page = Vec::new();
        if style.format != Format::Text {
            let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
            if rendered.write(style, &mut page).is_ok() {
                return (Some(style.content_type()), page);
            }
        }
        self.registry.encode_text(&mut page);
        (None, page)
    }
}

impl Rendered {
    fn write(&mut self, style: Negotiated, page: &mut Vec<u8>) -> Result<(), String> {
        let frame = self.source.collect(0)?;
        let known = self.writers.iter().position(|(known, _)| *known == style);
        let at = known.unwrap_or_else(|| {
            self.writers
                .push((style, Writer::new(frame.schema(), style)));
            self.writers.len() - 1
        });
        if let Some((_, writer)) = self.writers.get_mut(at) {
            writer.write(frame, page);
        }
        Writer::end(style, page);
        Ok(())
    }
}

/// The host's metrics.
pub(crate) struct HostMetrics(pub(crate) HostSource);

impl LocalSource for HostMetrics {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        Ok(self.0.collect(now_ms))
    }
}
