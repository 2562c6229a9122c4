//! Scraping real HTTP servers into a store in memory.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod clock;
mod formats;
mod local;
mod loops;
mod page;
mod panics;
mod peer;
mod pools;
mod support;
