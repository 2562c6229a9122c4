//! Signals: SIGHUP asks for a reload; the first SIGTERM or SIGINT asks for a clean end, the second ends at once.

use narthex_model::sync::Whole as _;
use narthex_net::Stopper;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};

/// Time a clean end may take before it is forced.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// Exit code of a forced end.
const FORCED: i32 = 1;

/// Stops everything on SIGTERM or SIGINT, and exits at once on the next one.
///
/// # Errors
/// Fails when the signals cannot be handled.
pub(crate) fn listen(stopper: Stopper) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut asked = false;
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            if asked {
                tracing::error!(signal = name, "Received a second signal; exiting at once.");
                std::process::exit(FORCED);
            }
            asked = true;
            stopper.stop_by((Instant::now() + STOP_DEADLINE).into());
            tracing::warn!(signal = name, "Received a signal: ending.");
        }
    });
    Ok(())
}

/// Returns a handle that is notified at every SIGHUP; if nothing waits for it the signal has no effect.
///
/// # Errors
/// Fails when the signal cannot be handled.
pub(crate) fn hang_ups() -> std::io::Result<Arc<Notify>> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let asked = Arc::new(Notify::new());
    let notify = Arc::clone(&asked);
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            notify.notify_one();
        }
    });
    Ok(asked)
}

/// Ends the process with an error when a clean end takes longer than its deadline, naming what it waits for: `first`,
/// then what the returned function was last called with.
pub(crate) fn force_after_deadline(first: &'static str) -> impl Fn(&'static str) {
    let waiting_for = Arc::new(Mutex::new(first));
    let shown = Arc::clone(&waiting_for);
    std::thread::spawn(move || {
        std::thread::sleep(STOP_DEADLINE + Duration::from_secs(5));
        tracing::error!(
            waiting_for = *shown.lock().whole(),
            "Shutdown took too long; forcing it."
        );
        std::process::exit(FORCED);
    });
    move |what| *waiting_for.lock().whole() = what
}
