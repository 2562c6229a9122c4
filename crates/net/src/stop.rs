//! Cancellation that every task of the process can wait for, with an optional deadline.
//!
//! Invariant: a stop is permanent. Once a token is stopped it stays so, its deadline can only move earlier, and every
//! child token is stopped by the same call at the latest.

use crate::sync::Whole as _;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::watch;
use tokio::time::Instant;

/// Stops its tokens and their children.
///
/// Dropping a stopper stops nothing: its tokens then end only with their parent.
#[derive(Debug, Clone)]
pub struct Stopper {
    node: Arc<Node>,
}

/// Reports whether, and by when, work must end. Cheap to clone; `is_stopped` is one load.
#[derive(Debug, Clone)]
pub struct StopToken {
    node: Arc<Node>,
}

#[derive(Debug)]
struct Node {
    /// Copy of `state`'s phase, for polling in a loop.
    stopped: AtomicBool,
    state: watch::Sender<State>,
    children: Mutex<Vec<Weak<Node>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Stopped { deadline: Option<Instant> },
}

impl Stopper {
    /// Returns a running pair without a parent.
    #[must_use]
    pub fn new() -> (Self, StopToken) {
        let node = Node::running();
        (
            Self {
                node: Arc::clone(&node),
            },
            StopToken { node },
        )
    }

    /// Stops without a deadline; each drain applies its own.
    pub fn stop(&self) {
        self.node.stop(None);
    }

    /// Stops, with everything to end by `deadline`.
    ///
    /// Later calls can only make the deadline earlier: a second signal passes `Instant::now()`.
    pub fn stop_by(&self, deadline: Instant) {
        self.node.stop(Some(deadline));
    }

    /// Returns another token of this stopper.
    #[must_use]
    pub fn token(&self) -> StopToken {
        StopToken {
            node: Arc::clone(&self.node),
        }
    }
}

impl StopToken {
    /// Returns a pair that stops with this token, or earlier through its own stopper.
    #[must_use]
    pub fn child(&self) -> (Stopper, Self) {
        let node = Node::running();
        self.node.adopt(&node);
        (
            Stopper {
                node: Arc::clone(&node),
            },
            Self { node },
        )
    }

    /// Returns whether work must end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.node.stopped.load(Ordering::Acquire)
    }

    /// Returns the time by which work must have ended; `None` while running or without a deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.node.state.borrow().deadline()
    }

    /// Completes when stopped, or at once if it already is. Cancel safe.
    pub async fn stopped(&self) {
        if self.is_stopped() {
            return;
        }
        let mut watch = self.node.state.subscribe();
        // An error means that the sender is gone, but `self.node` holds it.
        let _held = watch.wait_for(|state| *state != State::Running).await;
    }

    /// Completes when stopped and the deadline, set now or later, has passed.
    ///
    /// Never completes without a deadline. Cancel safe.
    pub async fn expired(&self) {
        let mut watch = self.node.state.subscribe();
        loop {
            let deadline = watch.borrow_and_update().deadline();
            match deadline {
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => return,
                    _earlier = watch.changed() => {}
                },
                None => {
                    let _held = watch.changed().await;
                }
            }
        }
    }

    /// Returns the output of `work`, or `None` if the stop came first and `work` was dropped.
    pub async fn run<F: Future>(&self, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.stopped() => None,
            output = work => Some(output),
        }
    }
}

impl State {
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Running => None,
            Self::Stopped { deadline } => deadline,
        }
    }
}

impl Node {
    fn running() -> Arc<Self> {
        Arc::new(Self {
            stopped: AtomicBool::new(false),
            state: watch::Sender::new(State::Running),
            children: Mutex::new(Vec::new()),
        })
    }

    fn stop(&self, deadline: Option<Instant>) {
        self.state.send_if_modified(|state| {
            let next = match (*state, deadline) {
                (State::Stopped { deadline: Some(a) }, Some(b)) => Some(a.min(b)),
                (State::Stopped { deadline: a }, b) => a.or(b),
                (State::Running, b) => b,
            };
            let next = State::Stopped { deadline: next };
            let changed = *state != next;
            *state = next;
            changed
        });
        self.stopped.store(true, Ordering::Release);
        // Taken out of the lock: a child's subtree may be deep, and adding a child must not wait for it.
        let children: Vec<_> = {
            let children = self.children.lock().whole();
            children.iter().filter_map(Weak::upgrade).collect()
        };
        for child in children {
            child.stop(deadline);
        }
    }

    fn adopt(&self, child: &Arc<Self>) {
        {
            let mut children = self.children.lock().whole();
            // Dead children are swept when the list would grow, so the cost is constant per child.
            if children.len() == children.capacity() {
                children.retain(|c| c.strong_count() > 0);
            }
            children.push(Arc::downgrade(child));
        }
        // After the push: an earlier stop is seen here, a later one walks the list.
        let state = *self.state.borrow();
        if let State::Stopped { deadline } = state {
            child.stop(deadline);
        }
    }
}

#[cfg(test)]
mod tests;
