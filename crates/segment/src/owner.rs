//! Whether the process that writes a segment lives.
//!
//! **Invariant:** who is called dead writes no more: the verdict is made before the last copy.

use crate::layout::{CLOSED, Header, Marks};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

/// Facts about this machine that identify processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    boot_id: Option<[u8; 16]>,
    pid_namespace: Option<u64>,
}

impl Machine {
    /// Reads them from `/proc`; what is not known there is not asked about writers.
    pub(crate) fn read() -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = fs::metadata("/proc/self/ns/pid");
        Self {
            boot_id: boot_id.ok().and_then(|text| parse_uuid(text.trim())),
            pid_namespace: namespace.ok().map(|metadata| metadata.ino()),
        }
    }

    /// Reports whether the writer of a segment has ended.
    ///
    /// A writer holds a lock until it ends. Its forked children hold it too, so the process itself is looked for, where
    /// its number means the same as here.
    pub(crate) fn is_dead(&self, header: &Header, marks: &Marks, file: &File) -> bool {
        if marks.state == CLOSED {
            return true;
        }
        if self.boot_id.is_some_and(|id| id != header.boot_id) {
            return true;
        }
        if file.try_lock_shared().is_ok() {
            // Fails only if the lock is gone, which is what is wanted.
            let _ = file.unlock();
            return true;
        }
        self.pid_namespace == Some(header.pid_namespace)
            && start_of(header.pid) != Some(header.pid_start)
    }
}

/// Returns when a process started, in clock ticks since boot; `None` if there is none of that number.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything. State is the third field, the start the 22nd.
    let rest = stat.get(stat.rfind(')')? + 1..)?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    // A zombie's memory is gone.
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hex: String = text.chars().filter(|char| *char != '-').collect();
    u128::from_str_radix(&hex, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_start() {
        assert!(start_of(std::process::id()).is_some_and(|start| start > 0));
        assert_eq!(start_of(u32::MAX), None);
        let machine = Machine::read();
        assert!(machine.boot_id.is_some() && machine.pid_namespace.is_some());
        assert_eq!(
            parse_uuid("00000000-0000-0000-0000-00000000010f").map(|id| (id[14], id[15])),
            Some((1, 15))
        );
    }
}
