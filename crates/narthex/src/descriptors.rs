//! The limit of open files and connections.
//!
//! **Invariant:** the limit only rises, and never beyond the hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors assumed without a limit: more than are ever needed.
const UNLIMITED: u64 = 1 << 20;

/// Raises the limit of open files to the hard limit and returns it.
///
/// The low default is for programs that call select(2), which fails beyond 1,024. This one does not call it.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: maximum,
        maximum,
    };
    let before = current.unwrap_or(UNLIMITED);
    let most = maximum.unwrap_or(UNLIMITED);
    if most <= before {
        tracing::info!(limit = before, "Limit of open files.");
        return before;
    }
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => {
            tracing::info!(limit = most, before, "Raised the limit of open files.");
            most
        }
        Err(error) => {
            tracing::warn!(limit = before, %error, "Cannot raise the limit of open files.");
            before
        }
    }
}

/// Returns how many block files may stay open: a quarter, since connections need most.
pub(crate) fn for_blocks(limit: u64) -> usize {
    usize::try_from(limit / 4).map_or(4096, |quarter| quarter.clamp(8, 4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_get_a_share_that_is_neither_nothing_nor_everything() {
        assert_eq!(for_blocks(0), 8);
        assert_eq!(for_blocks(1024), 256);
        assert_eq!(for_blocks(u64::MAX), 4096);
    }
}
