//! One target's loop: wait, fetch, parse, append.
//!
//! **Invariant:** every due scrape stores a round: the body's samples, or, when it failed, staleness markers for all
//! that the round before had; the synthetic series in both cases.

use crate::{
    JobConfig,
    buffers::Buffers,
    local::LocalSource,
    metrics,
    report::{self, Report},
    resolve::TargetResolver,
    schedule::Schedule,
    status::{ActiveTarget, Health, TargetStatus},
};
use http::{HeaderMap, HeaderName, HeaderValue, header::ACCEPT};
use narthex_expfmt::{Format, ParseOptions, Parser};
use narthex_model::{
    Frame, LabelSet, Schema,
    storage::{Binding, Outcome, Sink, StorageError},
};
use narthex_net::{Client, NetError, Request, StopToken};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Formats the parser reads, best first.
const ACCEPTED: &str = "text/plain;version=0.0.4;q=0.9,*/*;q=0.1";
/// A frame this wide is appended where blocking is allowed.
const WIDE_FRAME: usize = 20_000;
/// Bodies beyond this are refused even without a configured limit.
const BODY_BYTES: usize = 1 << 30;

/// What all loops share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) buffers: Buffers,
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Whether the last round of any loop could not be stored: the log tells of changes, not of every round.
    pub(crate) storage_fails: AtomicBool,
}

impl Shared {
    fn storage_failed(&self, error: &StorageError) {
        metrics::FAILED.with(&["storage"]).inc();
        if !self.storage_fails.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "Samples cannot be stored; what is stored is still served.");
        }
    }

    fn storage_works(&self) {
        // Read first: every round of every loop comes here.
        if self.storage_fails.load(Ordering::Relaxed)
            && self.storage_fails.swap(false, Ordering::Relaxed)
        {
            tracing::info!("Samples are stored again.");
        }
    }
}

/// Where a loop's rounds come from.
pub(crate) enum Origin {
    Http(Box<HttpOrigin>),
    Local(Box<LocalOrigin>),
}

pub(crate) struct HttpOrigin {
    request: Request,
    parser: Parser,
    resolver: TargetResolver,
    extra: bool,
    sample_limit: usize,
}

pub(crate) struct LocalOrigin {
    source: Box<dyn LocalSource>,
    /// The synthetic series, in a strip of their own: the source owns its schema.
    report: Frame,
    report_binding: Option<Box<dyn Binding>>,
}

pub(crate) struct ScrapeLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) active: Arc<ActiveTarget>,
    pub(crate) origin: Origin,
    bound: Option<(Schema, Box<dyn Binding>)>,
}

/// How a scrape ended, before it is stored.
struct Scraped {
    report: Report,
    error: Option<String>,
}

impl HttpOrigin {
    pub(crate) fn new(job: &JobConfig, active: &ActiveTarget) -> Option<Self> {
        let url = active.target.url.clone()?;
        let mut request = Request::new(url);
        request.timeout = active.timeout;
        request.accept_gzip = job.enable_compression;
        request.body_limit_bytes = match job.limits.body_size_bytes {
            0 => BODY_BYTES,
            limit => limit,
        };
        request.headers = headers(active.timeout);
        let labels = active.target.labels.clone();
        let (common, honored) = if job.honor_labels {
            (LabelSet::empty(), Some(labels))
        } else {
            (labels, None)
        };
        let mut options = ParseOptions::default();
        options.sample_limit = job.limits.samples;
        options.honor_timestamps = job.honor_timestamps;
        options.track_timestamps_staleness = job.track_timestamps_staleness;
        let mut reserved = report::columns(job.extra_scrape_metrics);
        if let Some(target) = &honored {
            reserved
                .iter_mut()
                .for_each(|(set, _)| *set = target.union(set));
        }
        Some(Self {
            request,
            parser: Parser::with_reserved(common, options, &reserved),
            resolver: TargetResolver {
                honored,
                limits: job.limits,
            },
            extra: job.extra_scrape_metrics,
            sample_limit: job.limits.samples,
        })
    }
}

