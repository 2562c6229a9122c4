//! Frames, received: schemas once, then rows as differences to the row before. Bytes: docs/format/remote-frames.md.
//!
//! A sender numbers the requests of its session. What the session has defined is kept here, so that a row finds its
//! columns' places without their labels. A session that is not known, or that a request does not continue, is answered
//! with 409: its sender begins another one with what is not acknowledged.
//!
//! **Invariant:** a session's state is that after its last answered request, or the session is forgotten. A request that
//! is sent again after its answer was lost stores nothing and gets the same answer.

mod collect;
mod head;
mod session;
mod store;

pub(crate) use head::{HEAD_BYTES, SessionId, put_head};
pub(crate) use session::Sessions;

/// Media type of requests, which answers offer.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.narthex.frames;version=2";

/// Longest decompressed request.
pub(crate) const BODY_BYTES: usize = 8 << 20;
/// Most samples of a request.
pub(crate) const SAMPLES: usize = 1 << 19;
/// Most cells of a request's rows, absent ones included.
const CELLS: usize = 1 << 24;
