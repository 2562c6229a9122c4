//! One file as an origin: its parser, what it shows now, and what was stored of it.
//!
//! **Invariant:** every series that was stored gets a staleness marker when the file shows it no longer, unless another
//! file shows it in the same round. Every round has the series about the file itself.

use crate::{
    config::{FileKind, FilesConfig},
    labels::FileLabels,
    look::{FileReader, Look},
    metrics,
    python::PythonReader,
};
use narthex_expfmt::{Format, ParseOptions, Parser, Round};
use narthex_model::{
    ColumnId, Family, Frame, LabelHash, LabelSet, METRIC_NAME, MetricType, Schema,
    bits::BitSet,
    storage::{Binding, Budget, Lease, SeriesSample, Sink, StorageError},
};
use narthex_net::catch_panic;
use std::{collections::HashSet, path::PathBuf};

/// Rounds in a row after which a half-written file counts as broken.
const UNFINISHED_ROUNDS: u32 = 3;
/// Bytes that a sink and the schema keep for a series, about.
const SERIES_BYTES: u64 = 200;

/// Name and help of the series about a file, which have its path as label `file`.
const OWN: [(&str, &str); 4] = [
    (
        "up",
        "Whether the file was last found complete and free of mistakes.",
    ),
    (
        "narthex_files_modified_timestamp_seconds",
        "When the file was last modified, as a Unix time.",
    ),
    ("narthex_files_samples", "Samples in the file."),
    (
        "narthex_files_duplicate_samples",
        "Samples of the file that are left out because another file has their series.",
    ),
];

/// How a look changed what a file shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    Nothing,
    /// Only numbers.
    Values,
    /// Series came or went.
    Series,
    /// It is being written: look again soon.
    Unfinished,
}

#[derive(Debug)]
enum Reader {
    File(FileReader),
    Python(Box<PythonReader>),
}

pub(crate) struct FileOrigin {
    path: PathBuf,
    reader: Reader,
    labels: FileLabels,
    parser: Parser,
    /// The last good page.
    page: Round,
    /// Whether that page is what the file shows.
    is_shown: bool,
    error: Option<String>,
    unfinished: u32,
    modified_ms: Option<i64>,
    /// Columns left out because another file has them.
    masked: BitSet,
    stored: Stored,
    budget: Budget,
    lease: Option<Lease>,
}

/// What the sink has of a file.
struct Stored {
    frame: Frame,
    /// Columns of that frame's schema with a sample in the last round.
    sent: BitSet,
    binding: Option<Box<dyn Binding>>,
}

impl FileOrigin {
    pub(crate) fn new(path: &str, labels: LabelSet, config: &FilesConfig, budget: &Budget) -> Self {
        let labels = FileLabels {
            target: labels,
            honors: config.honor_labels,
        };
        let parser = parser(path, &labels, config);
        let schema = parser.schema().clone();
        Self {
            path: path.into(),
            reader: match config.kind {
                FileKind::PythonMultiprocess => Reader::Python(Box::default()),
                FileKind::Metrics | FileKind::Textfile => Reader::File(FileReader::default()),
            },
            labels,
            parser,
            page: Round::default(),
            is_shown: false,
            error: None,
            unfinished: 0,
            modified_ms: None,
            masked: BitSet::default(),
            stored: Stored {
                frame: Frame::new(schema, 0),
                sent: BitSet::default(),
                binding: None,
            },
            budget: budget.clone(),
            lease: None,
        }
    }

    /// Looks at the file, at least at its age; a panic is the error of this file.
    pub(crate) fn look(&mut self, config: &FilesConfig, now_ms: i64, may_differ: bool) -> Change {
        let looked = catch_panic("files", || self.look_once(config, now_ms, may_differ));
        looked.unwrap_or_else(|panicked| {
            // What the panic left half-done is not used again.
            let path = self.path.display().to_string();
            self.parser = parser(&path, &self.labels, config);
            self.fail("panic", panicked.to_string())
        })
    }

