//! Sources of a loop's rounds: a page over HTTP, or a source inside the process.
//!
//! **Invariant:** every round has the synthetic series, even when the scrape failed; a failed round ends every series
//! of the target.

use crate::{
    local::LocalSource,
    memory::{Page, ScrapeMemory},
    metrics, page,
    page::Restarts,
    plan::Plan,
    report::{self, Report},
    resolve::{TargetResolver, no_memory},
    status::ActiveTarget,
    zeros::Zeros,
};
use narthex_expfmt::{Format, MoreSample, ParseError, ParseErrorKind, Parser, Round};
use narthex_model::{
    ColumnId, Frame, LabelHash, LabelSet, Schema,
    storage::{Binding, BoundRound, Outcome, OverBudget, SeriesSample, Sink, StorageError},
};
use narthex_net::{NetError, Request};
use std::{collections::HashSet, sync::Arc, time::Instant};

/// Source of a loop's rounds.
pub(crate) enum Origin {
    Http(Box<HttpOrigin>),
    Local(Box<LocalOrigin>),
}

/// A sink's binding, after the first round.
pub(crate) type Bound = Option<Box<dyn Binding>>;

/// Result of a scrape, before it is stored.
pub(crate) struct Scraped {
    pub(crate) report: Report,
    pub(crate) error: Option<String>,
    /// Lines of new series refused for lack of memory.
    pub(crate) refused: usize,
}

/// Result of a fetch, beside the body.
pub(crate) struct Fetched {
    pub(crate) content_type: String,
    /// Memory lease of the body; `None` for a source inside the process.
    pub(crate) paid: Option<Page>,
}

/// Reason that there is no body.
pub(crate) enum NoBody {
    /// The fetch failed.
    Net(NetError),
    /// The pool forces scrapes to fail.
    Forced(Arc<str>),
    /// There is no memory for the page.
    Memory(OverBudget),
}

pub(crate) struct HttpOrigin {
    pub(crate) plan: Arc<Plan>,
    pub(crate) request: Request,
    parser: Parser,
    /// The last round, reused by the next.
    parsed: Round,
    resolver: TargetResolver,
    bound: Bound,
    /// Replaced parsers with their bindings: the next round ends their series.
    retired: Vec<(Parser, Bound)>,
    restarts: Restarts,
    /// The synthetic series if they do not share the page's labels; otherwise they are the parser's first columns.
    report: Option<OwnReport>,
    zeros: Zeros,
    /// The last `Content-Type` and its format, `None` if it names none.
    last_type: Option<(String, Option<Format>)>,
}

pub(crate) struct LocalOrigin {
    source: Box<dyn LocalSource>,
    bound: Bound,
    /// The source owns its schema.
    report: OwnReport,
    /// Whether a panic left the source half-changed.
    is_broken: bool,
}

/// The synthetic series in a strip of their own.
struct OwnReport {
    frame: Frame,
    extra: bool,
    bound: Bound,
}

impl LocalOrigin {
    /// Stores staleness markers for all series.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn end(
        &mut self,
        time_ms: i64,
        active: &ActiveTarget,
        sink: &dyn Sink,
    ) -> Result<(), StorageError> {
        end_all(active, time_ms, sink)?;
        self.report.end(time_ms, sink)
    }
}

impl Origin {
    /// Discards what a panic may have left half-done.
    pub(crate) fn restart(&mut self, memory: &ScrapeMemory) {
        match self {
            Self::Http(http) => **http = HttpOrigin::new(Arc::clone(&http.plan), memory),
            Self::Local(local) => {
                (local.bound, local.report.bound) = (None, None);
                local.is_broken = true;
            }
        }
    }

    /// Stores a failed round whose cause is this process, not the target.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn failed_round(
        &mut self,
        time_ms: i64,
        reason: &Arc<str>,
        active: &ActiveTarget,
        sink: &dyn Sink,
    ) -> Result<(), StorageError> {
        let start = Instant::now();
        match self {
            Self::Http(http) => {
                let forced = Err(NoBody::Forced(Arc::clone(reason)));
                http.round(time_ms, start, forced, &[], sink).map(drop)
            }
            Self::Local(local) => local
                .round(time_ms, start, sink, active, Some(reason))
                .map(drop),
        }
    }
}

