//! A control group with a memory limit, of version 1 or 2, if the test may create one.
//!
//! **Invariant:** the group is a child of the test's own, and is removed after its last process has ended.

use crate::support;
use narthex_testkit::process::Spawn;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// A control group for one server.
pub(crate) struct Group {
    dir: PathBuf,
    /// File names of this version: limit, number of killed processes, peak bytes.
    files: [&'static str; 3],
}

const VERSION_1: [&str; 3] = [
    "memory.limit_in_bytes",
    "memory.oom_control",
    "memory.max_usage_in_bytes",
];
const VERSION_2: [&str; 3] = ["memory.max", "memory.events", "memory.peak"];

impl Group {
    /// Creates a group limited to `limit_bytes`.
    ///
    /// # Errors
    /// Fails without permission.
    pub(crate) fn create(limit_bytes: u64) -> io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let path_of = |controller: &str| {
            let lines = groups.lines().filter_map(|line| line.split_once(':'));
            let mut lines = lines.filter_map(|(_, rest)| rest.split_once(':'));
            let named = |names: &str| names.split(',').any(|name| name == controller);
            let path = lines.find(|(names, _)| named(names))?.1;
            Some(path.trim_start_matches('/').to_owned())
        };
        let root = Path::new("/sys/fs/cgroup");
        match path_of("memory") {
            Some(path) => Self::within(&root.join("memory").join(path), VERSION_1, limit_bytes),
            None => {
                let own = root.join(path_of("").unwrap_or_default());
                // Except for the root, a group with processes cannot enable controllers for its children.
                fs::write(own.join("cgroup.subtree_control"), "+memory")?;
                Self::within(&own, VERSION_2, limit_bytes)
            }
        }
    }

    fn within(parent: &Path, files: [&'static str; 3], limit_bytes: u64) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("narthex-test-{}-{number}", std::process::id()));
        fs::create_dir(&dir)?;
        let group = Self { dir, files };
        fs::write(group.dir.join(files[0]), limit_bytes.to_string())?;
        Ok(group)
    }

    /// Returns our server, to be started within the group.
    pub(crate) fn server(&self) -> Spawn {
        // The shell joins the group and execs the server, so all of its memory is in the group.
        Spawn::new("sh")
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.dir.join("cgroup.procs"))
            .arg(support::binary())
    }

    /// Returns how many of its processes the kernel killed for lack of memory.
    pub(crate) fn killed(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join(self.files[1])).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.unwrap().trim().parse().unwrap()
    }

    /// Returns the group's peak memory in bytes, page cache included.
    pub(crate) fn most_bytes(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join(self.files[2])).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that is not empty yet stays, which is harmless.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// What the attacks read of a group, in files as the kernel of either version has them.
#[test]
fn both_versions_of_groups_are_read() {
    let killed = "low 0\nhigh 12\nmax 3\noom 1\noom_kill 2\noom_group_kill 9\n";
    let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
    for (files, events) in [(VERSION_1, control), (VERSION_2, killed)] {
        let parent = narthex_testkit::TempDir::new("groups");
        let group = Group::within(parent.path(), files, 4096).unwrap();
        let limit = fs::read_to_string(group.dir.join(files[0])).unwrap();
        assert_eq!(limit, "4096");
        fs::write(group.dir.join(files[1]), events).unwrap();
        fs::write(group.dir.join(files[2]), "123456\n").unwrap();
        assert_eq!((group.killed(), group.most_bytes()), (2, 123_456));
    }
}
