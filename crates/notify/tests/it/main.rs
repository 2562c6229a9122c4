//! Notifiers that post to recording Alertmanagers, and what Prometheus would post instead.
//!
//! Invariant: expected bytes come from `testkit/oracle`.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod discovery;
mod notifier;
mod oracle;