/// Stores staleness markers for every series of a target's last good round, except the synthetic ones.
///
/// # Errors
/// Fails when the sink does.
pub(crate) fn end_all(
    active: &ActiveTarget,
    time_ms: i64,
    sink: &dyn Sink,
) -> Result<(), StorageError> {
    let Some((schema, synthetic)) = active.schema() else {
        return Ok(());
    };
    let mut frame = Frame::new(schema.clone(), time_ms);
    for (column, _) in schema.columns().skip(synthetic) {
        if !schema.is_retired(column) {
            frame.mark_stale(column);
        }
    }
    sink.bind(&schema)?.append(&frame).map(drop)
}

impl HttpOrigin {
    pub(crate) fn new(plan: Arc<Plan>, memory: &ScrapeMemory) -> Self {
        Self {
            request: plan.request(),
            parser: parser(&plan, LabelSet::empty(), true),
            parsed: Round::default(),
            resolver: TargetResolver::new(Arc::clone(&plan), memory),
            plan,
            bound: None,
            retired: Vec::new(),
            restarts: Restarts::default(),
            report: None,
            zeros: Zeros::default(),
            last_type: None,
        }
    }

    /// Adopts another plan for the same target; series that keep their labels keep their columns.
    pub(crate) fn follow(&mut self, plan: Arc<Plan>) {
        let same_labels = plan.resolves_like(&self.plan);
        let same_shape = plan.labels_are_common() == self.plan.labels_are_common()
            && plan.extra_metrics == self.plan.extra_metrics
            && (same_labels || self.parser.in_lines().is_empty());
        self.request = plan.request();
        self.resolver.plan = Arc::clone(&plan);
        self.plan = plan;
        if same_shape {
            self.parser.set_options(self.plan.options);
            if !same_labels {
                self.parser.forget();
            }
        } else {
            self.report = None;
            self.start_anew(LabelSet::empty());
        }
    }

    /// Begins another schema, whose series all have `page` beside the target's labels; the next round ends series of
    /// the old schema unless the new one continues them.
    fn start_anew(&mut self, page: LabelSet) {
        if !page.is_empty() && self.report.is_none() {
            self.report = Some(OwnReport::new(&self.plan.labels, self.plan.extra_metrics));
        }
        let parser = parser(&self.plan, page, self.report.is_none());
        let old = std::mem::replace(&mut self.parser, parser);
        let bound = self.bound.take();
        // A schema that never had a round has nothing to end.
        if bound.is_some() {
            self.retired.push((old, bound));
        }
    }

    /// Parses a body and stores the round.
    pub(crate) fn round(
        &mut self,
        time_ms: i64,
        start: Instant,
        fetched: Result<Fetched, NoBody>,
        body: &[u8],
        sink: &dyn Sink,
    ) -> Result<(Outcome, Scraped), StorageError> {
        let mut report = Report {
            timeout_seconds: self.plan.timeout.as_secs_f64(),
            sample_limit: self.plan.limits.samples,
            ..Report::default()
        };
        let mut refused = 0;
        // The body lives as long as the caller, but its buffer then accounts for itself.
        let mut _paid = None;
        let error = match fetched {
            Err(NoBody::Forced(reason)) => Some(reason.to_string()),
            Err(NoBody::Memory(over)) => {
                metrics::FAILED.with(&["memory"]).inc();
                report.body_bytes = -1;
                Some(no_memory(&over))
            }
            Err(NoBody::Net(error)) => Some(fetch_error(&error, &mut report)),
            Ok(Fetched { content_type, paid }) => {
                report.body_bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
                self.request.body_expected_bytes = body.len();
                self.resolver.paid = paid;
                let error = self.parse(time_ms, &content_type, body);
                _paid = self.resolver.paid.take();
                // For a body that failed, count what precedes the error.
                let stats = self.parser.stats();
                if !body.is_empty() {
                    report.samples = stats.samples();
                    report.samples_kept = stats.kept();
                    report.series_added = match error {
                        None => self.appeared(),
                        Some(_) => stats.added,
                    };
                    metrics::DUPLICATES.inc_by(stats.repeated as u64);
                }
                refused = stats.refused;
                error
            }
        };
        report.duration_seconds = start.elapsed().as_secs_f64();
        report.up = error.is_none();
        if error.is_some() || body.is_empty() {
            self.parser.no_body(&mut self.parsed, time_ms);
        }
        let appended = self.append(time_ms, &report, sink);
        // New series also use memory in the sink: their lease covers it until the round is appended.
        let (columns, parser_bytes) = (self.parser.schema().len(), self.parser.heap_bytes());
        self.resolver.admission.end(columns, parser_bytes);
        let mut outcome = appended?;
        outcome += append_more(sink, &self.parsed)?;
        for (mut old, mut bound) in std::mem::take(&mut self.retired) {
            let mut ends = Round::default();
            old.no_body(&mut ends, time_ms);
            // Series that continue under the new labels already have a sample at this time, which wins.
            append(sink, &mut bound, &ends.frame)?;
        }
        let scraped = Scraped {
            report,
            error,
            refused,
        };
        Ok((outcome, scraped))
    }

