//! Both exporters in a container: processes, control groups, devices and a root of their own, with the host's root below
//! a directory.

use super::{
    differential::{self, Expected, compare},
    is_1_5,
    namespaces::{ip, isolated_by},
    program, started,
};
use crate::support::{Running, binary, until};
use narthex_testkit::{corpora, http, process::Spawn, tool};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command},
};

/// The container's root. What is mounted there must never be removed, so it is no temporary directory.
const ROOT: &str = "/mnt";

/// Makes the root of a container that can run the programs named by the arguments, with a procfs and a sysfs of its own.
const MAKE_ROOT: &str = r#"
    root=$1
    shift
    mount -t tmpfs tmpfs "$root"
    mkdir "$root/host" "$root/proc" "$root/sys"
    mount --rbind / "$root/host"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    for needed in /usr /etc /dev /bin /lib /lib64 "$@"; do
        if [ -L "$needed" ]; then
            cp -P "$needed" "$root$needed"
        elif [ -d "$needed" ]; then
            mkdir -p "$root$needed"
            mount --bind "$needed" "$root$needed"
        fi
    done
"#;

/// What containers are given: everything of the host, or its processes and files.
const MOUNTS: [&[&str]; 2] = [
    &[
        "--path.rootfs=/host",
        "--path.procfs=/host/proc",
        "--path.sysfs=/host/sys",
        "--path.udev.data=/host/run/udev/data",
    ],
    &["--path.rootfs=/host", "--path.procfs=/host/proc"],
];

/// A container; its processes end with it.
struct Container {
    first_process: Child,
}

impl Container {
    /// Makes a container in this thread's namespaces.
    fn new() -> Self {
        // SAFETY: only processes that this thread starts are in the namespace.
        unsafe { unshare_unsafe(UnshareFlags::NEWPID) }.unwrap();
        // Others can only be started while the first one is there.
        let sleep = Command::new("sleep").arg("infinity").spawn();
        let container = Self {
            first_process: sleep.unwrap(),
        };
        ip("link set lo up\n");
        let programs = [binary(), program()].map(|path| absolute(path.as_ref()));
        let directories = programs.iter().map(|path| path.parent().unwrap());
        let made = Command::new("sh")
            .args(["-euc", MAKE_ROOT, "sh", ROOT])
            .args(directories)
            .status();
        assert!(made.unwrap().success());
        container
    }

    /// Starts a program in it.
    fn start(&self, program: &Path, arguments: &[&str], flags: &[&str]) -> Running {
        let spawn = Spawn::new("chroot").arg(ROOT).arg(program);
        started(spawn.args(arguments), flags)
    }

    fn ours(&self, flags: &[&str]) -> Running {
        self.start(&absolute(binary().as_ref()), &["node-exporter"], flags)
    }

    fn real(&self, flags: &[&str]) -> Running {
        self.start(&absolute(program().as_ref()), &[], flags)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let ended = self.first_process.kill();
        ended.and_then(|()| self.first_process.wait()).ok();
    }
}

/// Returns the path of a program from the root.
fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap()
}

fn contained(name: &'static str, test: impl FnOnce(&Container) + Send + 'static) {
    let namespaces =
        UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWCGROUP | UnshareFlags::NEWUTS;
    isolated_by(namespaces, &[&["--make-rprivate", "/"]], name, || {
        test(&Container::new());
    });
}

#[test]
fn a_container_with_its_hosts_mounts_says_the_same() {
    contained("a container with its host's mounts", |container| {
        // Mounts that nobody may enter are reported differently by 1.5.
        let excluded = "--collector.filesystem.mount-points-exclude=";
        let others = differential::FLAGS.into_iter();
        let mut flags: Vec<&str> = others.filter(|flag| !flag.starts_with(excluded)).collect();
        flags.push("--collector.filesystem.mount-points-exclude=^/.");
        // Neither a user's processes nor devices of a bus are in a container.
        flags.extend(["--collector.processes", "--collector.interrupts"]);
        let expected = Expected {
            is_1_5: is_1_5(),
            has_own_help: true,
        };
        for mounts in MOUNTS {
            let flags = [&flags[..], mounts].concat();
            let (ours, real) = (container.ours(&flags), container.real(&flags));
            compare(&ours, &real, &expected, 150);
            let page = http::get(&format!("{}/metrics", ours.url)).unwrap().text();
            let root = page.lines().find(|line| {
                line.starts_with("node_filesystem_size_bytes") && line.contains("mountpoint=\"/\"")
            });
            assert!(root.is_some(), "{page}");
            // The host's processes, of which the container has its own only.
            let processes = ours.metric("node_processes_pids").unwrap();
            let hosts = fs::read_dir("/proc").unwrap().filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().parse::<u32>().is_ok()
            });
            assert!(processes > hosts.count() as f64 / 2.0, "{processes}");
        }
    });
}

/// A control group of version 1 with a CPU quota.
struct Group {
    dir: PathBuf,
}

impl Group {
    /// Makes a group that may use a fifth of a CPU.
    fn new() -> io::Result<Self> {
        let name = format!("narthex-test-{}", std::process::id());
        let group = Self {
            dir: Path::new("/sys/fs/cgroup/cpu").join(name),
        };
        fs::create_dir(&group.dir)?;
        fs::write(group.dir.join("cpu.cfs_period_us"), "5000")?;
        fs::write(group.dir.join("cpu.cfs_quota_us"), "1000")?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that were killed leave it somewhat later.
        until("the empty group", || fs::remove_dir(&self.dir).ok());
    }
}

/// A program with a pool of threads that was sized without looking at the quota.
const POOL: &str = "
import threading
for _ in range(24):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
while True:
    pass
";

/// What the landing page says about control groups and processes is about the host's.
#[test]
fn a_container_advises_on_quotas_of_its_host() {
    let name = "advice in a container on a quota of its host";
    // The group is made by the host.
    let Ok(group) = Group::new() else {
        return corpora::report(name, 0, 1);
    };
    contained(name, move |container| {
        let spawn = format!(
            "echo $$ > {}/cgroup.procs; exec {} -c \"$0\"",
            group.dir.display(),
            tool("python3", "python3").display()
        );
        let mut pool = Command::new("sh")
            .args(["-c", &spawn, POOL])
            .spawn()
            .unwrap();
        let few = ["--collector.disable-defaults", "--collector.uname"];
        let ours = container.ours(&[&few[..], MOUNTS[0]].concat());
        let name = group.dir.file_name().unwrap().to_str().unwrap();
        let throttled =
            format!("warning cgroup_throttled: /cpu/{name} was stopped by its CPU quota");
        let threads = "threads_over_quota: process ";
        let said = until("the advice", || {
            let page = http::get(&ours.url).unwrap().text();
            let is_said = page.contains(&throttled) && page.contains(threads);
            is_said.then_some(page)
        });
        // By the number that the host knows it by.
        let line = format!("{threads}{} (python3", pool.id());
        assert!(said.contains(&line), "{line} in {said}");
        pool.kill().unwrap();
        pool.wait().unwrap();
    });
}
