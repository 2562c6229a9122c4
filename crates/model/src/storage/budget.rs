//! Hierarchical memory budgets: query → pool → process.
//!
//! A [`Lease`] is requested before memory is allocated and may be refused; an [`Account`] counts memory that already
//! exists. A *share* is a named part of a budget that is reported separately; how far it may fill its parent decides
//! who is refused first when memory runs short.
//!
//! **Invariant:** bytes leased from a budget are leased from all its parents too; dropping a lease returns them to
//! all of them. A lease that would exceed any level changes nothing.

mod account;
mod pressure;

pub use account::Account;
pub use pressure::{Pressure, PressureLevels};

use crate::sync::Whole as _;
use pressure::Gauge;
use std::{
    error::Error,
    fmt,
    sync::{
        Arc, Mutex, Weak,
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
    refused_total: AtomicU64,
    parent: Option<Budget>,
    /// How far leases of this level may fill the parent.
    reach_bytes: u64,
    /// Bytes this level may take however full the parent is.
    reserve_bytes: u64,
    /// Child levels that are reported, in the order they were created.
    shares: Mutex<Vec<Weak<Level>>>,
    pressure: Gauge,
}

/// Usage of one share of a budget.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Share {
    /// Its name.
    pub name: Box<str>,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Peak of the bytes in use.
    pub peak_bytes: u64,
    /// Its own limit; `u64::MAX` for no limit.
    pub limit_bytes: u64,
    /// Leases refused, by its own limit or by its parent's.
    pub refused_total: u64,
}

/// Bytes taken from a budget, returned on drop.
#[derive(Debug)]
pub struct Lease {
    budget: Budget,
    bytes: u64,
}

