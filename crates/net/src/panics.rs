//! Panics: caught where a task can continue without the panicked code, logged with their location, counted by task.
//!
//! A panic is a bug, and its half-done work must not be used again: a catcher discards, or poisons, everything the
//! panicking code could change. **Invariant:** once [`log_panics`] was called, every panic is counted once, caught or
//! not.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use std::task::Poll;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use narthex_client::CounterVec;
use tokio::time::Instant;

use crate::stop::StopToken;

/// Task name for panics not caught here: the thread or the runtime's task ended.
const UNSUPERVISED: &str = "unsupervised";
/// Initial pause between a panic and the restart; doubled with every panic that follows soon.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Number of panics; `task` is a name given by the callers of this module, never a value from outside.
pub(crate) static PANICS: CounterVec<1> = CounterVec::new(
    "narthex_panics_total",
    "Panics, by the task that they interrupted or ended; every one is a bug.",
    &["task"],
);

thread_local! {
    /// The task whose code runs under a catcher on this thread.
    static TASK: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// Location of the panic being caught.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Panicked {
    /// The task that panicked.
    pub task: &'static str,
    /// The panic's message.
    pub message: String,
    /// File, line and column; `None` before [`log_panics`] was called.
    pub place: Option<String>,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("panicked")?;
        if let Some(place) = &self.place {
            write!(f, " at {place}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Panicked {}

/// Logs every panic of the process with its location, instead of printing to standard error.
///
/// Later calls do nothing.
pub fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(on_panic)));
}

/// Returns the number of counted panics of a task.
#[must_use]
pub fn panics_total(task: &'static str) -> u64 {
    PANICS.with(&[task]).get() as u64
}

/// Runs `work`; counts a panic in it under `task` and returns it.
///
/// # Errors
/// Fails if `work` panicked. Anything it could change may be half-done.
pub fn catch_panic<T>(task: &'static str, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let outer = TASK.replace(Some(task));
    let caught = catch_unwind(AssertUnwindSafe(work));
    TASK.set(outer);
    caught.map_err(|payload| {
        PANICS.with(&[task]).inc();
        Panicked {
            task,
            message: message_of(&*payload).to_owned(),
            place: PLACE.take(),
        }
    })
}

/// Awaits `work`; counts a panic in it under `task` and returns it.
///
/// # Errors
/// As [`catch_panic`].
pub fn catch_panic_in<T>(
    task: &'static str,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, Panicked>> {
    // Boxed here: an async function would hold the work twice, as what it got and as what it awaits.
    let mut work = Box::pin(work);
    poll_fn(
        move |context| match catch_panic(task, || work.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panicked) => Poll::Ready(Err(panicked)),
        },
    )
}

/// Awaits the future from `make` until it ends by itself, restarting after every panic with growing pauses.
pub async fn keep_running<F: Future<Output = ()>>(
    task: &'static str,
    stop: &StopToken,
    mut make: impl FnMut() -> F,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        // `make` may panic as well as its future.
        let ended = catch_panic_in(task, async { make().await }).await;
        if ended.is_ok() {
            return;
        }
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::warn!(
            task,
            pause_ms = pause.as_millis() as u64,
            "Starting again after a panic."
        );
        if stop.run(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Task name for panics in handlers, and in bodies produced while they are sent.
pub(crate) const HTTP: &str = "http";

/// Returns a handler's response, or a 500 if it panics.
pub(crate) async fn or_500(answer: impl Future<Output = Response>) -> Response {
    match catch_panic_in(HTTP, answer).await {
        Ok(response) => response,
        Err(_logged) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            (status, "internal error\n").into_response()
        }
    }
}

fn on_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string);
    // An ending thread may have dropped these already.
    let task = TASK.try_with(Cell::get).ok().flatten();
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace);
    tracing::error!(
        task = task.unwrap_or(UNSUPERVISED),
        thread = std::thread::current().name().unwrap_or_default(),
        place = place.as_deref().unwrap_or_default(),
        reason = message_of(info.payload()),
        backtrace = backtrace.map(tracing::field::display),
        "Panicked; this is a bug.",
    );
    if task.is_none() {
        PANICS.with(&[UNSUPERVISED]).inc();
    }
    let _ = PLACE.try_with(|kept| kept.replace(place));
}

fn message_of(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is no text")
}

#[cfg(test)]
mod tests;
