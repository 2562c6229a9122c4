//! How many bytes a round may still read: of all segments, and of those of one user.
//!
//! **Invariant:** whose bytes they are is what the kernel says of the open file, not what the segment says.

use crate::{PoolOptions, SegmentError};
use std::collections::{HashMap, HashSet};

/// What is left of a pool's limits.
#[derive(Debug)]
pub(crate) struct Quota {
    left: u64,
    user_max: u64,
    users: HashMap<u32, u64>,
    /// Users who have a segment that their limit does not admit.
    exceeded: HashSet<u32>,
}

impl Quota {
    /// Returns all that the options allow.
    pub(crate) fn new(options: &PoolOptions) -> Self {
        Self {
            left: options.max_bytes,
            user_max: options.max_bytes_per_user.unwrap_or(u64::MAX),
            users: HashMap::new(),
            exceeded: HashSet::new(),
        }
    }

    /// Returns how many bytes another segment of a user may have.
    pub(crate) fn left(&self, uid: u32) -> u64 {
        self.left.min(self.of_user(uid))
    }

    fn of_user(&self, uid: u32) -> u64 {
        let used = self.users.get(&uid).copied().unwrap_or_default();
        self.user_max.saturating_sub(used)
    }

    /// Counts a segment of a user that is read.
    pub(crate) fn charge(&mut self, uid: u32, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        let used = self.users.entry(uid).or_default();
        *used = used.saturating_add(bytes);
    }

    /// Says which limit a user's segment did not keep, if that is what is wrong with it.
    pub(crate) fn explain(&mut self, uid: u32, error: SegmentError) -> SegmentError {
        if !matches!(error, SegmentError::TooMany { .. }) || self.of_user(uid) > self.left {
            return error;
        }
        self.exceeded.insert(uid);
        let limit = self.user_max;
        SegmentError::User { uid, limit }
    }

    /// Returns how many users exceed their limit.
    pub(crate) fn exceeded(&self) -> usize {
        self.exceeded.len()
    }
}
