//! One target's loop: wait, fetch, store, and follow the pool's decisions.
//!
//! Waits use the monotonic clock; the wall clock says when the next scrape is due, and is read again after it was
//! stepped. A panic ends one round: its half-done state is discarded, the round is stored as a failed one, and the loop
//! continues.
//!
//! **Invariant:** every due scrape stores a round: the body's samples or, if it failed, staleness markers for all
//! series of the previous round; the synthetic series in both cases. A target that is gone for more than two intervals
//! ends with markers at the time of its first missed scrape, unless another target has its labels.

use crate::{
    buffers::Buffers,
    failure_log::FailureLogs,
    memory::{Refusals, ScrapeMemory},
    metrics,
    origin::{self, Fetched, NoBody, Origin, Scraped},
    plan::Plan,
    schedule::Schedule,
    status::{ActiveTarget, Health, TargetStatus},
};
use narthex_client::{HistogramHandle, SummaryHandle};
use narthex_model::sync::Whole as _;
use narthex_model::{
    LabelSet,
    storage::{Outcome, Sink, StorageError},
};
use narthex_net::{Client, Panicked, Request, StopToken, catch_panic, catch_panic_in};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Task name that panics of loops are counted under.
pub(crate) const TASK: &str = "scrape";

/// Length from which a body is parsed on a blocking thread: about 20,000 samples.
const LONG_BODY: usize = 2_000_000;
/// The same for a body of unknown series, which take about twenty times as long.
const LONG_NEW_BODY: usize = 100_000;

/// State shared by all loops.
pub(crate) struct Shared {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) buffers: Buffers,
    pub(crate) memory: ScrapeMemory,
    pub(crate) refusals: Refusals,
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Whether the last round of any loop could not be stored: only changes are logged, not every round.
    pub(crate) storage_fails: AtomicBool,
    pub(crate) failure_logs: FailureLogs,
    /// Number of targets with these labels.
    pub(crate) labels_in_use: Mutex<HashMap<LabelSet, usize>>,
}

impl Shared {
    fn storage_failed(&self, error: &StorageError) {
        metrics::FAILED.with(&["storage"]).inc();
        if !self.storage_fails.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "Samples cannot be stored; what is stored is still served.");
        }
    }

    fn storage_works(&self) {
        // Checked with a load first: every round of every loop comes here.
        if self.storage_fails.load(Ordering::Relaxed)
            && self.storage_fails.swap(false, Ordering::Relaxed)
        {
            tracing::info!("Samples are stored again.");
        }
    }

    pub(crate) fn use_labels(&self, labels: &LabelSet) {
        let mut in_use = self.labels_in_use.lock().whole();
        *in_use.entry(labels.clone()).or_default() += 1;
    }

    pub(crate) fn leave_labels(&self, labels: &LabelSet) {
        let mut in_use = self.labels_in_use.lock().whole();
        if let Some(count) = in_use.get_mut(labels) {
            *count -= 1;
            if *count == 0 {
                in_use.remove(labels);
            }
        }
    }

    fn uses_labels(&self, labels: &LabelSet) -> bool {
        let in_use = self.labels_in_use.lock().whole();
        in_use.contains_key(labels)
    }
}

/// State the pool wants a loop to be in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// How to scrape; `None` for a source inside the process.
    pub(crate) plan: Option<Arc<Plan>>,
    /// Error that scrapes must fail with, if any.
    pub(crate) forced_error: Option<Arc<str>>,
    /// Whether the target is gone.
    pub(crate) removed: bool,
}

pub(crate) struct ScrapeLoop {
    shared: Arc<Shared>,
    active: Arc<ActiveTarget>,
    origin: Origin,
    forced_error: Option<Arc<str>>,
    interval: Duration,
    /// Seed that spreads the scrapes of servers with the same targets.
    offset_seed: u64,
    /// Metrics of interval lengths, once created.
    lengths: Option<(SummaryHandle<1>, HistogramHandle<1>)>,
    /// Time of the last round.
    last_ms: Option<i64>,
    /// Time of the round in progress.
    round_ms: Option<i64>,
}

/// A scheduled time.
#[derive(Clone, Copy)]
struct Due {
    /// By the wall clock, as it read when this was made.
    wall_ms: i64,
    /// By the monotonic clock.
    at: tokio::time::Instant,
}

