//! Memory requested before it is allocated.
//!
//! This crate has no budgets: a caller that has one passes an [`Allowance`], and a response or request body that the
//! allowance refuses fails instead of growing.
//!
//! Invariant: every byte by which a buffer grows was granted before; the spare capacity of a reused buffer needs no
//! grant.

use std::error::Error;

use crate::error::NetError;

/// Grants memory for one body, piece by piece.
///
/// After the call, the caller knows its buffer's capacity, and everything granted beyond that is free again. Growing
/// a buffer copies it: during the copy, its old size is granted a second time.
pub trait Allowance: Send {
    /// Grants `bytes` more.
    ///
    /// # Errors
    /// The reason for refusing; the text becomes part of [`NetError::Memory`]'s.
    fn grow(&mut self, bytes: usize) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Returns `bytes` of an earlier grant.
    fn shrink(&mut self, bytes: usize);
}

/// Grants everything: only the limits of a request apply.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Allowance for Unlimited {
    fn grow(&mut self, _bytes: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn shrink(&mut self, _bytes: usize) {}
}

/// Makes room for `more_bytes` after the contents of `out`.
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
        // Nothing to copy, so free the old memory before allocating.
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

/// Requests memory that another component allocates.
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

    /// Grants up to a limit and records the amount.
    #[derive(Debug)]
    pub(crate) struct Limit {
        pub(crate) left_bytes: usize,
        pub(crate) granted_bytes: usize,
    }

    impl Limit {
        pub(crate) fn new(bytes: usize) -> Self {
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
        let mut limit = Limit::new(150);
        let mut out = Vec::new();
        reserve(&mut out, 60, &mut limit).expect("granted");
        assert_eq!((limit.granted_bytes, out.capacity()), (60, 60));
        reserve(&mut out, 60, &mut limit).expect("there is room");
        out.resize(40, 0);
        reserve(&mut out, 30, &mut limit).expect("granted");
        assert_eq!((limit.granted_bytes, out.capacity()), (70, 70));
        let error = reserve(&mut out, 61, &mut limit).unwrap_err();
        // The contents have to be copied.
        assert_eq!(
            error.to_string(),
            "no memory for 101 more bytes of the body: used up"
        );
        assert_eq!(out.capacity(), 70);
    }
}
