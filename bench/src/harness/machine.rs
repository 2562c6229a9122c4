//! Facts about the machine that a reader needs to judge a result.
//!
//! **Invariant:** nothing identifies the machine or its user.

use crate::record::Machine;
use std::{fs, path::Path};

/// Returns CPU, cores, memory and kernel.
pub(crate) fn facts() -> Machine {
    let memory = field("/proc/meminfo", "MemTotal");
    let kib = memory.split(' ').next().and_then(|kib| kib.parse().ok());
    Machine {
        cpu: field("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(0, usize::from) as u64,
        memory_bytes: kib.unwrap_or(0_u64) * 1024,
        kernel: read("/proc/sys/kernel/osrelease"),
    }
}

/// Returns the build profile of this program: figures of a debug build are only for tests.
pub(crate) fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    }
}

/// Returns whether `path` is on a memory file system, where the kernel counts no written bytes.
pub(crate) fn is_in_memory(path: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    rustix::fs::statfs(path).is_ok_and(|found| matches!(found.f_type, TMPFS | RAMFS))
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn field(path: &str, key: &str) -> String {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(key));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests;
