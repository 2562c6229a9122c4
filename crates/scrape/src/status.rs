//! What is known about a target's last scrape, for people and for the API.

use crate::Target;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Whether a target's last scrape succeeded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Health {
    /// Not scraped yet.
    #[default]
    Unknown,
    /// Succeeded.
    Up,
    /// Failed.
    Down,
}

impl Health {
    /// Returns the word the API uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A target's last scrape.
#[derive(Clone, Debug, Default)]
pub struct TargetStatus {
    /// Whether it succeeded.
    pub health: Health,
    /// Why it failed, or empty.
    pub last_error: String,
    /// When it started, if ever.
    pub last_scrape_ms: Option<i64>,
    /// How long it took.
    pub last_duration: Duration,
    /// Decompressed size of the body.
    pub body_bytes: usize,
    /// Samples in the body.
    pub samples: usize,
}

/// A target that is being scraped.
#[derive(Debug)]
pub(crate) struct ActiveTarget {
    pub(crate) pool: String,
    pub(crate) target: Target,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    status: Mutex<TargetStatus>,
}

impl ActiveTarget {
    pub(crate) fn new(pool: &str, target: Target, interval: Duration, timeout: Duration) -> Self {
        Self {
            pool: pool.to_owned(),
            target,
            interval,
            timeout,
            status: Mutex::default(),
        }
    }

    pub(crate) fn status(&self) -> TargetStatus {
        self.status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_status(&self, status: TargetStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