impl LocalOrigin {
    pub(crate) fn new(source: Box<dyn LocalSource>, active: &ActiveTarget) -> Self {
        let mut edit = Schema::new(active.target.labels.clone()).edit();
        for (set, family) in report::columns(false) {
            let family = edit.family(family);
            edit.push(&set, family);
        }
        Self {
            source,
            report: Frame::new(edit.finish(), 0),
            report_binding: None,
        }
    }
}

fn headers(timeout: Duration) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    if let Ok(seconds) = HeaderValue::from_str(&timeout.as_secs_f64().to_string()) {
        headers.insert(
            HeaderName::from_static("x-prometheus-scrape-timeout-seconds"),
            seconds,
        );
    }
    headers
}

impl ScrapeLoop {
    pub(crate) fn new(shared: Arc<Shared>, active: Arc<ActiveTarget>, origin: Origin) -> Self {
        Self {
            shared,
            active,
            origin,
            bound: None,
        }
    }

    /// Scrapes until stopped; a scrape under way when the stop comes is finished or abandoned whole.
    pub(crate) async fn run(mut self, stop: StopToken) {
        let identity = format!(
            "{}{}",
            self.active.target.labels, self.active.target.shown_url
        );
        let schedule = Schedule::new(self.active.interval, &identity);
        let interval_label = format!("{:?}", self.active.interval);
        let interval_length = metrics::INTERVAL_LENGTH.with(&[interval_label.as_str()]);
        let mut due_ms = schedule.next((self.shared.now_ms)());
        let mut last_start: Option<Instant> = None;
        loop {
            let wait_ms = (due_ms - (self.shared.now_ms)()).max(0);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms.unsigned_abs())) => {}
                () = stop.stopped() => return,
            }
            let start = Instant::now();
            if let Some(last) = last_start.replace(start) {
                interval_length.observe_duration(start - last);
            }
            let now_ms = (self.shared.now_ms)();
            let time_ms = schedule.stored_time(due_ms, now_ms);
            tokio::select! {
                () = self.scrape(time_ms) => {}
                () = stop.stopped() => return,
            }
            let next_ms = schedule.next((self.shared.now_ms)().max(due_ms + 1));
            let interval_ms = i64::try_from(self.active.interval.as_millis())
                .unwrap_or(i64::MAX)
                .max(1);
            let missed = (next_ms - due_ms) / interval_ms - 1;
            metrics::MISSED.inc_by(missed.max(0).unsigned_abs());
            due_ms = next_ms;
        }
    }

    async fn scrape(&mut self, time_ms: i64) {
        let start = Instant::now();
        let mut body = self.shared.buffers.take();
        let fetched = match &self.origin {
            Origin::Http(http) => self
                .shared
                .client
                .get(&http.request, &mut body)
                .await
                .and_then(|head| head.require_ok()),
            Origin::Local(_) => Ok(()),
        };
        let width = body.len() / 100;
        let run = || self.store(time_ms, start, fetched, &body);
        let status = if width > WIDE_FRAME {
            tokio::task::block_in_place(run)
        } else {
            run()
        };
        self.shared.buffers.give_back(body);
        self.active.set_status(status);
    }

    /// Parses and appends a round; returns what is known of it.
    fn store(
        &mut self,
        time_ms: i64,
        start: Instant,
        fetched: Result<(), NetError>,
        body: &[u8],
    ) -> TargetStatus {
        let result = match &mut self.origin {
            Origin::Http(http) => {
                let (frame, scraped) = http.round(time_ms, start, fetched, body);
                append(&*self.shared.sink, &mut self.bound, frame).map(|outcome| (outcome, scraped))
            }
            Origin::Local(local) => {
                local.round(time_ms, start, &*self.shared.sink, &mut self.bound)
            }
        };
        let (error, report) = match result {
            Ok((outcome, scraped)) => {
                self.shared.storage_works();
                count(outcome);
                (scraped.error, scraped.report)
            }
            Err(error) => {
                self.shared.storage_failed(&error);
                (Some(error.to_string()), Report::default())
            }
        };
        TargetStatus {
            health: if error.is_none() {
                Health::Up
            } else {
                Health::Down
            },
            last_error: error.unwrap_or_default(),
            last_scrape_ms: Some(time_ms),
            last_duration: start.elapsed(),
            body_bytes: body.len(),
            samples: report.samples,
        }
    }
}

