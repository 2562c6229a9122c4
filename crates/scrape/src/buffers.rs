//! Body buffers shared by all loops of a manager.
//!
//! A body lives for the milliseconds of its scrape; a buffer per target would keep one body's memory per target
//! forever.
//! **Invariant:** at most `KEPT` idle buffers, none larger than `KEPT_BYTES`, are kept.

use narthex_model::sync::Whole as _;
use std::sync::Mutex;

const KEPT: usize = 32;
const KEPT_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Buffers {
    idle: Mutex<Idle>,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Idle {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Buffers {
    /// Returns an empty pool whose idle buffers together hold up to `most_bytes`.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            idle: Mutex::default(),
            most_bytes,
        }
    }

    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        let mut idle = self.idle.lock().whole();
        let buffer = idle.buffers.pop().unwrap_or_default();
        idle.bytes -= buffer.capacity();
        buffer
    }

    pub(crate) fn return_buffer(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut idle = self.idle.lock().whole();
        let fits = buffer.capacity() <= KEPT_BYTES.min(self.most_bytes - idle.bytes);
        if idle.buffers.len() < KEPT && fits {
            idle.bytes += buffer.capacity();
            idle.buffers.push(buffer);
        }
    }
}
