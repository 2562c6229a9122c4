//! Body buffers shared by all loops of a manager.
//!
//! A body lives for the milliseconds of its scrape; a buffer per target would hold a body per target for ever.
//! **Invariant:** at most `KEPT` idle buffers, none larger than `KEPT_BYTES`, are kept.

use std::sync::{Mutex, PoisonError};

const KEPT: usize = 32;
const KEPT_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT && buffer.capacity() <= KEPT_BYTES {
            kept.push(buffer);
        }
    }
}
