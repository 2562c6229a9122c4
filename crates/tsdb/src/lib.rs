//! The storage engine: a head of strips whose bytes are the write-ahead log's bytes.
//!
//! It provides [`Db`], which implements `narthex_model`'s storage traits on a directory. It has no queries, no network
//! and no async code. Everything on disk goes through [`Io`], so that tests can make it fail at will.
//!
//! An origin's series form a *strip*; one round of values is a *row*, encoded once, kept in the head and copied into
//! the WAL. Samples that do not fit a row go to the *out-of-order buffer*. Limits: 2^32 columns per strip, 2^32 strips.
//!
//! ```no_run
//! use narthex_tsdb::{Db, DbOptions, RealIo, SystemClock};
//! use std::sync::Arc;
//!
//! let db = Db::open(Arc::new(RealIo), DbOptions::new("data"), Arc::new(SystemClock))?;
//! // bind schemas, append frames; call `maintain` about every second
//! db.maintain(0)?;
//! db.close()?;
//! # Ok::<(), narthex_tsdb::TsdbError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod block;
mod bytes;
mod clock;
mod damage;
mod db;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod head;
mod io;
mod label_order;
mod metrics;
mod options;
mod shared_names;
mod sync;
mod wal;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;

pub use block::{Block, BlockCache, BlockId, BlockMeta};
pub use clock::{Clock, ManualClock, SystemClock};
pub use db::{Db, EarlySink, Notice, Opening};
pub use error::{Damage, TsdbError};
pub use io::{
    AppendFile, Fault, FaultyIo, FileIdentity, Gate, Io, Lock, Op, PowerLoss, ReadFile, ReadOnlyIo,
    RealIo, is_exhausted, is_full,
};
pub use options::{DbOptions, Tuning};
pub use wal::ReplayProgress;