impl Due {
    fn new(wall_ms: i64, now_ms: i64) -> Self {
        let wait_ms = wall_ms.saturating_sub(now_ms).max(0).unsigned_abs();
        Self {
            wall_ms,
            at: tokio::time::Instant::now() + Duration::from_millis(wait_ms),
        }
    }

    /// Returns how far the wall clock was stepped since; positive is forward.
    fn step_ms(self, now_ms: i64) -> i64 {
        let now = tokio::time::Instant::now();
        let ms = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let past_ms = ms(now.saturating_duration_since(self.at));
        let left_ms = ms(self.at.saturating_duration_since(now));
        let expected_ms = self.wall_ms.saturating_add(past_ms).saturating_sub(left_ms);
        now_ms.saturating_sub(expected_ms)
    }
}

/// Reason that a wait ended.
enum Woken {
    Due,
    Changed,
    /// The pool dropped its side of the channel.
    Closed,
    Stopped,
}

impl ScrapeLoop {
    /// Returns the loop of a target, whose rounds come from `origin`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        active: Arc<ActiveTarget>,
        origin: Origin,
        offset_seed: u64,
    ) -> Self {
        Self {
            interval: active.target.interval,
            shared,
            active,
            origin,
            forced_error: None,
            offset_seed,
            lengths: None,
            last_ms: None,
            round_ms: None,
        }
    }

    /// Scrapes until stopped or removed; a scrape in progress is then finished or abandoned whole.
    pub(crate) async fn run(mut self, mut control: watch::Receiver<Control>, stop: StopToken) {
        loop {
            let ended = catch_panic_in(TASK, self.rounds(&mut control, &stop)).await;
            let Err(panicked) = ended else {
                return;
            };
            // Storing the failure may panic too; nothing is stored for this round then.
            let _ = catch_panic(TASK, || self.fail(&panicked));
            // The panic may have lost the pool's last update.
            control.mark_changed();
        }
    }

    /// Scrapes until stopped or removed.
    async fn rounds(&mut self, control: &mut watch::Receiver<Control>, stop: &StopToken) {
        let mut schedule = self.schedule();
        let mut due = self.next(schedule);
        let mut last_start: Option<Instant> = None;
        self.forced_error = control.borrow().forced_error.clone();
        loop {
            match wait(due, control, stop).await {
                Woken::Stopped | Woken::Closed => return,
                Woken::Due => {}
                Woken::Changed => {
                    let wanted = control.borrow_and_update().clone();
                    if wanted.removed {
                        if self.end_source() {
                            return;
                        }
                        if !self.linger(due.wall_ms, control, stop).await {
                            return;
                        }
                        last_start = None;
                        due = self.next(schedule);
                        continue;
                    }
                    if self.follow(wanted) {
                        schedule = self.schedule();
                        due = self.next(schedule);
                    }
                    continue;
                }
            }
            let start = Instant::now();
            if let Some(last) = last_start.replace(start) {
                self.observe_interval(start - last);
            }
            let time_ms = schedule.stored_time(due.wall_ms, self.now_ms());
            self.round_ms = Some(time_ms);
            tokio::select! {
                () = self.scrape(time_ms) => {}
                () = stop.stopped() => return,
            }
            self.round_ms = None;
            due = self.after(due, schedule);
        }
    }

    /// Returns the time of the first scrape from now on.
    fn next(&self, schedule: Schedule) -> Due {
        let now_ms = self.now_ms();
        Due::new(schedule.next(now_ms.saturating_add(1)), now_ms)
    }

    /// Returns the time of the scrape after `due`.
    fn after(&self, due: Due, schedule: Schedule) -> Due {
        let now_ms = self.now_ms();
        let interval_ms = self.interval_ms();
        if due.step_ms(now_ms).saturating_abs() > interval_ms {
            // The clock step changed the schedule; no scrape was missed.
            return self.next(schedule);
        }
        let next_ms = schedule.next(now_ms.max(due.wall_ms + 1));
        let missed = (next_ms - due.wall_ms) / interval_ms - 1;
        metrics::MISSED.inc_by(missed.max(0).unsigned_abs());
        Due::new(next_ms, now_ms)
    }

    fn interval_ms(&self) -> i64 {
        i64::try_from(self.interval.as_millis())
            .unwrap_or(i64::MAX / 4)
            .max(1)
    }

    /// Discards what a panic left half-done and stores a failed round, which ends the target's series.
    fn fail(&mut self, panicked: &Panicked) {
        metrics::FAILED.with(&["panic"]).inc();
        let time_ms = self.round_ms.take().unwrap_or_else(|| self.now_ms());
        let reason: Arc<str> = panicked.to_string().into();
        self.active.set_status(TargetStatus {
            health: Health::Down,
            last_error: reason.to_string(),
            last_scrape_ms: Some(time_ms),
            ..TargetStatus::default()
        });
        self.origin.restart(&self.shared.memory);
        let sink = &*self.shared.sink;
        let stored = origin::end_all(&self.active, time_ms, sink).and_then(|()| {
            self.origin
                .failed_round(time_ms, &reason, &self.active, sink)
        });
        if let Err(error) = stored {
            self.shared.storage_failed(&error);
        }
    }

    fn now_ms(&self) -> i64 {
        (self.shared.now_ms)()
    }

    fn schedule(&self) -> Schedule {
        let target = &self.active.target;
        let identity = format!("{}{}", target.labels, target.shown_url);
        Schedule::new(self.interval, &identity, self.offset_seed)
    }

    /// Returns the time of the first scrape at or after `now_ms`.
    #[cfg(test)]
    pub(crate) fn first_due(&self, now_ms: i64) -> i64 {
        self.schedule().next(now_ms)
    }

    fn observe_interval(&mut self, length: Duration) {
        let (summary, histogram) = self.lengths.get_or_insert_with(|| {
            let interval = go_duration(self.interval);
            let label = [interval.as_str()];
            (
                metrics::INTERVAL_LENGTH.with(&label),
                metrics::INTERVAL_LENGTH_HISTOGRAM.with(&label),
            )
        });
        summary.observe_duration(length);
        histogram.observe_duration(length);
    }

    /// Applies the pool's update; reports whether the schedule changed.
    fn follow(&mut self, wanted: Control) -> bool {
        self.forced_error = wanted.forced_error;
        let (Origin::Http(http), Some(plan)) = (&mut self.origin, wanted.plan) else {
            return false;
        };
        if *plan == *http.plan {
            return false;
        }
        let changed = plan.interval != self.interval;
        self.interval = plan.interval;
        if changed {
            self.lengths = None;
        }
        http.follow(plan);
        changed
    }

    /// Ends the series of a source inside the process at once: its job decides whether there is another. Reports whether
    /// it is one.
    fn end_source(&mut self) -> bool {
        let (now_ms, last_ms) = (self.now_ms(), self.last_ms);
        let Origin::Local(local) = &mut self.origin else {
            return false;
        };
        // After its last round: of two samples at one time the first stays.
        if let Some(last_ms) = last_ms
            && let Err(error) = local.end(now_ms.max(last_ms + 1), &self.active, &*self.shared.sink)
        {
            self.shared.storage_failed(&error);
        }
        true
    }

    /// Waits for a removed target to come back; reports whether it did, and otherwise ends its series.
    async fn linger(
        &mut self,
        missed_ms: i64,
        control: &mut watch::Receiver<Control>,
        stop: &StopToken,
    ) -> bool {
        let interval_ms = self.interval_ms();
        let until_ms = missed_ms + interval_ms + interval_ms / 10;
        let until = Due::new(until_ms, self.now_ms());
        loop {
            match wait(until, control, stop).await {
                Woken::Stopped => return false,
                Woken::Due => break,
                Woken::Closed => {
                    // The whole pool is gone: nothing else can arrive.
                    let wait = tokio::time::sleep_until(until.at);
                    if stop.run(wait).await.is_none() {
                        return false;
                    }
                    break;
                }
                Woken::Changed => {
                    let wanted = control.borrow_and_update().clone();
                    if !wanted.removed {
                        self.follow(wanted);
                        return true;
                    }
                }
            }
        }
        // The pool may have brought it back at this very moment.
        if !self.active.end_if(|| control.borrow().removed) {
            let wanted = control.borrow_and_update().clone();
            self.follow(wanted);
            return true;
        }
        // Another target with the same labels continues these series.
        if self.last_ms.is_some()
            && !self.shared.uses_labels(&self.active.target.labels)
            && let Origin::Http(http) = &mut self.origin
            // If the clock was set back meanwhile, the missed time is in the future.
            && let Err(error) = http.end(missed_ms.min((self.shared.now_ms)()), &*self.shared.sink)
        {
            self.shared.storage_failed(&error);
        }
        false
    }

    async fn scrape(&mut self, time_ms: i64) {
        let start = Instant::now();
        let mut body = self.shared.buffers.take_buffer();
        let fetched = match (&self.origin, &self.forced_error) {
            (Origin::Http(_), Some(reason)) => Err(NoBody::Forced(Arc::clone(reason))),
            (Origin::Http(http), None) => {
                let memory = &self.shared.memory;
                fetch(&http.plan.client, &http.request, memory, &mut body).await
            }
            (Origin::Local(_), _) => Ok(Fetched {
                content_type: String::new(),
                paid: None,
            }),
        };
        if fetched.is_err() {
            body.clear();
        }
        let hard = matches!(&self.origin, Origin::Http(http) if http.is_learning());
        let long = body.len() > if hard { LONG_NEW_BODY } else { LONG_BODY };
        let run = || self.store(time_ms, start, fetched, &body);
        let status = if long {
            tokio::task::block_in_place(run)
        } else {
            run()
        };
        self.shared.buffers.return_buffer(body);
        self.active.set_status(status);
    }

    /// Parses and appends a round; returns its status.
    fn store(
        &mut self,
        time_ms: i64,
        start: Instant,
        fetched: Result<Fetched, NoBody>,
        body: &[u8],
    ) -> TargetStatus {
        let sink = &*self.shared.sink;
        self.last_ms = Some(time_ms);
        let result = match &mut self.origin {
            Origin::Http(http) => {
                let result = http.round(time_ms, start, fetched, body, sink);
                http.describe(&self.active);
                result
            }
            Origin::Local(local) => local.round(time_ms, start, sink, &self.active, None),
        };
        let Scraped { report, error, .. } = match result {
            Ok((outcome, scraped)) => {
                self.shared.storage_works();
                count(outcome);
                if scraped.refused > 0 {
                    self.shared
                        .refusals
                        .note(&self.active.pool, scraped.refused);
                }
                if let Some(error) = &scraped.error {
                    self.log_failure(error);
                }
                scraped
            }
            Err(error) => {
                self.shared.storage_failed(&error);
                Scraped {
                    report: crate::report::Report::default(),
                    error: Some(error.to_string()),
                    refused: 0,
                }
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

/// Fetches a target's page within the memory limit for pages.
async fn fetch(
    client: &Client,
    request: &Request,
    memory: &ScrapeMemory,
    body: &mut Vec<u8>,
) -> Result<Fetched, NoBody> {
    let mut page = memory.page(body).map_err(NoBody::Memory)?;
    // Boxed: a loop waits nearly all the time, and would hold a request's kilobytes meanwhile.
    let answer = Box::pin(client.get_within(request, body, &mut page)).await;
    let answer = answer.and_then(|head| head.require_ok().map(|()| head));
    let head = answer.map_err(NoBody::Net)?;
    page.fit(body).map_err(NoBody::Memory)?;
    Ok(Fetched {
        content_type: head.content_type.unwrap_or_default(),
        paid: Some(page),
    })
}

impl ScrapeLoop {
    /// Appends a failed scrape to the job's failure log, if it has one.
    fn log_failure(&self, error: &str) {
        if let Origin::Http(http) = &self.origin
            && let Some(log) = &http.plan.failure_log
        {
            let ActiveTarget { pool, target, .. } = &*self.active;
            log.write(self.now_ms(), pool, &target.shown_url, error);
        }
    }
}

/// Waits until `until`, or until there is something else to do.
async fn wait(until: Due, control: &mut watch::Receiver<Control>, stop: &StopToken) -> Woken {
    tokio::select! {
        () = tokio::time::sleep_until(until.at) => Woken::Due,
        changed = control.changed() => match changed {
            Ok(()) => Woken::Changed,
            Err(_) => Woken::Closed,
        },
        () = stop.stopped() => Woken::Stopped,
    }
}

fn count(outcome: Outcome) {
    metrics::DUPLICATES.inc_by(outcome.duplicate);
    metrics::OUT_OF_ORDER.inc_by(outcome.out_of_order);
    metrics::OUT_OF_BOUNDS.inc_by(outcome.too_old + outcome.too_new);
}

/// Formats a duration as Go prints it: `1m30s`, `100ms`.
pub(crate) fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 {
        return format!("{duration:?}");
    }
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let rest = Duration::new(duration.as_secs() % 60, duration.subsec_nanos()).as_secs_f64();
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_look_like_gos() {
        for (ms, shown) in [
            (100, "100ms"),
            (1_500, "1.5s"),
            (15_000, "15s"),
            (60_000, "1m0s"),
            (3_690_000, "1h1m30s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(ms)), shown);
        }
    }
}
