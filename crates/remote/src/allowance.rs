//! What decoding a request may take.

use crate::{error::RemoteError, wire::malformed};
use narthex_model::storage::{Budget, Lease};

/// Memory that decoding may still take.
///
/// Two bytes can announce an empty sample that takes thirty: what real senders send stays far below eight times the
/// body's length. What is taken is leased from the memory of all requests, piece by piece.
#[derive(Debug)]
pub(crate) struct Allowance {
    left_bytes: usize,
    /// Leased and not taken yet.
    leased_bytes: usize,
    lease: Lease,
}

/// A lease grows by so much at a time: most requests need one.
const LEASE_BYTES: usize = 256 << 10;

impl Allowance {
    /// Returns what a body of this length may grow to within `memory`.
    ///
    /// # Errors
    /// Fails when there is no memory at all.
    pub(crate) fn of(body: &[u8], memory: &Budget) -> Result<Self, RemoteError> {
        Ok(Self {
            left_bytes: body.len() * 8 + (64 << 10),
            leased_bytes: 0,
            lease: memory.lease(0)?,
        })
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// Fails when they are not left, or there is no memory for them.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), RemoteError> {
        let Some(left_bytes) = self.left_bytes.checked_sub(bytes) else {
            return Err(malformed("more entries than the body's length allows"));
        };
        self.left_bytes = left_bytes;
        self.lease(bytes)
    }

    /// Leases memory for what may be more than the body's length allows.
    ///
    /// # Errors
    /// Fails when there is none.
    #[inline]
    pub(crate) fn lease(&mut self, bytes: usize) -> Result<(), RemoteError> {
        if self.leased_bytes < bytes {
            self.lease_more(bytes)?;
        }
        self.leased_bytes -= bytes;
        Ok(())
    }

    #[cold]
    fn lease_more(&mut self, bytes: usize) -> Result<(), RemoteError> {
        let more = bytes.max(LEASE_BYTES);
        // Lists grow by doubling, and what is made of them is as long again.
        self.lease.grow(2 * more as u64)?;
        self.leased_bytes += more;
        Ok(())
    }
}
