//! Waits for something that happens elsewhere.

use super::error::BenchError;
use std::{
    thread,
    time::{Duration, Instant},
};

/// Calls `look` with a pause in between until it returns something; `None` if it has not after `limit`.
pub(crate) fn poll<T>(
    pause: Duration,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>, BenchError>,
) -> Result<Option<T>, BenchError> {
    let end = Instant::now() + limit;
    loop {
        let found = look()?;
        if found.is_some() || Instant::now() > end {
            return Ok(found);
        }
        thread::sleep(pause);
    }
}