    fn look_once(&mut self, config: &FilesConfig, now_ms: i64, may_differ: bool) -> Change {
        let (budget, parser, held) = (&self.budget, &self.parser, &mut self.lease);
        let mut room = |bytes: u64| lease(budget, held, kept_bytes(parser) + bytes);
        let look = match &mut self.reader {
            Reader::File(reader) if !may_differ && reader.has_page() => Look::Unchanged,
            Reader::File(reader) => reader.look(&self.path, config, &mut room),
            Reader::Python(reader) => reader.look(&self.path, config, &mut room),
        };
        let change = match look {
            Look::Unchanged => Change::Nothing,
            Look::Unfinished => return self.unfinished(),
            Look::Failed(reason) => return self.fail("read", reason),
            Look::Page { text, modified_ms } => {
                self.modified_ms = Some(modified_ms);
                metrics::READ.inc();
                let before = (
                    self.parser.schema().clone(),
                    self.page.frame.present().clone(),
                );
                let format = config.format.unwrap_or_else(|| Format::sniff(&text));
                let parsed =
                    self.parser
                        .parse_into(&mut self.page, format, &text, now_ms, &mut self.labels);
                if let Err(error) = parsed {
                    self.unfinished = 0;
                    return self.fail("parse", error.to_string());
                }
                self.give_back();
                let (schema, present) = &before;
                let frame = &self.page.frame;
                match frame.schema().same(schema) && frame.present() == present {
                    true => Change::Values,
                    false => Change::Series,
                }
            }
        };
        self.unfinished = 0;
        self.error = None;
        let is_stale = !config.stale_after.is_zero() && {
            let age_ms = now_ms.saturating_sub(self.modified_ms.unwrap_or(now_ms));
            u128::try_from(age_ms).unwrap_or_default() >= config.stale_after.as_millis()
        };
        if is_stale {
            let seconds = config.stale_after.as_secs();
            self.error = Some(format!("it was not modified for {seconds} s"));
        }
        if std::mem::replace(&mut self.is_shown, !is_stale) == is_stale {
            return Change::Series;
        }
        change
    }

    /// Keeps what the file shows while somebody is writing it, for some rounds.
    fn unfinished(&mut self) -> Change {
        metrics::UNFINISHED.inc();
        self.give_back();
        Change::Unfinished
    }

    /// Leases what is kept between looks.
    fn give_back(&mut self) {
        // It is in use already; the next page is refused if it is too much.
        let _ = lease(&self.budget, &mut self.lease, kept_bytes(&self.parser));
    }

    /// Counts a round at whose end the file was still half-written.
    pub(crate) fn still_unfinished(&mut self) -> Change {
        self.unfinished += 1;
        if self.unfinished < UNFINISHED_ROUNDS {
            return Change::Nothing;
        }
        self.fail("unfinished", "it is half-written".to_owned())
    }

    fn fail(&mut self, reason: &str, error: String) -> Change {
        metrics::FAILED.with(&[reason]).inc();
        self.give_back();
        if self.error.as_ref() != Some(&error) {
            let file = self.path.display().to_string();
            tracing::warn!(file, error, "A file of metrics cannot be used.");
        }
        if let Reader::File(reader) = &mut self.reader {
            reader.forget();
        }
        self.error = Some(error);
        if std::mem::replace(&mut self.is_shown, false) {
            Change::Series
        } else {
            Change::Nothing
        }
    }

    /// Leaves out the series that `owned` has already, and adds the others to it; returns how many are left out.
    pub(crate) fn claim(&mut self, owned: &mut HashSet<LabelHash>) -> usize {
        let schema = self.parser.schema();
        self.masked.resize(schema.len());
        self.masked.clear();
        if !self.is_shown {
            return 0;
        }
        let mut left_out = 0;
        for at in self.page.frame.present().iter() {
            if !owned.insert(schema.identity(ColumnId::at(at))) {
                self.masked.insert(at);
                left_out += 1;
            }
        }
        left_out
    }

    /// Stores the round; `owned` are the series that any file shows.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn append(
        &mut self,
        now_ms: i64,
        owned: &HashSet<LabelHash>,
        is_changed: bool,
        sink: &dyn Sink,
    ) -> Result<(), StorageError> {
        // Nothing is known yet of a file that was being written at the first look.
        if self.modified_ms.is_none() && self.error.is_none() {
            return Ok(());
        }
        let schema = self.parser.schema().clone();
        self.stored.follow(&schema, now_ms, owned, sink)?;
        let frame = &mut self.stored.frame;
        frame.restart(&schema, now_ms);
        if self.is_shown {
            copy(&self.page, &self.masked, frame);
        }
        let samples = self.page.frame.present().count();
        let [up, modified, count, duplicates] = [0, 1, 2, 3].map(ColumnId);
        frame.set(up, f64::from(u8::from(self.error.is_none())));
        if let Some(modified_ms) = self.modified_ms {
            frame.set(modified, modified_ms as f64 / 1e3);
        }
        if self.is_shown {
            frame.set(count, samples as f64);
            frame.set(duplicates, self.masked.count() as f64);
        }
        self.stored.append(owned, sink)?;
        if self.is_shown && is_changed && !self.page.more.is_empty() {
            let more = self
                .page
                .more
                .iter()
                .filter(|more| !self.masked.contains(more.column.index()));
            let samples: Vec<SeriesSample> = more
                .map(|more| {
                    SeriesSample::float(schema.labels(more.column), more.time_ms, more.value)
                })
                .collect();
            sink.append_samples(&samples)?;
        }
        Ok(())
    }

    /// Ends all series, those about the file included.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn end(
        &mut self,
        now_ms: i64,
        owned: &HashSet<LabelHash>,
        sink: &dyn Sink,
    ) -> Result<(), StorageError> {
        let schema = self.stored.frame.schema().clone();
        self.stored.frame.restart(&schema, now_ms);
        self.stored.append(owned, sink)
    }
}

