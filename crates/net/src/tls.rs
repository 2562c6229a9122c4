//! TLS on both sides: rustls configurations from settings, with certificates verified as in Go.
//!
//! Invariant: one crypto provider, aws-lc-rs, passed explicitly; nothing depends on a process-wide default. No peer
//! is trusted without verification unless the configuration says so.

pub(crate) mod chain;
pub(crate) mod client;
pub(crate) mod crypto;
pub(crate) mod der;
mod domain;
pub(crate) mod errors;
mod names;
pub(crate) mod server;
pub(crate) mod verify;
