//! Memory that is counted rather than leased.
//!
//! **Invariant:** an account's bytes count at all levels of its budget, even beyond a limit, so that leases are
//! refused because of them; dropping the account gives them back.

use super::Budget;
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// Bytes of something that already exists, counted towards a budget.
pub struct Account {
    budget: Budget,
    bytes: AtomicU64,
}

impl Account {
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            budget,
            bytes: AtomicU64::new(0),
        }
    }

    /// Sets the number of bytes. Call from one thread at a time, never concurrently with [`Account::add`].
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes >= before {
            self.budget.count(bytes - before);
        } else {
            self.budget.give_back(before - bytes);
        }
    }

    /// Counts more bytes.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.count(bytes);
    }

    /// Counts fewer bytes, down to 0.
    pub fn sub(&self, bytes: u64) {
        let less = |now: u64| Some(now.saturating_sub(bytes));
        let before = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.budget.give_back(before.unwrap_or(0).min(bytes));
    }

    /// Returns the bytes counted.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.give_back(*self.bytes.get_mut());
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Account({} bytes of {})",
            self.bytes(),
            self.budget.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_leaves_less_to_lease() {
        let process = Budget::new("process", 100);
        let head = process.share("head", u64::MAX, u64::MAX);
        let account = head.account();
        account.set(80);
        assert!(process.lease(30).is_err());
        account.add(50);
        assert_eq!((process.used_bytes(), head.peak_bytes()), (130, 130));
        assert!(process.lease(0).is_err());
        account.sub(100);
        account.sub(100);
        assert_eq!((account.bytes(), process.used_bytes()), (0, 0));
        account.set(7);
        drop(account);
        assert_eq!((process.used_bytes(), head.used_bytes()), (0, 0));
    }
}
