//! The node of the fourth incident, and what was done about it.
//!
//! **Invariant:** devices are added in namespaces that end with this program; the tables of a load balancer are shown in a
//! copy of procfs, because few kernels have one.

use crate::harness::{BenchError, WorkDir};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

/// Pairs of devices, as a node with many containers has.
pub(super) const PAIRS: u32 = 200;
/// Backends of its load balancer, ten to a service.
pub(super) const BACKENDS: u32 = 1_000;

/// The node with default flags, then as the incident began, on all CPUs, and what was done, one after the other; each step has
/// its flags and those of the steps before it.
pub(super) const STEPS: [(&str, &str); 5] = [
    ("default flags", ""),
    ("as found", ""),
    ("without ipvs", "--no-collector.ipvs"),
    (
        "without pairs",
        "--collector.netdev.device-exclude=^(veth|peer) --collector.netclass.ignored-devices=^(veth|peer)",
    ),
    ("one thread", "--runtime.gomaxprocs=1"),
];

/// Returns the arguments of a step, the first of which is 0.
pub(super) fn arguments(step: usize, node: &WorkDir) -> String {
    let done = STEPS.iter().take(step + 1).map(|(_, flags)| *flags);
    let mut arguments = format!(
        "--path.procfs={} --collector.netdev.netlink",
        node.path().display()
    );
    for flags in done.filter(|flags| !flags.is_empty()) {
        let _ = write!(arguments, " {flags}");
    }
    // node_exporter takes one thread by default since 1.5.
    if (1..STEPS.len() - 1).contains(&step) {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let _ = write!(arguments, " --runtime.gomaxprocs={cpus}");
    }
    arguments
}

/// Moves this thread, and the programs that it starts, to a node with these devices; returns its procfs.
pub(super) fn enter(base: &Path) -> Result<WorkDir, BenchError> {
    // SAFETY: only this thread's devices and mounts change; no file descriptor table is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }.map_err(|errno| {
        BenchError::io("get devices of our own, which needs root")(errno.into())
    })?;
    // Otherwise sysfs shows the devices of the namespace that it was mounted in.
    run("mount", &["--make-rprivate", "/"], "")?;
    run("mount", &["-t", "sysfs", "sysfs", "/sys"], "")?;
    run("ip", &["-batch", "-"], &devices(PAIRS))?;
    let node = WorkDir::new(base, "procfs")?;
    copy_procfs(node.path()).map_err(BenchError::io("copy procfs"))?;
    let net = node.path().join("net");
    let write = |name: &str, text: &str| fs::write(net.join(name), text);
    write("ip_vs", &backends(BACKENDS)).map_err(BenchError::io("write ip_vs"))?;
    const TOTALS: &str =
        "   Total\n   Conns\n       A        B        C                D                E\n\n";
    write("ip_vs_stats", TOTALS).map_err(BenchError::io("write ip_vs_stats"))?;
    Ok(node)
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<(), BenchError> {
    let what = format!("run {program} {}", arguments.join(" "));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(BenchError::io(what.as_str()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(input.as_bytes())
            .map_err(BenchError::io(what.as_str()))?;
    }
    let status = child.wait().map_err(BenchError::io(what.as_str()))?;
    let failed = || std::io::Error::other(status.to_string());
    status
        .success()
        .then_some(())
        .ok_or_else(|| BenchError::io(what)(failed()))
}

/// Writes the commands for these pairs, all of them up.
fn devices(pairs: u32) -> String {
    let mut batch = String::from("link set lo up\n");
    for at in 0..pairs {
        let _ = writeln!(batch, "link add veth{at} type veth peer name peer{at}");
        let _ = writeln!(batch, "link set veth{at} up\nlink set peer{at} up");
    }
    batch
}

/// Links all of procfs but its processes, and makes a directory of its files about networks.
fn copy_procfs(to: &Path) -> std::io::Result<()> {
    let link = |from: &Path, to: &Path, skip: &dyn Fn(&str) -> bool| {
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            if !skip(&name.to_string_lossy()) {
                symlink(from.join(&name), to.join(&name))?;
            }
        }
        Ok::<_, std::io::Error>(())
    };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit()) && name != "1";
    link("/proc".as_ref(), to, &|name| {
        name == "net" || is_process(name)
    })?;
    let net = to.join("net");
    fs::create_dir(&net)?;
    link("/proc/self/net".as_ref(), &net, &|name| {
        name.starts_with("ip_vs")
    })
}

/// Writes the kernel's table of a load balancer with services of ten backends each.
fn backends(count: u32) -> String {
    let mut table = String::from(
        "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
         -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n",
    );
    for at in 0..count {
        if at % 10 == 0 {
            let _ = writeln!(table, "TCP  0A60{:04X}:0050 rr", at / 10);
        }
        let _ = writeln!(
            table,
            "  -> 0AF4{at:04X}:1F90      Masq    1      {at}          0"
        );
    }
    table
}

#[cfg(test)]
mod tests;
