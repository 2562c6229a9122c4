//! Limits that the container grants: CPU quota and memory.
//!
//! **Invariant:** an unreadable or absent limit means no limit; no limit exceeds what the machine has.

use std::{fs, path::Path};

/// CPU and memory that this process may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resources {
    /// Number of CPUs, a fraction under a quota.
    pub(crate) cpus: f64,
    /// Memory in bytes.
    pub(crate) memory_bytes: u64,
}

impl Resources {
    /// Reads the limits of this process' control group and of the machine.
    pub(crate) fn detect() -> Self {
        let machine_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let machine_bytes = total_memory(&meminfo).unwrap_or(u64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a machine has few CPUs")]
        let machine_cpus = machine_cpus as f64;
        Self {
            cpus: quota(Path::new("/sys/fs/cgroup"), &group)
                .map_or(machine_cpus, |cpus| cpus.min(machine_cpus)),
            memory_bytes: memory(Path::new("/sys/fs/cgroup"), &group)
                .map_or(machine_bytes, |bytes| bytes.min(machine_bytes)),
        }
    }

    /// Returns how many threads can run at once, at least one.
    pub(crate) fn threads(self) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let threads = self.cpus.ceil() as usize;
        threads.max(1)
    }
}

/// Returns the tightest CPU quota from the process' group up to the root, version 2 first.
fn quota(root: &Path, group: &str) -> Option<f64> {
    let of_v2 = tightest(root, group_path(group, "")?, "cpu.max", |text| {
        let (quota, period) = text.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    of_v2.or_else(|| {
        let dir = root
            .join("cpu")
            .join(group_path(group, "cpu")?.trim_start_matches('/'));
        let read = |name: &str| {
            fs::read_to_string(dir.join(name))
                .ok()?
                .trim()
                .parse::<f64>()
                .ok()
        };
        let quota = read("cpu.cfs_quota_us").filter(|quota| *quota > 0.0)?;
        Some(quota / read("cpu.cfs_period_us")?)
    })
}

/// Returns the tightest memory limit from the process' group up to the root, version 2 first.
fn memory(root: &Path, group: &str) -> Option<u64> {
    let size = |text: &str| text.trim().parse::<f64>().ok();
    let of_v2 = tightest(root, group_path(group, "")?, "memory.max", size);
    let bytes = of_v2.or_else(|| {
        // In version 1 a group's parents limit it too.
        let root = root.join("memory");
        let group = group_path(group, "memory")?;
        tightest(&root, group, "memory.limit_in_bytes", size)
    })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size in bytes"
    )]
    Some(bytes as u64)
}

fn tightest(
    root: &Path,
    group: &str,
    file: &str,
    parse: impl Fn(&str) -> Option<f64>,
) -> Option<f64> {
    let mut dir = root.join(group.trim_start_matches('/'));
    let mut found: Option<f64> = None;
    loop {
        if let Some(limit) = fs::read_to_string(dir.join(file))
            .ok()
            .as_deref()
            .and_then(&parse)
        {
            found = Some(found.map_or(limit, |other| other.min(limit)));
        }
        if dir == root || !dir.pop() {
            return found;
        }
    }
}

/// Returns the path of the process' group for a controller; the empty name is version 2's single hierarchy.
fn group_path<'a>(group: &'a str, controller: &str) -> Option<&'a str> {
    let path = group.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let named = controllers.split(',').any(|name| name == controller);
        (named || (controller.is_empty() && controllers.is_empty())).then_some(path)
    });
    path.or(Some("/"))
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let root = narthex_testkit::TempDir::new("cgroup");
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.path().join("a/cpu.max"), "150000 100000\n").unwrap();
        fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(inner.join("memory.max"), "1048576\n").unwrap();
        fs::write(root.path().join("a/memory.max"), "max\n").unwrap();
        assert_eq!(quota(root.path(), "0::/a/b\n"), Some(1.5));
        assert_eq!(memory(root.path(), "0::/a/b\n"), Some(1 << 20));
        assert_eq!(memory(root.path(), "0::/\n"), None);
    }

    #[test]
    fn version_1_is_read_too() {
        let root = narthex_testkit::TempDir::new("cgroup1");
        let (cpu, memory_dir) = (root.path().join("cpu/x"), root.path().join("memory/x"));
        fs::create_dir_all(&cpu).unwrap();
        fs::create_dir_all(&memory_dir).unwrap();
        fs::write(cpu.join("cpu.cfs_quota_us"), "50000\n").unwrap();
        fs::write(cpu.join("cpu.cfs_period_us"), "100000\n").unwrap();
        fs::write(memory_dir.join("memory.limit_in_bytes"), "4096\n").unwrap();
        let inner = memory_dir.join("y");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let nested = memory(root.path(), "4:memory:/x/y\n");
        assert_eq!(nested, Some(4096));
        let group = "4:memory:/x\n3:cpu,cpuacct:/x\n";
        assert_eq!(quota(root.path(), group), Some(0.5));
        assert_eq!(memory(root.path(), group), Some(4096));
        assert_eq!(
            Resources {
                cpus: 0.5,
                memory_bytes: 0
            }
            .threads(),
            1
        );
    }

    #[test]
    fn the_machine_is_the_upper_bound() {
        let resources = Resources::detect();
        assert!(
            resources.cpus > 0.0 && resources.memory_bytes > 1 << 20,
            "{resources:?}"
        );
        assert_eq!(
            total_memory("MemTotal:       24000 kB\n"),
            Some(24_000 << 10)
        );
    }
}