    /// Appends the round with its report.
    fn append(
        &mut self,
        time_ms: i64,
        report: &Report,
        sink: &dyn Sink,
    ) -> Result<Outcome, StorageError> {
        let frame = &mut self.parsed.frame;
        let starts = self.plan.start_times;
        if starts.become_zeros {
            let BoundRound { binding, frame, .. } = bind(sink, &mut self.bound, frame)?;
            self.zeros.store(frame, binding)?;
        }
        if !starts.are_stored {
            frame.forget_start_times();
        }
        let Some(own) = &mut self.report else {
            report.set(frame, self.plan.extra_metrics);
            return append(sink, &mut self.bound, frame);
        };
        own.begin(time_ms, report);
        let own = bind(sink, &mut own.bound, &own.frame)?;
        let mut rounds = [bind(sink, &mut self.bound, frame)?, own];
        sink.append_together(&mut rounds)
    }

    /// Counts the series that the previous round did not have.
    fn appeared(&self) -> usize {
        let appeared = self.parser.stats().appeared;
        let Some((old, _)) = self.retired.last() else {
            return appeared;
        };
        let before: HashSet<LabelHash> = old.reported().collect();
        let stayed = self.parser.reported().filter(|id| before.contains(id));
        appeared.saturating_sub(stayed.count())
    }

    /// Parses a body; returns the error if it is rejected.
    fn parse(&mut self, time_ms: i64, content_type: &str, body: &[u8]) -> Option<String> {
        if body.is_empty() {
            return None;
        }
        let format = self.format(content_type, body);
        self.resolver.known = self.parser.schema().len();
        if let (Format::Protobuf, Some(page)) = (format, &mut self.resolver.paid)
            && let Err(over) = page.room_for_messages(body, self.resolver.known)
        {
            metrics::FAILED.with(&["memory"]).inc();
            return Some(no_memory(&over));
        }
        let error = self.parse_as(format, time_ms, body).err()?;
        let reason = match error.kind {
            ParseErrorKind::SampleLimit => {
                metrics::OVER_SAMPLE_LIMIT.inc();
                "sample_limit"
            }
            ParseErrorKind::BucketLimit => {
                metrics::OVER_BUCKET_LIMIT.inc();
                "native_histogram_bucket_limit"
            }
            _ if self.resolver.over_limit => {
                metrics::OVER_LABEL_LIMITS.inc();
                "label_limit"
            }
            _ if self.resolver.over_memory => "memory",
            _ => "parse",
        };
        metrics::FAILED.with(&[reason]).inc();
        Some(error.to_string())
    }

    /// Parses a body against the schema, or against a new one if the page's labels changed.
    fn parse_as(&mut self, format: Format, time_ms: i64, body: &[u8]) -> Result<(), ParseError> {
        self.restarts.count_round();
        if self.resolver.admission.begin() {
            self.parser.forget();
        }
        if self.parser.is_new() && self.parser.in_lines().is_empty() {
            let labels = page::labels_of(&self.plan, format, body);
            if !labels.is_empty() {
                self.start_anew(labels);
            }
        }
        let result = self.parse_once(format, time_ms, body, self.restarts.are_left());
        let Err(error) = result else {
            return Ok(());
        };
        use ParseErrorKind::{LacksCommonLabel, Replaced};
        if !matches!(error.kind, LacksCommonLabel | Replaced) {
            return Err(error);
        }
        let labels = if self.restarts.use_up() {
            page::labels_of(&self.plan, format, body)
        } else {
            LabelSet::empty()
        };
        self.start_anew(labels);
        self.parse_once(format, time_ms, body, false)
    }

