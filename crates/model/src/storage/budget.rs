//! Hierarchical memory budgets: query → pool → process.
//!
//! **Invariant:** what is leased from a budget is leased from all its parents too; dropping a lease returns it to
//! all of them. A lease that would exceed any level changes nothing.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A limit on bytes in use, shared by clones.
#[derive(Clone)]
pub struct Budget(Arc<Level>);

struct Level {
    name: Box<str>,
    limit_bytes: u64,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    parent: Option<Budget>,
}

/// Bytes taken from a budget, returned on drop.
#[derive(Debug)]
pub struct Lease {
    budget: Budget,
    bytes: u64,
}

/// A lease that would exceed a budget.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct OverBudget {
    /// The level that is exhausted.
    pub budget: Box<str>,
    /// Its limit.
    pub limit_bytes: u64,
    /// What was in use.
    pub used_bytes: u64,
    /// What was asked for.
    pub asked_bytes: u64,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            budget,
            limit_bytes,
            used_bytes,
            asked_bytes,
        } = self;
        write!(
            f,
            "memory budget of {budget} exceeded: {used_bytes} of {limit_bytes} bytes in use, {asked_bytes} more needed"
        )
    }
}

impl Error for OverBudget {}

impl Budget {
    /// Returns a top-level budget.
    #[must_use]
    pub fn new(name: &str, limit_bytes: u64) -> Self {
        Self::level(name, limit_bytes, None)
    }

    /// Returns a budget without a limit.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new("unlimited", u64::MAX)
    }

    /// Returns a budget within this one.
    #[must_use]
    pub fn child(&self, name: &str, limit_bytes: u64) -> Self {
        Self::level(name, limit_bytes, Some(self.clone()))
    }

    fn level(name: &str, limit_bytes: u64, parent: Option<Self>) -> Self {
        let zero = AtomicU64::default;
        Self(Arc::new(Level {
            name: name.into(),
            limit_bytes,
            used_bytes: zero(),
            peak_bytes: zero(),
            parent,
        }))
    }

    /// Takes `bytes` from this budget and all its parents.
    ///
    /// # Errors
    /// Fails, taking nothing, when a level would exceed its limit.
    pub fn lease(&self, bytes: u64) -> Result<Lease, OverBudget> {
        self.take(bytes)?;
        Ok(Lease {
            budget: self.clone(),
            bytes,
        })
    }

    /// Returns the bytes in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns the most bytes that were ever in use at once.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.0.peak_bytes.load(Ordering::Relaxed)
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        let level = &*self.0;
        let update = |used: u64| {
            used.checked_add(bytes)
                .filter(|sum| *sum <= level.limit_bytes)
        };
        match level
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
        {
            Ok(before) => {
                level
                    .peak_bytes
                    .fetch_max(before + bytes, Ordering::Relaxed);
            }
            Err(used_bytes) => {
                let (budget, limit_bytes) = (level.name.clone(), level.limit_bytes);
                return Err(OverBudget {
                    budget,
                    limit_bytes,
                    used_bytes,
                    asked_bytes: bytes,
                });
            }
        }
        if let Some(parent) = &level.parent
            && let Err(error) = parent.take(bytes)
        {
            level.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(error);
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.0.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.0.parent {
            parent.give_back(bytes);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Budget({}: {} of {} bytes)",
            self.0.name,
            self.used_bytes(),
            self.0.limit_bytes
        )
    }
}

impl Lease {
    /// Takes `bytes` more.
    ///
    /// # Errors
    /// Fails, keeping what it has, when a level would exceed its limit.
    pub fn grow(&mut self, bytes: u64) -> Result<(), OverBudget> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Returns the bytes taken.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_count_at_every_level_and_come_back() {
        let process = Budget::new("process", 100);
        let query = process.child("query", 80);
        let other = process.child("query", 80);
        let mut lease = query.lease(60).unwrap();
        let error = other.lease(50).unwrap_err();
        assert_eq!(
            (&*error.budget, error.used_bytes, other.used_bytes()),
            ("process", 60, 0)
        );
        assert_eq!(&*lease.grow(30).unwrap_err().budget, "query");
        lease.grow(20).unwrap();
        drop(lease);
        assert_eq!(
            (
                process.used_bytes(),
                query.used_bytes(),
                process.peak_bytes()
            ),
            (0, 0, 80)
        );
        assert_eq!(
            error.to_string(),
            "memory budget of process exceeded: 60 of 100 bytes in use, 50 more needed"
        );
    }
}
