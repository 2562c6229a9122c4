//! A thread that does its work again and again until the process ends.

use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A running thread.
pub(crate) struct Worker {
    thread: JoinHandle<()>,
    stop: mpsc::Sender<()>,
    /// What it does, to be said if it panics.
    what: &'static str,
}

impl Worker {
    /// Starts a thread that works after `pause`, and then after each pause that `work` returns. The last time it works,
    /// it is told so.
    ///
    /// # Errors
    /// Fails when no thread can be started.
    pub(crate) fn start(
        name: &str,
        what: &'static str,
        mut pause: Duration,
        mut work: impl FnMut(bool) -> Duration + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            loop {
                let is_last = stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
                pause = work(is_last);
                if is_last {
                    return;
                }
            }
        })?;
        Ok(Self { thread, stop, what })
    }

    /// Stops the thread and waits for it.
    pub(crate) fn join(self) {
        // Fails only when the thread has ended already.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("{} ended with a panic.", self.what);
        }
    }
}