impl HttpOrigin {
    fn round(
        &mut self,
        time_ms: i64,
        start: Instant,
        fetched: Result<(), NetError>,
        body: &[u8],
    ) -> (&mut Frame, Scraped) {
        let mut report = Report {
            timeout_seconds: self.request.timeout.as_secs_f64(),
            sample_limit: self.sample_limit,
            body_bytes: i64::try_from(body.len()).unwrap_or(i64::MAX),
            ..Report::default()
        };
        let stats = match fetched {
            Err(error) => {
                if matches!(error, NetError::BodyTooLarge { .. }) {
                    report.body_bytes = -1;
                }
                metrics::FAILED.with(&["fetch"]).inc();
                Err(error.to_string())
            }
            Ok(()) => self.parse(time_ms, body),
        };
        report.duration_seconds = start.elapsed().as_secs_f64();
        let error = match stats {
            Ok(stats) => {
                report.up = true;
                report.samples = stats.lines;
                report.samples_kept = stats.lines - stats.dropped;
                report.series_added = stats.appeared;
                None
            }
            Err(error) => Some(error),
        };
        let frame = if report.up {
            self.parser.frame_mut()
        } else {
            self.parser.no_body(time_ms)
        };
        report.set(frame, self.extra);
        (frame, Scraped { report, error })
    }

    fn parse(&mut self, time_ms: i64, body: &[u8]) -> Result<narthex_expfmt::RoundStats, String> {
        match self
            .parser
            .parse(Format::Text, body, time_ms, &mut self.resolver) {
            Ok(round) => Ok(round.stats),
            Err(error) => {
                metrics::FAILED.with(&["parse"]).inc();
                Err(error.to_string())
            }
        }
    }
}

impl LocalOrigin {
    fn round(
        &mut self,
        time_ms: i64,
        start: Instant,
        sink: &dyn Sink,
        bound: &mut Option<(Schema, Box<dyn Binding>)>,
    ) -> Result<(Outcome, Scraped), StorageError> {
        let mut report = Report::default();
        let mut outcome = Outcome::default();
        let error = match self.source.collect(time_ms) {
            Ok(frame) => {
                report.up = true;
                report.samples = frame.present().count();
                report.samples_kept = report.samples;
                outcome += append(sink, bound, frame)?;
                None
            }
            Err(error) => {
                metrics::FAILED.with(&["local"]).inc();
                Some(error)
            }
        };
        report.duration_seconds = start.elapsed().as_secs_f64();
        let schema = self.report.schema().clone();
        self.report.restart(&schema, time_ms);
        report.set(&mut self.report, false);
        let binding = match &mut self.report_binding {
            Some(binding) => binding,
            empty => empty.insert(sink.bind(&schema)?),
        };
        outcome += binding.append(&self.report)?;
        Ok((outcome, Scraped { report, error }))
    }
}

/// Appends a frame, binding its schema first when it is not the bound version.
fn append(
    sink: &dyn Sink,
    bound: &mut Option<(Schema, Box<dyn Binding>)>,
    frame: &Frame,
) -> Result<Outcome, StorageError> {
    let (schema, binding) = match bound {
        Some(bound) => bound,
        empty => empty.insert((frame.schema().clone(), sink.bind(frame.schema())?)),
    };
    if !schema.same(frame.schema()) {
        binding.rebind(frame.schema())?;
        *schema = frame.schema().clone();
    }
    binding.append(frame)
}

fn count(outcome: Outcome) {
    metrics::DUPLICATES.inc_by(outcome.duplicate);
    metrics::OUT_OF_ORDER.inc_by(outcome.out_of_order);
    metrics::OUT_OF_BOUNDS.inc_by(outcome.too_old + outcome.too_new);
}
