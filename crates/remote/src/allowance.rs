//! Memory limit of decoding a request.

use crate::{error::RemoteError, wire::malformed};
use narthex_model::storage::{Budget, Lease};

/// Memory that decoding may still use.
///
/// Two bytes can encode an empty sample that takes thirty; real senders stay far below eight times the body's length.
/// The memory is leased from the budget of all requests, step by step.
#[derive(Debug)]
pub(crate) struct Allowance {
    left_bytes: usize,
    /// Leased and not used yet.
    leased_bytes: usize,
    lease: Lease,
}

/// Step by which a lease grows: one suffices for most requests.
const LEASE_BYTES: usize = 256 << 10;

impl Allowance {
    /// Returns the allowance for a body within `memory`.
    ///
    /// # Errors
    /// Fails if there is no memory at all.
    pub(crate) fn for_body(body: &[u8], memory: &Budget) -> Result<Self, RemoteError> {
        Ok(Self {
            left_bytes: body.len() * 8 + (64 << 10),
            leased_bytes: 0,
            lease: memory.lease(0)?,
        })
    }

    /// Uses this many bytes.
    ///
    /// # Errors
    /// Fails if they exceed the allowance, or there is no memory for them.
    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), RemoteError> {
        let Some(left_bytes) = self.left_bytes.checked_sub(bytes) else {
            return Err(malformed("more entries than the body's length allows"));
        };
        self.left_bytes = left_bytes;
        self.lease(bytes)
    }

    /// Leases memory that the body's length does not limit.
    ///
    /// # Errors
    /// Fails if the memory is not available.
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
        // Lists grow by doubling, and what is built from them is as long again.
        self.lease.grow(2 * more as u64)?;
        self.leased_bytes += more;
        Ok(())
    }
}
