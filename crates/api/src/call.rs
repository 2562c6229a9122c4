//! Calls: the permit, the time and the thread of each.
//!
//! A thread that sleeps begins some 50 µs after it was woken, and the connection that waits for it goes on as late:
//! together more than a small query takes. So a question that took at most half a millisecond when it was last asked is
//! answered in place, on the thread that serves its connection; all others on a blocking thread.
//!
//! **Invariant:** a call that was begun in place and takes longer than [`LONGEST`] gives up when it next polls its stop,
//! and begins anew on a blocking thread, where it is canceled when its client disconnects.

use crate::{
    answer::Answer,
    config::{Api, Gate},
    error::{ApiError, ErrorType},
    metrics,
    short_questions::QuestionKey,
};
use narthex_model::storage::{Context, Stop, StopReason};
use narthex_net::{Pass, catch_panic};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Longest time that others who share the thread may wait for a call.
const LONGEST: Duration = Duration::from_millis(2);

/// Task name of what is answered in place, in metrics and logs.
const IN_PLACE: &str = "api call";

/// Runs `work` on a blocking thread with a permit of `gate`, which the response keeps until it has been sent; cancels
/// it when the client disconnects.
pub(crate) async fn run(
    api: &Arc<Api>,
    gate: Gate,
    timeout: Duration,
    work: impl FnOnce(&Api, &Context) -> Result<Answer, ApiError> + Send + 'static,
) -> Result<Answer, ApiError> {
    Call::begin(api, gate, timeout).await?.on_thread(work).await
}

/// Runs `work`, which answers `question`, in place if it is known to take little time, otherwise as [`run`] does.
pub(crate) async fn run_known(
    api: &Arc<Api>,
    gate: Gate,
    timeout: Duration,
    question: QuestionKey,
    work: impl Fn(&Api, &Context) -> Result<Answer, ApiError> + Send + 'static,
) -> Result<Answer, ApiError> {
    let call = Call::begin(api, gate, timeout).await?;
    let work = move |api: &Api, ctx: &Context| {
        let begun = Instant::now();
        let outcome = work(api, ctx);
        api.short.note(question, begun.elapsed());
        outcome
    };
    if !api.short.contains(question) {
        return call.on_thread(work).await;
    }
    match call.in_place(&work) {
        Ok(outcome) => outcome,
        Err(call) => {
            metrics::MOVED.inc();
            call.on_thread(work).await
        }
    }
}

/// A call that has its permit.
struct Call<'a> {
    api: &'a Arc<Api>,
    gate: Gate,
    end: Instant,
    pass: Pass,
    _counted: Option<Counted>,
}

impl<'a> Call<'a> {
    /// Waits for a permit.
    async fn begin(api: &'a Arc<Api>, gate: Gate, timeout: Duration) -> Result<Self, ApiError> {
        let end = Instant::now() + timeout;
        let counted = (gate == Gate::Query).then(Counted::new);
        let pass = api.gate(gate).pass(timeout).await;
        let pass = pass.map_err(|_refused| {
            ApiError::new(ErrorType::Timeout, "query timed out in query queue")
        })?;
        Ok(Self {
            api,
            gate,
            end,
            pass,
            _counted: counted,
        })
    }

    /// Runs `work` on this thread; returns the call if it takes too long.
    fn in_place(
        self,
        work: impl Fn(&Api, &Context) -> Result<Answer, ApiError>,
    ) -> Result<Result<Answer, ApiError>, Self> {
        let longest = Instant::now() + LONGEST;
        let stop = if longest < self.end {
            Stop::moved_at(longest)
        } else {
            Stop::at(self.end)
        };
        let ctx = self.api.context(self.gate, stop);
        match catch_panic(IN_PLACE, || work(self.api, &ctx)) {
            Ok(Err(_given_up)) if ctx.stop.check() == Err(StopReason::Moved) => Err(self),
            Ok(outcome) => Ok(outcome.map(|answer| finished(answer, self.pass, &ctx))),
            Err(panic) => Ok(Err(unexpected(panic))),
        }
    }

    /// Runs `work` on a blocking thread.
    async fn on_thread(
        self,
        work: impl FnOnce(&Api, &Context) -> Result<Answer, ApiError> + Send + 'static,
    ) -> Result<Answer, ApiError> {
        let stop = Stop::at(self.end);
        let cancel = CancelOnDrop(stop.clone());
        let ctx = self.api.context(self.gate, stop);
        let (api, pass) = (Arc::clone(self.api), self.pass);
        let task = (self.api).spawn(move || Ok(finished(work(&api, &ctx)?, pass, &ctx)));
        let outcome = task.await.map_err(unexpected);
        drop(cancel);
        outcome.flatten()
    }
}

/// Returns an answer with what it keeps until it has been sent, and what is to be said with it.
fn finished(mut answer: Answer, pass: Pass, ctx: &Context) -> Answer {
    answer.holds.add(pass);
    answer.warnings.extend(ctx.warnings.drain());
    answer
}

fn unexpected(panic: impl std::fmt::Display) -> ApiError {
    ApiError::internal(format!("unexpected error: {panic}"))
}

/// Cancels a running call when its request is dropped.
struct CancelOnDrop(Stop);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.stop(StopReason::Canceled);
    }
}

struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::QUERIES.inc();
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::QUERIES.dec();
    }
}
