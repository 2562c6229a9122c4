//! Counters of `perf_event_open(2)` over all processes of one CPU.
//!
//! Invariant: the only unsafe code is the call itself; what it returns is owned at once.

use std::ffi::c_int;

use rustix::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use rustix::io::{Errno, read};

use crate::cost;

/// What is counted: `type` and `config` of `struct perf_event_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

/// `struct perf_event_attr` of linux/perf_event.h in its first version, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

/// Counters of one CPU that one call reads. The kernel counts all of them or none: only those that need no register of
/// the CPU may share a group.
#[derive(Debug)]
pub(crate) struct Group {
    leader: OwnedFd,
    /// Kept open: a closed counter leaves the group.
    members: Vec<OwnedFd>,
}

impl Group {
    /// Opens a group of one event, which counts from now on.
    pub(crate) fn open(event: Event, cpu: u32) -> Result<Self, Errno> {
        let leader = open(event, cpu, -1)?;
        Ok(Self {
            leader,
            members: Vec::new(),
        })
    }

    /// Adds an event of the same CPU.
    pub(crate) fn join(&mut self, event: Event, cpu: u32) -> Result<(), Errno> {
        self.members
            .push(open(event, cpu, self.leader.as_raw_fd())?);
        Ok(())
    }

    /// Returns the counts in the order in which events were added; none if the CPU went offline.
    pub(crate) fn counts<'b>(
        &self,
        buf: &'b mut Vec<u8>,
    ) -> Result<impl Iterator<Item = u64> + 'b, Errno> {
        const WORD: usize = 8;
        // Their number comes first.
        buf.resize((2 + self.members.len()) * WORD, 0);
        let len = read(&self.leader, &mut *buf)?;
        cost::count(len);
        let words = buf.get(..len).unwrap_or_default().chunks_exact(WORD);
        let words = words.filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
        Ok(words.skip(1))
    }
}

fn open(event: Event, cpu: u32, group: c_int) -> Result<OwnedFd, Errno> {
    const READ_GROUP: u64 = 1 << 3;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    const ALL_PROCESSES: c_int = -1;
    let attributes = Attributes {
        kind: event.kind,
        size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
        config: event.config,
        read_format: READ_GROUP,
        flags: EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    let cpu = c_int::try_from(cpu).map_err(|_| Errno::INVAL)?;
    cost::count(0);
    // SAFETY: the struct has the layout and the size that it says, and lives through the call, which only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            ALL_PROCESSES,
            cpu,
            group,
            CLOSE_ON_EXEC,
        )
    };
    match c_int::try_from(fd) {
        // SAFETY: a descriptor that was just opened belongs to nobody else.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_is_as_large_as_the_kernels_first() {
        assert_eq!(size_of::<Attributes>(), 64);
    }
}
