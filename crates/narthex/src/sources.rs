//! Sources inside this process: its own metrics, the host's, and files.

use narthex_client::Registry;
use narthex_expfmt::{Format, KeepLabels, Negotiated, ParseOptions, Parser, Round, Writer};
use narthex_files::{Entry, FileKind, FileSource, FilesConfig, RoundSource};
use narthex_host::{CollectorKind, CollectorSet, HostConfig, HostError, HostSource};
use narthex_model::{
    Frame, LabelSet,
    storage::{Binding, Budget, Sink, StorageError},
    sync::Renew as _,
};
use narthex_scrape::LocalSource;
use std::sync::Mutex;

/// This process' own metrics.
pub(crate) struct OwnMetrics {
    registry: &'static Registry,
    labels: LabelSet,
    page: Vec<u8>,
    parser: Parser,
    round: Round,
}

impl OwnMetrics {
    pub(crate) fn new(registry: &'static Registry, labels: LabelSet) -> Self {
        Self {
            registry,
            page: Vec::new(),
            parser: Parser::new(labels.clone(), ParseOptions::default()),
            round: Round::default(),
            labels,
        }
    }
}

impl LocalSource for OwnMetrics {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        self.page.clear();
        self.registry.encode_text(&mut self.page);
        let (round, page) = (&mut self.round, &self.page);
        self.parser
            .parse_into(round, Format::Text, page, now_ms, &mut KeepLabels)
            .map_err(|error| error.to_string())?;
        Ok(&self.round.frame)
    }

    fn restart(&mut self) -> Result<(), String> {
        *self = Self::new(self.registry, self.labels.clone());
        Ok(())
    }
}

/// This process' metrics as `/metrics` shows them.
///
/// **Invariant:** the registry writes the text format itself. Other formats are written from its frame by a writer that
/// is kept, so that only numbers change between pages.
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
        Self {
            registry,
            rendered: Mutex::new(Rendered::new(registry)),
        }
    }

    /// Renders the page in the format an `Accept` header asks for; returns it with its content type, `None` for text.
    pub(crate) fn render(&self, accept: &str) -> (Option<String>, Vec<u8>) {
        let style = Negotiated::from_accept(accept);
        let mut page = Vec::new();
        if style.format != Format::Text && self.append(style, &mut page) {
            Writer::end(style, &mut page);
            return (Some(style.content_type()), page);
        }
        self.registry.encode_text(&mut page);
        (None, page)
    }

    /// Returns the metrics as a round at `now_ms`, or `None` if they cannot be read back.
    pub(crate) fn frame(&self, now_ms: i64) -> Option<Frame> {
        let renew = |_: &Rendered| Rendered::new(self.registry);
        let mut rendered = self.rendered.lock_or_renew(renew);
        rendered.source.collect(now_ms).ok().cloned()
    }

    /// Appends the metrics in a format, without its end. Returns `false`, having appended nothing, if they can't be
    /// rendered in it.
    pub(crate) fn append(&self, style: Negotiated, page: &mut Vec<u8>) -> bool {
        if style.format == Format::Text {
            self.registry.encode_text(page);
            return true;
        }
        // After a panic, parser and writers may disagree about the columns.
        let renew = |_: &Rendered| Rendered::new(self.registry);
        let mut rendered = self.rendered.lock_or_renew(renew);
        rendered.write(style, page).is_ok()
    }
}

impl Rendered {
    fn new(registry: &'static Registry) -> Self {
        Self {
            source: OwnMetrics::new(registry, LabelSet::empty()),
            writers: Vec::new(),
        }
    }

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
        Ok(())
    }
}

/// Returns an entry of files with its source; what it keeps is leased from `budget`.
///
/// # Errors
/// Fails when the entry's labels cannot be used.
pub(crate) fn file_entry(config: &FilesConfig, budget: &Budget) -> Result<Entry, HostError> {
    let source: Box<dyn RoundSource> = match config.kind {
        FileKind::Metrics | FileKind::PythonMultiprocess => {
            Box::new(FileSource::new(config.clone(), budget.clone()))
        }
        FileKind::Textfile => Box::new(Textfiles::new(config)?),
    };
    let config = config.clone();
    Ok(Entry { config, source })
}

/// Text files, as the host's collector reads them.
pub(crate) struct Textfiles {
    source: HostSource,
    binding: Option<Box<dyn Binding>>,
}

impl Textfiles {
    /// # Errors
    /// Fails when the entry's labels cannot be used.
    pub(crate) fn new(config: &FilesConfig) -> Result<Self, HostError> {
        let collectors = CollectorSet::none().with(CollectorKind::Textfile);
        let source = HostSource::new(HostConfig {
            collectors,
            common: config.common(),
            textfile_directories: config.paths.clone(),
            ..HostConfig::default()
        })?;
        Ok(Self {
            source,
            binding: None,
        })
    }
}

impl RoundSource for Textfiles {
    fn round(&mut self, now_ms: i64, sink: &dyn Sink) -> Result<(), StorageError> {
        let frame = self.source.collect(now_ms);
        append(&mut self.binding, frame, sink)
    }

    fn end(&mut self, now_ms: i64, sink: &dyn Sink) -> Result<(), StorageError> {
        let last = self.source.frame();
        let mut frame = Frame::new(last.schema().clone(), now_ms);
        frame.mark_absent(last.present());
        append(&mut self.binding, &frame, sink)
    }
}

fn append(
    bound: &mut Option<Box<dyn Binding>>,
    frame: &Frame,
    sink: &dyn Sink,
) -> Result<(), StorageError> {
    let binding = match bound {
        Some(binding) => binding,
        empty => empty.insert(sink.bind(frame.schema())?),
    };
    binding.append(frame).map(drop)
}
