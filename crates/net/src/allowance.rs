//! Memory that is asked for before it is allocated.
//!
//! This crate knows no budget: a caller that has one hands in an [`Allowance`], and an answer or a
//! request's body that the allowance refuses fails instead of growing.
//!
//! Invariant: what buffers grow by was granted before, byte for byte; nothing is asked for room that
//! a reused buffer has already.

use std::error::Error;

use crate::error::NetError;

/// Grants memory for one body, piece by piece.
///
/// When the call has returned, the caller knows what its buffer's capacity is, and everything
/// granted beyond that is free again. While a buffer grows it is copied: for that moment what it had
/// is granted once more.
pub trait Allowance: Send {
    /// Grants `bytes` more.
    ///
    /// # Errors
    /// Why not; the text becomes a part of [`NetError::Memory`]'s.
    fn grow(&mut self, bytes: usize) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Takes back `bytes` of what was granted.
    fn shrink(&mut self, bytes: usize);
}

/// Grants everything: the limits of a request alone bound it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Allowance for Unlimited {
    fn grow(&mut self, _bytes: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn shrink(&mut self, _bytes: usize) {}
}

/// Makes room for `more_bytes` behind what `out` holds.
pub(crate) fn reserve(
    out: &mut Vec<u8>,
    more_bytes: usize,
    allowance: &mut dyn Allowance,
) -> Result<(), NetError> {
    let missing_bytes = (out.len() + more_bytes).saturating_sub(out.capacity());
    if missing_bytes == 0 {
        return Ok(());
    }
    if out.is_empty() {
        ask(missing_bytes, allowance)?;
        // Nothing to carry over, so the old memory can go before the new comes.
        *out = Vec::new();
        out.reserve_exact(more_bytes);
        return Ok(());
    }
    let copied_bytes = out.capacity();
    ask(missing_bytes + copied_bytes, allowance)?;
    out.reserve_exact(more_bytes);
    allowance.shrink(copied_bytes);
    Ok(())
}

/// Asks for memory that somebody else allocates.
pub(crate) fn ask(wanted_bytes: usize, allowance: &mut dyn Allowance) -> Result<(), NetError> {
    allowance
        .grow(wanted_bytes)
        .map_err(|source| NetError::Memory {
            wanted_bytes,
            source,
        })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Grants up to a limit and remembers how much.
    #[derive(Debug)]
    pub(crate) struct Limit {
        pub(crate) left_bytes: usize,
        pub(crate) granted_bytes: usize,
    }

    impl Limit {
        pub(crate) fn of(bytes: usize) -> Self {
            Self {
                left_bytes: bytes,
                granted_bytes: 0,
            }
        }
    }

    impl Allowance for Limit {
        fn grow(&mut self, bytes: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
            self.left_bytes = self.left_bytes.checked_sub(bytes).ok_or("used up")?;
            self.granted_bytes += bytes;
            Ok(())
        }

        fn shrink(&mut self, bytes: usize) {
            self.left_bytes += bytes;
            self.granted_bytes -= bytes;
        }
    }

    #[test]
    fn only_what_is_missing_is_asked_for() {
        let mut limit = Limit::of(150);
        let mut out = Vec::new();
        reserve(&mut out, 60, &mut limit).expect("granted");
        assert_eq!((limit.granted_bytes, out.capacity()), (60, 60));
        reserve(&mut out, 60, &mut limit).expect("there is room");
        out.resize(40, 0);
        reserve(&mut out, 30, &mut limit).expect("granted");
        assert_eq!((limit.granted_bytes, out.capacity()), (70, 70));
        let error = reserve(&mut out, 61, &mut limit).unwrap_err();
        // What is there has to be copied.
        assert_eq!(
            error.to_string(),
            "no memory for 101 more bytes of the body: used up"
        );
        assert_eq!(out.capacity(), 70);
    }
}