    fn parse_once(
        &mut self,
        format: Format,
        time_ms: i64,
        body: &[u8],
        refuse_replacement: bool,
    ) -> Result<(), ParseError> {
        self.resolver.over_limit = false;
        self.resolver.over_memory = false;
        let mut options = self.plan.options;
        options.refuse_replacement = refuse_replacement;
        self.parser.set_options(options);
        self.parser
            .parse_into(&mut self.parsed, format, body, time_ms, &mut self.resolver)
    }

    /// Returns the body's format: by its content type, else as configured, else by its content.
    fn format(&mut self, content_type: &str, body: &[u8]) -> Format {
        let guess = || self.plan.fallback.unwrap_or_else(|| Format::sniff(body));
        // A target's type hardly ever changes: only changes are logged, not every round.
        if let Some((last, known)) = &self.last_type
            && last == content_type
        {
            return known.unwrap_or_else(guess);
        }
        let known = Format::of_content_type(content_type);
        if let Err(unknown) = &known
            && self.plan.fallback.is_none()
        {
            tracing::warn!(
                target_url = %self.plan.url,
                taken_as = ?guess(),
                "Target sends {unknown}; set fallback_scrape_protocol to say what its pages are."
            );
        }
        let known = known.ok();
        let format = known.unwrap_or_else(guess);
        self.last_type = Some((content_type.to_owned(), known));
        format
    }

    /// Ends all series, including the synthetic ones.
    pub(crate) fn end(&mut self, time_ms: i64, sink: &dyn Sink) -> Result<(), StorageError> {
        if self.bound.is_none() {
            return Ok(());
        }
        self.parser.no_body(&mut self.parsed, time_ms);
        let frame = &mut self.parsed.frame;
        match &mut self.report {
            Some(own) => own.end(time_ms, sink)?,
            None => end_report(frame, self.plan.extra_metrics),
        }
        append(sink, &mut self.bound, frame).map(|_| ())
    }

    /// Reports whether the next page probably needs the slow parser, because the target is new or its last page changed
    /// its series.
    pub(crate) fn is_learning(&self) -> bool {
        let stats = self.parser.stats();
        self.parser.is_new() || stats.expected * 2 < stats.lines
    }

    /// Publishes the target's schema to its status.
    pub(crate) fn describe(&self, active: &ActiveTarget) {
        let synthetic = match self.report {
            Some(_) => 0,
            None => report::count(self.plan.extra_metrics),
        };
        active.set_schema(self.parser.schema(), synthetic);
    }
}

/// Returns a parser for the plan's target; `page` are labels that all lines share.
fn parser(plan: &Plan, page: LabelSet, with_report: bool) -> Parser {
    if !page.is_empty() {
        return Parser::with_common_lines(&plan.labels, page, plan.options);
    }
    let mut reserved = if with_report {
        report::columns(plan.extra_metrics)
    } else {
        Vec::new()
    };
    let common = if plan.labels_are_common() {
        plan.labels.clone()
    } else {
        for (set, _) in &mut reserved {
            *set = set.union(&plan.labels);
        }
        LabelSet::empty()
    };
    Parser::with_reserved(common, plan.options, &reserved)
}

fn fetch_error(error: &NetError, report: &mut Report) -> String {
    let reason = match error {
        NetError::Memory { .. } => "memory",
        _ => "fetch",
    };
    metrics::FAILED.with(&[reason]).inc();
    if matches!(error, NetError::BodyTooLarge { .. }) {
        metrics::OVER_BODY_SIZE.inc();
        report.body_bytes = -1;
        return "body size limit exceeded".to_owned();
    }
    if matches!(error, NetError::Memory { .. }) {
        report.body_bytes = -1;
    }
    error.to_string()
}