/// The error for a lease that would exceed a budget.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct OverBudget {
    /// The level that is exhausted.
    pub budget: Box<str>,
    /// Its limit.
    pub limit_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes requested.
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
        Self::level(name, limit_bytes, None, u64::MAX, 0)
    }

    /// Returns a budget without a limit.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new("unlimited", u64::MAX)
    }

    /// Returns a budget within this one, for one call or request.
    #[must_use]
    pub fn child(&self, name: &str, limit_bytes: u64) -> Self {
        Self::level(name, limit_bytes, Some(self.clone()), u64::MAX, 0)
    }

    /// Returns a budget within this one that [`Budget::shares`] lists while it lives.
    ///
    /// Refuses leases that would fill this budget beyond `reach_bytes`, whoever uses the rest.
    #[must_use]
    pub fn share(&self, name: &str, limit_bytes: u64, reach_bytes: u64) -> Self {
        self.share_with_reserve(name, limit_bytes, reach_bytes, 0)
    }

    /// Like [`Budget::share`], but the share's first `reserve_bytes` may fill this budget to its limit.
    #[must_use]
    pub fn share_with_reserve(
        &self,
        name: &str,
        limit_bytes: u64,
        reach_bytes: u64,
        reserve_bytes: u64,
    ) -> Self {
        let parent = Some(self.clone());
        let share = Self::level(name, limit_bytes, parent, reach_bytes, reserve_bytes);
        let mut shares = self.0.shares.lock().whole();
        shares.retain(|share| share.strong_count() > 0);
        shares.push(Arc::downgrade(&share.0));
        drop(shares);
        share
    }

    fn level(
        name: &str,
        limit_bytes: u64,
        parent: Option<Self>,
        reach_bytes: u64,
        reserve_bytes: u64,
    ) -> Self {
        let zero = AtomicU64::default;
        Self(Arc::new(Level {
            name: name.into(),
            limit_bytes,
            used_bytes: zero(),
            peak_bytes: zero(),
            refused_total: zero(),
            parent,
            reach_bytes,
            reserve_bytes,
            shares: Mutex::default(),
            pressure: Gauge::default(),
        }))
    }

    /// Returns an empty account of this budget, for memory that is counted because it cannot be refused.
    #[must_use]
    pub fn account(&self) -> Account {
        Account::new(self.clone())
    }

    /// Lists this budget's shares in the order they were created.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        let shares = self.0.shares.lock().whole();
        let alive = shares.iter().filter_map(Weak::upgrade);
        alive.map(|share| Self(share).shown()).collect()
    }

    /// Returns this budget's own usage.
    #[must_use]
    pub fn shown(&self) -> Share {
        Share {
            name: self.0.name.clone(),
            used_bytes: self.used_bytes(),
            peak_bytes: self.peak_bytes(),
            limit_bytes: self.limit_bytes(),
            refused_total: self.0.refused_total.load(Ordering::Relaxed),
        }
    }

    /// Returns the memory pressure of the whole process, as of the last [`Budget::observe`].
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        self.root().0.pressure.get()
    }

    /// Compares the process's usage, minus `passing_bytes` that are freed within seconds, with `levels`; returns the
    /// pressure before and after.
    ///
    /// Call it a few times a second from one thread: a level that is reached holds at least until the next call.
    pub fn observe(&self, levels: &PressureLevels, passing_bytes: u64) -> (Pressure, Pressure) {
        let root = self.root();
        let used_bytes = root.used_bytes().saturating_sub(passing_bytes);
        root.0
            .pressure
            .observe(levels, used_bytes, root.limit_bytes())
    }

    fn root(&self) -> &Self {
        self.0.parent.as_ref().map_or(self, Self::root)
    }

    /// Takes `bytes` from this budget and all its parents.
    ///
    /// # Errors
    /// Fails, taking nothing, when a level would exceed its limit.
    pub fn lease(&self, bytes: u64) -> Result<Lease, OverBudget> {
        self.charge(bytes)?;
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

    /// Returns the peak of the bytes in use.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.0.peak_bytes.load(Ordering::Relaxed)
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    /// Returns `percent` of the limit; unlimited for a budget without a limit.
    #[must_use]
    pub fn percent(&self, percent: u8) -> u64 {
        match self.0.limit_bytes {
            u64::MAX => u64::MAX,
            limit => limit / 100 * u64::from(percent),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    fn charge(&self, bytes: u64) -> Result<(), OverBudget> {
        let taken = self.charge_below(bytes, u64::MAX);
        if taken.is_err() {
            self.count_refusal();
        }
        taken
    }

    /// Takes `bytes` unless that fills this level beyond `reach_bytes`.
    fn charge_below(&self, bytes: u64, reach_bytes: u64) -> Result<(), OverBudget> {
        let level = &*self.0;
        let limit_bytes = level.limit_bytes.min(reach_bytes);
        let update = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        let before = level
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .map_err(|used_bytes| OverBudget {
                budget: level.name.clone(),
                limit_bytes,
                used_bytes,
                asked_bytes: bytes,
            })?;
        let reach_bytes = match before + bytes <= level.reserve_bytes {
            true => u64::MAX,
            false => level.reach_bytes,
        };
        if let Some(parent) = &level.parent
            && let Err(error) = parent.charge_below(bytes, reach_bytes)
        {
            level.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(error);
        }
        level.note_peak(before + bytes);
        Ok(())
    }

    /// Counts bytes that already exist, beyond the limit if necessary.
    fn count(&self, bytes: u64) {
        let before = self.0.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.note_peak(before.saturating_add(bytes));
        if let Some(parent) = &self.0.parent {
            parent.count(bytes);
        }
    }

    fn count_refusal(&self) {
        self.0.refused_total.fetch_add(1, Ordering::Relaxed);
        if let Some(parent) = &self.0.parent {
            parent.count_refusal();
        }
    }

    fn give_back(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.0.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.0.parent {
            parent.give_back(bytes);
        }
    }
}

impl Level {
    fn note_peak(&self, used_bytes: u64) {
        // Hardly any lease is a peak, and a load disturbs no other thread.
        if used_bytes > self.peak_bytes.load(Ordering::Relaxed) {
            self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed);
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
        self.budget.charge(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes `bytes` more, and `ahead` besides if there is room; returns how many it took.
    ///
    /// # Errors
    /// Fails, keeping what it has, when a level would exceed its limit.
    pub fn grow_ahead(&mut self, bytes: u64, ahead: u64) -> Result<u64, OverBudget> {
        let most = bytes.saturating_add(ahead);
        if self.budget.charge_below(most, u64::MAX).is_ok() {
            self.bytes += most;
            return Ok(most);
        }
        self.grow(bytes)?;
        Ok(bytes)
    }

    /// Gives back `bytes`, or all bytes if there are fewer.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.give_back(bytes);
    }

    /// Changes the lease to `bytes`, taking or giving back the difference.
    ///
    /// # Errors
    /// Fails, keeping what it has, when a level would exceed its limit.
    pub fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => Ok(()),
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
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
        let mut lease = query.lease(10).unwrap();
        assert_eq!(lease.grow_ahead(20, 30).unwrap(), 50);
        assert_eq!(lease.grow_ahead(20, 30).unwrap(), 20);
        assert_eq!((lease.bytes(), query.shown().refused_total), (80, 1));
        assert_eq!(lease.grow_ahead(1, 1).unwrap_err().asked_bytes, 1);
        assert_eq!((lease.bytes(), query.used_bytes()), (80, 80));
        drop(lease);
        assert_eq!(
            error.to_string(),
            "memory budget of process exceeded: 60 of 100 bytes in use, 50 more needed"
        );
    }

    /// The share with the smaller reach is refused first, though neither is at its own limit.
    #[test]
    fn a_share_fills_its_budget_only_as_far_as_it_reaches() {
        let process = Budget::new("process", 100);
        let queries = process.share("queries", 100, 70);
        let scrapes = process.share("scrapes", u64::MAX, 90);
        let held = process.lease(60).unwrap();
        let error = queries.child("the query", 50).lease(20).unwrap_err();
        assert_eq!(
            (&*error.budget, error.limit_bytes, error.used_bytes),
            ("process", 70, 60)
        );
        let mut lease = scrapes.lease(20).unwrap();
        assert!(lease.resize(31).is_err() && lease.bytes() == 20);
        lease.resize(5).unwrap();
        let shares = process.shares();
        let shown: Vec<_> = shares
            .iter()
            .map(|share| {
                (
                    &*share.name,
                    share.used_bytes,
                    share.peak_bytes,
                    share.refused_total,
                )
            })
            .collect();
        assert_eq!(shown, [("queries", 0, 0, 1), ("scrapes", 5, 20, 1)]);
        assert_eq!(process.shown().refused_total, 2);
        // Small queries are answered until there is nothing left.
        let small = process.share_with_reserve("small", 100, 70, 10);
        let mut lease = small.lease(6).unwrap();
        assert!(lease.grow(5).is_err() && lease.grow(4).is_ok());
        drop((queries, held, small, lease));
        assert_eq!(process.shares().len(), 1);
        assert_eq!(process.used_bytes(), 5);
    }
}
