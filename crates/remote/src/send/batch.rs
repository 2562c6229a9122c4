//! A request between the worker that made it and the shard that sends it.

use super::{encode::Counts, post::Compression};
use crate::{Message, queue::Position};

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) body: Vec<u8>,
    pub(super) message: Message,
    pub(super) compression: Compression,
    /// Number of changes of the protocol when its worker began.
    pub(super) changes: u64,
    pub(super) counts: Counts,
    /// Time of its newest sample.
    pub(super) newest_ms: i64,
    /// The place in the queue behind its last sample.
    pub(super) until: Position,
}
