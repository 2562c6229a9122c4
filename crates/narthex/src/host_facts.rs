//! What rules need and no page of node_exporter has: limits of the kernel, throttled control groups, and processes with
//! many threads under a CPU quota.
//!
//! **Invariant:** what cannot be read is left out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use narthex_host::HostConfig;
use narthex_model::LabelSet;

use crate::cgroup;

/// Groups this deep are a container's or a service's; below them are a program's own.
const DEPTH: usize = 4;
/// Fewer threads are no pool that was sized by the machine.
const MANY_THREADS: u64 = 16;

/// Where a host's facts are, and what every series of that host has.
pub(crate) struct HostFacts {
    procfs: PathBuf,
    cgroups: PathBuf,
    /// The labels of the host as a target; none on the page of an exporter.
    labels: LabelSet,
}

impl HostFacts {
    /// Returns the facts of the host that collectors with these settings read.
    pub(crate) fn new(host: &HostConfig, labels: LabelSet) -> Self {
        Self {
            procfs: host.procfs.clone(),
            cgroups: host.sysfs.join("fs/cgroup"),
            labels,
        }
    }

    /// Returns the facts in the text format.
    pub(crate) fn page(&self) -> String {
        let Self {
            procfs,
            cgroups,
            labels,
        } = self;
        let mut page = Page {
            text: String::new(),
            labels,
        };
        limits(procfs, &mut page);
        groups(cgroups, cgroups, DEPTH, &mut page);
        processes(procfs, cgroups, &mut page);
        page.text
    }
}

/// Series being written.
struct Page<'a> {
    text: String,
    labels: &'a LabelSet,
}

impl Page<'_> {
    fn add(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let host = self
            .labels
            .iter()
            .map(|label| (label.name(), label.value()));
        let all = labels.iter().copied().chain(host);
        let all: Vec<String> = all
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let _ = match all.is_empty() {
            true => writeln!(self.text, "{name} {value}"),
            false => writeln!(self.text, "{name}{{{}}} {value}", all.join(",")),
        };
    }
}

/// Adds limits of the kernel.
fn limits(procfs: &Path, page: &mut Page<'_>) {
    let number = |name: &str| {
        let text = fs::read_to_string(procfs.join(name)).ok()?;
        let numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        numbers.collect::<Result<Vec<_>, _>>().ok()
    };
    if let Some([first, last]) = number("sys/net/ipv4/ip_local_port_range").as_deref() {
        let ports = (last + 1).saturating_sub(*first);
        page.add("narthex_host_local_ports", &[], ports);
    }
    if let Some([buckets]) = number("sys/net/ipv4/tcp_max_tw_buckets").as_deref() {
        page.add("narthex_host_tcp_max_tw_buckets", &[], buckets);
    }
}

/// Adds the groups from `at` down that have a quota.
fn groups(root: &Path, at: &Path, depth: usize, page: &mut Page<'_>) {
    if let Some((periods, throttled)) = throttling(at) {
        let name = format!("/{}", at.strip_prefix(root).unwrap_or(at).display());
        for (family, value) in [("periods", periods), ("throttled_periods", throttled)] {
            let family = format!("narthex_host_cgroup_{family}_total");
            page.add(&family, &[("cgroup", &name)], value);
        }
    }
    let Some(below) = depth.checked_sub(1) else {
        return;
    };
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in entries.filter(is_dir) {
        groups(root, &entry.path(), below, page);
    }
}

/// Returns how many periods of its quota a group had, and in how many it was stopped; `None` if it has no quota.
fn throttling(group: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(group.join("cpu.stat")).ok()?;
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(field, _)| *field == name)?.1.parse().ok()
    };
    let periods = field("nr_periods").filter(|periods| *periods > 0)?;
    Some((periods, field("nr_throttled")?))
}

/// Adds the processes that have many threads and a quota.
fn processes(procfs: &Path, cgroups: &Path, page: &mut Page<'_>) {
    let entries = fs::read_dir(procfs).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Some((threads, comm, cpus)) = process(&entry.path(), cgroups) else {
            continue;
        };
        let labels = [("comm", &*comm), ("pid", &*name)];
        page.add("narthex_host_process_threads", &labels, threads);
        page.add("narthex_host_process_quota_cpus", &labels, cpus);
    }
}

fn process(dir: &Path, cgroups: &Path) -> Option<(u64, String, f64)> {
    let status = fs::read_to_string(dir.join("status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let threads = field("Threads:")?.trim().parse().ok()?;
    if threads <= MANY_THREADS {
        return None;
    }
    let group = fs::read_to_string(dir.join("cgroup")).ok()?;
    let cpus = cgroup::quota(cgroups, &group)?;
    Some((threads, field("Name:")?.trim().to_owned(), cpus))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;

    #[test]
    fn limits_groups_and_processes() {
        let dir = TempDir::new("doctor-facts");
        dir.write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
        dir.write("proc/sys/net/ipv4/tcp_max_tw_buckets", "8192\n");
        let group = "0::/system.slice/web.service\n";
        for (pid, threads, group) in [("7", 64, group), ("8", 3, group), ("9", 90, "0::/\n")] {
            let status = format!("Name:\tser\"ver\nThreads:\t{threads}\n");
            dir.write(format!("proc/{pid}/status"), &status);
            dir.write(format!("proc/{pid}/cgroup"), group);
        }
        dir.write("proc/self/status", "Name:\tself\nThreads:\t99\n");
        let web = "cgroup/system.slice/web.service";
        dir.write(format!("{web}/cpu.max"), "200000 100000\n");
        let stat = "usage_usec 5\nnr_periods 1000\nnr_throttled 310\n";
        dir.write(format!("{web}/cpu.stat"), stat);
        dir.write(
            "cgroup/cpu.stat",
            "usage_usec 5\nnr_periods 0\nnr_throttled 0\n",
        );
        let mut facts = HostFacts {
            procfs: dir.join("proc"),
            cgroups: dir.join("cgroup"),
            labels: LabelSet::empty(),
        };
        let alone = facts.page();
        facts.labels = LabelSet::new([("instance", "web1"), ("job", "node")]);
        let among = facts.page();
        assert_eq!(
            among.lines().last(),
            Some(
                r#"narthex_host_process_quota_cpus{comm="ser\"ver",pid="7",instance="web1",job="node"} 2"#
            )
        );
        assert_eq!(
            alone.lines().collect::<Vec<_>>(),
            [
                "narthex_host_local_ports 28232",
                "narthex_host_tcp_max_tw_buckets 8192",
                r#"narthex_host_cgroup_periods_total{cgroup="/system.slice/web.service"} 1000"#,
                r#"narthex_host_cgroup_throttled_periods_total{cgroup="/system.slice/web.service"} 310"#,
                r#"narthex_host_process_threads{comm="ser\"ver",pid="7"} 64"#,
                r#"narthex_host_process_quota_cpus{comm="ser\"ver",pid="7"} 2"#,
            ]
        );
    }
}