impl Stored {
    /// Follows the parser to another schema; series that end with the old one get their markers in it.
    fn follow(
        &mut self,
        schema: &Schema,
        now_ms: i64,
        owned: &HashSet<LabelHash>,
        sink: &dyn Sink,
    ) -> Result<(), StorageError> {
        let old = self.frame.schema().clone();
        if schema.lineage() != old.lineage() {
            self.frame.restart(&old, now_ms);
            self.append(owned, sink)?;
            self.sent = BitSet::default();
        }
        if let Some(binding) = &mut self.binding
            && !schema.same(&old)
        {
            binding.rebind(schema)?;
        }
        Ok(())
    }

    /// Appends the frame, with markers for what was sent before and is not in it.
    fn append(&mut self, owned: &HashSet<LabelHash>, sink: &dyn Sink) -> Result<(), StorageError> {
        let schema = self.frame.schema().clone();
        let present = self.frame.present().clone();
        self.sent.resize(schema.len());
        for column in self.sent.difference(&present).map(ColumnId::at) {
            // Another file goes on with it.
            if !owned.contains(&schema.identity(column)) {
                self.frame.mark_stale(column);
            }
        }
        let is_empty = present.count() == 0 && self.frame.stale().is_empty();
        if !is_empty {
            let binding = match &mut self.binding {
                Some(binding) => binding,
                empty => empty.insert(sink.bind(&schema)?),
            };
            binding.append(&self.frame)?;
        }
        self.sent = present;
        Ok(())
    }
}

/// Copies the samples of a page that are not masked.
fn copy(page: &Round, masked: &BitSet, frame: &mut Frame) {
    let from = &page.frame;
    let has_times = !from.times_ms().is_empty();
    for column in from.present().difference(masked).map(ColumnId::at) {
        frame.set_from(column, from, column);
        if has_times && from.time_of(column) != from.time_ms() {
            frame.set_time(column, from.time_of(column));
        }
    }
    for (at, exemplar) in from.exemplars() {
        if !masked.contains(at.index()) {
            frame.push_exemplar(*at, exemplar.clone());
        }
    }
    for (at, time_ms) in from.start_times_ms() {
        if !masked.contains(at.index()) {
            frame.set_start_time(*at, *time_ms);
        }
    }
}

fn parser(path: &str, labels: &FileLabels, config: &FilesConfig) -> Parser {
    let common = labels.common();
    let own = OWN.map(|(name, help)| {
        let mut set = LabelSet::new([(METRIC_NAME, name), ("file", path)]).to_builder();
        if labels.honors {
            for label in &labels.target {
                set.set(label.name(), label.value());
            }
        }
        let family = Family {
            name: name.into(),
            metric_type: MetricType::Gauge,
            help: help.into(),
            ..Family::default()
        };
        (set.finish(), family)
    });
    Parser::with_reserved(common, options(config), &own)
}

fn options(config: &FilesConfig) -> ParseOptions {
    let mut options = ParseOptions::default();
    options.honor_timestamps = config.honor_timestamps;
    options.sample_limit = config.sample_limit;
    options.native_histograms = true;
    options
}

/// Changes a lease to this many bytes.
fn lease(budget: &Budget, lease: &mut Option<Lease>, bytes: u64) -> Result<(), String> {
    let changed = match lease {
        Some(lease) => lease.resize(bytes),
        empty => budget.lease(bytes).map(|new| *empty = Some(new)),
    };
    changed.map_err(|over| over.to_string())
}

/// Returns about what is kept of a page.
fn kept_bytes(parser: &Parser) -> u64 {
    parser.heap_bytes() as u64 + parser.schema().len() as u64 * SERIES_BYTES
}