impl LocalOrigin {
    pub(crate) fn new(source: Box<dyn LocalSource>, labels: &LabelSet) -> Self {
        Self {
            source,
            bound: None,
            report: OwnReport::new(labels, false),
            is_broken: false,
        }
    }

    /// Collects and stores a round; given a forced error, collects nothing.
    pub(crate) fn round(
        &mut self,
        time_ms: i64,
        start: Instant,
        sink: &dyn Sink,
        active: &ActiveTarget,
        forced: Option<&str>,
    ) -> Result<(Outcome, Scraped), StorageError> {
        let mut report = Report::default();
        let mut outcome = Outcome::default();
        let collected = match forced {
            Some(reason) => Err(reason.to_owned()),
            None if self.is_broken => self.source.restart().and_then(|()| {
                self.is_broken = false;
                self.source.collect(time_ms)
            }),
            None => self.source.collect(time_ms),
        };
        let error = match collected {
            Ok(frame) => {
                report.up = true;
                report.samples = frame.present().count();
                report.samples_kept = report.samples;
                active.set_schema(frame.schema(), 0);
                outcome += append(sink, &mut self.bound, frame)?;
                None
            }
            Err(error) => {
                metrics::FAILED.with(&["local"]).inc();
                Some(error)
            }
        };
        report.duration_seconds = start.elapsed().as_secs_f64();
        outcome += self.report.append(time_ms, &report, sink)?;
        let scraped = Scraped {
            report,
            error,
            refused: 0,
        };
        Ok((outcome, scraped))
    }
}

impl OwnReport {
    fn new(labels: &LabelSet, extra: bool) -> Self {
        let mut edit = Schema::new(labels.clone()).edit();
        for (set, family) in report::columns(extra) {
            let family = edit.family(family);
            edit.push(&set, family);
        }
        Self {
            frame: Frame::new(edit.finish(), 0),
            extra,
            bound: None,
        }
    }

    fn append(
        &mut self,
        time_ms: i64,
        report: &Report,
        sink: &dyn Sink,
    ) -> Result<Outcome, StorageError> {
        self.begin(time_ms, report);
        append(sink, &mut self.bound, &self.frame)
    }

    fn begin(&mut self, time_ms: i64, report: &Report) {
        self.restart(time_ms);
        report.set(&mut self.frame, self.extra);
    }

    fn end(&mut self, time_ms: i64, sink: &dyn Sink) -> Result<(), StorageError> {
        self.restart(time_ms);
        end_report(&mut self.frame, self.extra);
        append(sink, &mut self.bound, &self.frame).map(drop)
    }

    fn restart(&mut self, time_ms: i64) {
        let schema = self.frame.schema().clone();
        self.frame.restart(&schema, time_ms);
    }
}

/// Ends the synthetic series.
fn end_report(frame: &mut Frame, extra: bool) {
    for column in 0..u32::try_from(report::count(extra)).unwrap_or(0) {
        frame.mark_stale(ColumnId(column));
    }
}

/// Appends a frame, first binding its schema if none is bound yet.
fn append(sink: &dyn Sink, bound: &mut Bound, frame: &Frame) -> Result<Outcome, StorageError> {
    let BoundRound { binding, frame, .. } = bind(sink, bound, frame)?;
    binding.append(frame)
}

/// Binds a frame's schema if none is bound yet.
fn bind<'a>(
    sink: &dyn Sink,
    bound: &'a mut Bound,
    frame: &'a Frame,
) -> Result<BoundRound<'a>, StorageError> {
    let binding = match bound {
        Some(binding) => binding,
        empty => empty.insert(sink.bind(frame.schema())?),
    };
    Ok(BoundRound::new(&mut **binding, frame))
}

/// Appends further samples, with their own times, of series that the round's frame already has.
fn append_more(sink: &dyn Sink, round: &Round) -> Result<Outcome, StorageError> {
    if round.more.is_empty() {
        return Ok(Outcome::default());
    }
    let schema = round.frame.schema();
    let sample = |more: &MoreSample| {
        SeriesSample::float(schema.labels(more.column), more.time_ms, more.value)
    };
    let samples: Vec<SeriesSample> = round.more.iter().map(sample).collect();
    sink.append_samples(&samples)
}

#[cfg(test)]
mod tests;
