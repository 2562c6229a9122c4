//! Limits that the container grants: CPU quota and memory.
//!
//! **Invariant:** an unreadable or absent limit means no limit; no limit exceeds what the machine has.

use std::{
    fs,
    path::{Component, Path},
};

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
        let machine = Self {
            cpus: machine_cpus,
            memory_bytes: machine_bytes,
        };
        machine.within(Path::new("/sys/fs/cgroup"), &group)
    }

    /// Returns what a control group leaves of the machine.
    fn within(self, root: &Path, group: &str) -> Self {
        Self {
            cpus: quota(root, group).map_or(self.cpus, |cpus| cpus.min(self.cpus)),
            memory_bytes: memory(root, group)
                .map_or(self.memory_bytes, |bytes| bytes.min(self.memory_bytes)),
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
pub(crate) fn quota(root: &Path, group: &str) -> Option<f64> {
    let of_v2 = || {
        tightest(root, group_path(group, ""), |dir| {
            let text = fs::read_to_string(dir.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        })
    };
    let of_v1 = || {
        tightest(&root.join("cpu"), group_path(group, "cpu"), |dir| {
            let quota = number(&dir.join("cpu.cfs_quota_us")).filter(|quota| *quota > 0.0)?;
            Some(quota / number(&dir.join("cpu.cfs_period_us"))?)
        })
    };
    of_v2().or_else(of_v1)
}

/// Returns the tightest memory limit from the process' group up to the root, version 2 first.
fn memory(root: &Path, group: &str) -> Option<u64> {
    let of_v2 = || {
        tightest(root, group_path(group, ""), |dir| {
            // Beyond the high mark the kernel slows the process down to a crawl instead of ending it.
            let max = number(&dir.join("memory.max"));
            let high = number(&dir.join("memory.high"));
            max.into_iter().chain(high).reduce(f64::min)
        })
    };
    let of_v1 = || {
        tightest(&root.join("memory"), group_path(group, "memory"), |dir| {
            number(&dir.join("memory.limit_in_bytes"))
        })
    };
    let bytes = of_v2().or_else(of_v1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size in bytes"
    )]
    Some(bytes as u64)
}

/// Returns the least limit that `read` finds in the group's directory and its parents, which limit it too.
///
/// Within a container the group's path is often the host's, and only the root is there.
fn tightest(root: &Path, group: &str, read: impl Fn(&Path) -> Option<f64>) -> Option<f64> {
    let mut dir = root.to_owned();
    let mut found = read(&dir);
    // A process outside its namespace's root has a path that begins with `..`.
    let names = Path::new(group).components();
    for name in names.filter(|name| matches!(name, Component::Normal(_))) {
        dir.push(name);
        found = found.into_iter().chain(read(&dir)).reduce(f64::min);
    }
    found
}

/// Reads a number; `None` for `max` and for files that are not there.
fn number(path: &Path) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    text.trim().parse().ok()
}

/// Returns the path of the process' group for a controller; the empty name is version 2's single hierarchy.
fn group_path<'a>(group: &'a str, controller: &str) -> &'a str {
    let path = group.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let named = controllers.split(',').any(|name| name == controller);
        (named || (controller.is_empty() && controllers.is_empty())).then_some(path)
    });
    path.unwrap_or("/")
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

    /// A directory with files as the kernel has them: path below the root, content.
    fn tree(files: &[(&str, &str)]) -> narthex_testkit::TempDir {
        let root = narthex_testkit::TempDir::new("cgroup");
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
        root
    }

    /// Version 2: one hierarchy; a pod's slice, its container, and what the container made itself.
    #[test]
    fn in_version_2_the_tightest_limit_on_the_way_up_counts() {
        let root = tree(&[
            ("cgroup.controllers", "cpuset cpu io memory pids"),
            ("memory.stat", "anon 1000\nfile 2000"),
            ("kubepods.slice/cpu.max", "max 100000"),
            ("kubepods.slice/memory.max", "max"),
            ("kubepods.slice/memory.high", "max"),
            ("kubepods.slice/pod/cpu.max", "150000 100000"),
            ("kubepods.slice/pod/memory.max", "4194304"),
            ("kubepods.slice/pod/memory.high", "max"),
            ("kubepods.slice/pod/memory.current", "999999999"),
            ("kubepods.slice/pod/app/cpu.max", "max 100000"),
            ("kubepods.slice/pod/app/memory.max", "8388608"),
            ("kubepods.slice/pod/app/memory.high", "max"),
            ("kubepods.slice/pod/app/memory.stat", "anon 5000000"),
            ("kubepods.slice/pod/small/memory.max", "2097152"),
            ("kubepods.slice/pod/small/memory.high", "1048576"),
            ("kubepods.slice/pod/small/cpu.max", "50000 100000"),
        ]);
        let of = |path: &str| {
            let group = format!("0::{path}\n");
            (memory(root.path(), &group), quota(root.path(), &group))
        };
        assert_eq!(of("/"), (None, None));
        assert_eq!(of("/kubepods.slice"), (None, None), "max is no limit");
        assert_eq!(of("/kubepods.slice/pod"), (Some(4 << 20), Some(1.5)));
        let above = (Some(4 << 20), Some(1.5));
        assert_eq!(of("/kubepods.slice/pod/app"), above, "the parent's");
        let own = (Some(1 << 20), Some(0.5));
        assert_eq!(of("/kubepods.slice/pod/small"), own, "the high mark");
        assert_eq!(of("/kubepods.slice/pod/gone/deep"), above);
        // Outside its namespace, as in a container that another process joined.
        assert_eq!(of("/../../kubepods.slice/pod"), above);
    }

    /// A container sees its own limits at the root, whatever its group is called outside.
    #[test]
    fn in_a_container_the_root_has_the_limits() {
        let v2 = tree(&[("memory.max", "1048576"), ("cpu.max", "200000 100000")]);
        let v1 = tree(&[
            ("memory/memory.limit_in_bytes", "1048576"),
            ("cpu/cpu.cfs_quota_us", "200000"),
            ("cpu/cpu.cfs_period_us", "100000"),
        ]);
        for (root, group) in [
            (&v2, "0::/\n"),
            (&v2, "0::/docker/0a1b2c\n"),
            (
                &v1,
                "5:cpu,cpuacct:/docker/0a1b2c\n4:memory:/docker/0a1b2c\n",
            ),
        ] {
            assert_eq!(memory(root.path(), group), Some(1 << 20), "{group}");
            assert_eq!(quota(root.path(), group), Some(2.0), "{group}");
        }
    }

    /// Version 1: a hierarchy for each controller, at most with an empty one of version 2 beside them.
    #[test]
    fn in_version_1_parents_limit_a_group_too() {
        const UNLIMITED: &str = "9223372036854771712";
        let root = tree(&[
            ("unified/cgroup.procs", "1"),
            ("memory/memory.limit_in_bytes", UNLIMITED),
            ("memory/x/memory.limit_in_bytes", "4096"),
            ("memory/x/memory.usage_in_bytes", "99999"),
            ("memory/x/y/memory.limit_in_bytes", UNLIMITED),
            ("memory/z/memory.limit_in_bytes", UNLIMITED),
            ("cpu/cpu.cfs_quota_us", "-1"),
            ("cpu/cpu.cfs_period_us", "100000"),
            ("cpu/x/cpu.cfs_quota_us", "50000"),
            ("cpu/x/cpu.cfs_period_us", "100000"),
            ("cpu/x/y/cpu.cfs_quota_us", "-1"),
            ("cpu/x/y/cpu.cfs_period_us", "100000"),
        ]);
        let of = |path: &str| {
            let group = format!("4:memory:{path}\n3:cpu,cpuacct:{path}\n0::/init.scope\n");
            (memory(root.path(), &group), quota(root.path(), &group))
        };
        assert_eq!(of("/x"), (Some(4096), Some(0.5)));
        assert_eq!(of("/x/y"), (Some(4096), Some(0.5)));
        let unlimited = UNLIMITED.parse::<f64>().ok().map(|bytes| bytes as u64);
        assert_eq!(of("/z"), (unlimited, None), "more than any machine has");
        let half = Resources {
            cpus: 0.5,
            memory_bytes: 0,
        };
        assert_eq!(half.threads(), 1);
    }

    #[test]
    fn the_machine_is_the_upper_bound() {
        let resources = Resources::detect();
        assert!(
            resources.cpus > 0.0 && resources.memory_bytes > 1 << 20,
            "{resources:?}"
        );
        let root = tree(&[
            ("wide/memory.max", "8589934592"),
            ("wide/cpu.max", "1600000 100000"),
            ("narrow/memory.max", "4096"),
            ("narrow/cpu.max", "100000 100000"),
        ]);
        let machine = Resources {
            cpus: 4.0,
            memory_bytes: 1 << 30,
        };
        let of = |group: &str| machine.within(root.path(), group);
        assert_eq!(of("0::/wide\n"), machine);
        let narrow = Resources {
            cpus: 1.0,
            memory_bytes: 4096,
        };
        assert_eq!(of("0::/narrow\n"), narrow);
        assert_eq!(of("0::/none\n"), machine);
        assert_eq!(
            total_memory("MemTotal:       24000 kB\n"),
            Some(24_000 << 10)
        );
    }
}
