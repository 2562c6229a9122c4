//! Mounts: labels, filters, errors, and a file system that never answers.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use narthex_host::CollectorKind::{Filesystem, Loadavg};
use narthex_host::{FsStat, HostConfig, HostSource, Statfs};
use rustix::io::Errno;

use crate::support::{Samples, Tree, of_family, samples, series, stale};

/// A `statfs` with answers by path; a path that hangs blocks its caller until released.
#[derive(Default)]
struct Fake {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    errors: BTreeMap<String, Errno>,
    hanging: Vec<String>,
    blocks: u64,
    blocked: usize,
}

#[derive(Clone)]
struct FakeStatfs(Arc<Fake>);

impl Statfs for FakeStatfs {
    fn statfs(&self, path: &CStr) -> Result<FsStat, Errno> {
        let path = path.to_str().expect("UTF-8").to_owned();
        let mut state = self.0.state.lock().expect("not poisoned");
        state.blocked += 1;
        while state.hanging.contains(&path) {
            state = self.0.released.wait(state).expect("not poisoned");
        }
        state.blocked -= 1;
        if let Some(errno) = state.errors.get(&path) {
            return Err(*errno);
        }
        let blocks = 10 + state.blocks;
        Ok(FsStat {
            block_bytes: 4096,
            blocks,
            blocks_free: 5,
            blocks_available: 4,
            files: 9,
            files_free: 8,
            read_only: false,
        })
    }
}

impl FakeStatfs {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock().expect("not poisoned"));
        self.0.released.notify_all();
    }

    fn blocked(&self) -> usize {
        self.0.state.lock().expect("not poisoned").blocked
    }
}

fn source(tree: &Tree, statfs: &FakeStatfs, change: impl FnOnce(&mut HostConfig)) -> HostSource {
    let mut config = tree.config(&[Filesystem, Loadavg]);
    config.filesystem.wait_ms = 500;
    change(&mut config);
    HostSource::with_statfs(config, Box::new(statfs.clone())).expect("valid")
}

fn mount(id: u32, mount_point: &str, fs_type: &str, source: &str) -> String {
    format!("{id} 1 8:{id} / {mount_point} rw,relatime shared:1 - {fs_type} {source} rw\n")
}

fn key(family: &str, device: &str, mount_point: &str, fs_type: &str, error: &str) -> String {
    let labels = [
        ("device", device),
        ("mountpoint", mount_point),
        ("fstype", fs_type),
        ("device_error", error),
    ];
    series(family, &labels)
}

/// Collects until `done`, for at most ten seconds; returns that round.
fn collect_until(host: &mut HostSource, done: impl Fn(&Samples) -> bool) -> Samples {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let round = samples(host.collect(0));
        if done(&round) {
            return round;
        }
        assert!(Instant::now() < end, "not in ten seconds: {round:#?}");
        std::thread::yield_now();
    }
}

#[test]
fn series_labels_and_filters() {
    let tree = Tree::new("host-mounts");
    let ro =
        "3 1 8:3 / /ro ro - xfs /dev/c rw\n4 1 8:4 / /broken rw - ext4 /dev/d rw,emergency_ro\n";
    let lines = [
        mount(1, "/", "ext4", "/dev/a"),
        mount(2, "/with\\040blank\\134", "vfat", "/dev/b"),
        ro.into(),
        mount(5, "/proc", "proc", "proc"),
        mount(6, "/var/lib/docker/overlay2/x", "ext4", "/dev/a"),
        mount(7, "/snap", "squashfs", "/dev/loop1"),
        mount(8, "/run/credentials/a.service", "tmpfs", "tmpfs"),
        mount(9, "/tmp", "tmpfs", "tmpfs"),
        // Mounted over: one set of sizes, two device numbers.
        mount(10, "/tmp", "tmpfs", "tmpfs"),
    ];
    tree.write("proc/1/mountinfo", &lines.concat());
    let mut host = source(&tree, &FakeStatfs::new(), |_| {});
    let round = samples(host.collect(0));
    let size = |device, mount_point, fs_type| {
        key(
            "node_filesystem_size_bytes",
            device,
            mount_point,
            fs_type,
            "",
        )
    };
    let expected = [
        size("/dev/a", "/", "ext4"),
        size("/dev/b", "/with blank\\134", "vfat"),
        size("/dev/c", "/ro", "xfs"),
        size("/dev/d", "/broken", "ext4"),
        size("tmpfs", "/tmp", "tmpfs"),
    ];
    let found: Vec<String> = of_family(&round, "node_filesystem_size_bytes")
        .iter()
        .map(|(labels, value)| {
            assert_eq!(*value, 40_960.0);
            format!("node_filesystem_size_bytes{labels}")
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(
        round[&key("node_filesystem_avail_bytes", "/dev/a", "/", "ext4", "")],
        16_384.0
    );
    assert_eq!(
        round[&key("node_filesystem_files_free", "/dev/a", "/", "ext4", "")],
        8.0
    );
    let read_only: Vec<f64> = of_family(&round, "node_filesystem_readonly")
        .iter()
        .map(|(_, value)| *value)
        .collect();
    assert_eq!(read_only, [0.0, 0.0, 1.0, 1.0, 0.0]);
    let infos = of_family(&round, "node_filesystem_mount_info");
    assert_eq!(infos.len(), 6);
    assert_eq!(
        infos[0].0,
        r#"{device="/dev/a",major="8",minor="1",mountpoint="/"}"#
    );
}

#[test]
fn mounts_come_and_go() {
    let tree = Tree::new("host-mount-flap");
    tree.write("proc/1/mountinfo", &mount(1, "/", "ext4", "/dev/a"));
    let mut host = source(&tree, &FakeStatfs::new(), |_| {});
    host.collect(0);
    let schema = host.schema().clone();
    tree.write(
        "proc/1/mountinfo",
        &(mount(1, "/", "ext4", "/dev/a") + &mount(2, "/b", "ext4", "/dev/b")),
    );
    assert_eq!(
        of_family(&samples(host.collect(1)), "node_filesystem_size_bytes").len(),
        2
    );
    let diff = host.schema().diff(&schema).expect("one lineage");
    assert_eq!((diff.retired.len(), diff.appended.len()), (0, 9));
    tree.write("proc/1/mountinfo", &mount(1, "/", "ext4", "/dev/a"));
    assert_eq!(stale(host.collect(2)).len(), 9);
}

#[test]
fn process_one_may_be_hidden() {
    let tree = Tree::new("host-hidepid");
    std::fs::remove_dir_all(tree.dir.join("proc/1")).expect("it was written");
    tree.write("proc/self/mountinfo", &mount(1, "/", "ext4", "/dev/a"));
    let mut host = source(&tree, &FakeStatfs::new(), |_| {});
    assert_eq!(
        of_family(&samples(host.collect(0)), "node_filesystem_size_bytes").len(),
        1
    );
}

#[test]
fn the_hosts_root_is_prefixed_for_the_call_and_stripped_from_the_label() {
    let tree = Tree::new("host-rootfs");
    tree.write(
        "proc/1/mountinfo",
        &(mount(1, "/host", "ext4", "/dev/a") + &mount(2, "/host/data", "ext4", "/dev/b")),
    );
    let statfs = FakeStatfs::new();
    statfs.set(|state| state.errors.extend([("/host/data".into(), Errno::ACCESS)]));
    let mut host = source(&tree, &statfs, |config| config.rootfs = "/host".into());
    let round = samples(host.collect(0));
    assert!(
        round.contains_key(&key(
            "node_filesystem_size_bytes",
            "/dev/a",
            "/",
            "ext4",
            ""
        )),
        "{round:#?}"
    );
    let failed = key(
        "node_filesystem_device_error",
        "/dev/b",
        "/data",
        "ext4",
        "permission denied",
    );
    assert_eq!(round[&failed], 1.0);
}

#[test]
fn an_error_is_a_label_and_the_sizes_stay_away() {
    let tree = Tree::new("host-mount-error");
    tree.write("proc/1/mountinfo", &mount(1, "/nfs", "nfs4", "server:/x"));
    let statfs = FakeStatfs::new();
    let mut host = source(&tree, &statfs, |_| {});
    let sizes = |round: &Samples| of_family(round, "node_filesystem_size_bytes").len();
    assert_eq!(sizes(&samples(host.collect(0))), 1);

    for (errno, text) in [
        (Errno::STALE, "stale NFS file handle"),
        (Errno::IO, "input/output error"),
        (Errno::from_raw_os_error(4000), "errno 4000"),
    ] {
        statfs.set(|state| state.errors.extend([("/nfs".into(), errno)]));
        let round = samples(host.collect(1));
        assert_eq!(sizes(&round), 0);
        assert_eq!(of_family(&round, "node_filesystem_mount_info"), []);
        let failed = key(
            "node_filesystem_device_error",
            "server:/x",
            "/nfs",
            "nfs4",
            text,
        );
        assert_eq!(of_family(&round, "node_filesystem_device_error").len(), 1);
        assert_eq!(round[&failed], 1.0, "{text}");
        assert_eq!(of_family(&round, "node_scrape_collector_success")[0].1, 1.0);
    }
    statfs.set(|state| state.errors.clear());
    let round = samples(host.collect(2));
    assert_eq!(sizes(&round), 1);
    assert_eq!(
        round[&key(
            "node_filesystem_device_error",
            "server:/x",
            "/nfs",
            "nfs4",
            ""
        )],
        0.0
    );
}

/// A dead NFS server blocked node_exporter's whole scrape; here it costs at most one wait, once.
#[test]
fn hanging_mounts_are_served_from_the_last_answer_and_then_reported() {
    const WAIT: Duration = Duration::from_millis(100);
    let tree = Tree::new("host-hang");
    let hanging: Vec<String> = (0..6).map(|i| format!("/nfs{i}")).collect();
    let mut lines = vec![mount(100, "/", "ext4", "/dev/a")];
    lines.extend((0..6).map(|i| mount(i, &format!("/nfs{i}"), "nfs4", "server:/x")));
    tree.write("proc/1/mountinfo", &lines.concat());
    let statfs = FakeStatfs::new();
    let mut host = source(&tree, &statfs, |config| {
        config.filesystem.wait_ms = 100;
        config.filesystem.mount_timeout_ms = 1_000;
        config.filesystem.stat_workers = 2;
    });
    let healthy = key("node_filesystem_size_bytes", "/dev/a", "/", "ext4", "");
    let stuck = |family, error| key(family, "server:/x", "/nfs3", "nfs4", error);
    let first = samples(host.collect(0));
    assert_eq!(of_family(&first, "node_filesystem_size_bytes").len(), 7);

    // Six mounts hang with two workers. The round ends after its wait, with the last good sizes.
    statfs.set(|state| {
        state.hanging.clone_from(&hanging);
        state.blocks = 1;
    });
    let start = Instant::now();
    let round = samples(host.collect(1));
    assert!(
        start.elapsed() >= WAIT && start.elapsed() < WAIT * 8,
        "{:?}",
        start.elapsed()
    );
    assert_eq!(round[&stuck("node_filesystem_size_bytes", "")], 40_960.0);

    // They are not waited for again; the healthy mount is still queried and is fresh.
    let round = collect_until(&mut host, |round| round[&healthy] == 45_056.0);
    assert_eq!(round[&stuck("node_filesystem_device_error", "")], 0.0);
    let start = Instant::now();
    for now_ms in 2..22 {
        let round = samples(host.collect(now_ms));
        assert_eq!(round[&healthy], 45_056.0);
        assert_eq!(of_family(&round, "node_load1").len(), 1);
    }
    assert!(
        start.elapsed() < WAIT * 5,
        "twenty rounds took {:?}",
        start.elapsed()
    );

    // After the mount timeout, they are reported like node_exporter does.
    let error = stuck("node_filesystem_device_error", "mountpoint timeout");
    let round = collect_until(&mut host, |round| round.contains_key(&error));
    assert_eq!(round[&error], 1.0);
    assert!(!round.contains_key(&stuck("node_filesystem_size_bytes", "")));
    assert_eq!(round[&healthy], 45_056.0);
    // However many rounds passed, each mount has at most one call.
    assert_eq!(statfs.blocked(), hanging.len());

    statfs.set(|state| state.hanging.clear());
    let fresh = stuck("node_filesystem_size_bytes", "");
    let round = collect_until(&mut host, |round| round.get(&fresh) == Some(&45_056.0));
    assert!(!round.contains_key(&error));
}

#[test]
fn dropping_the_source_does_not_wait_for_a_hanging_mount() {
    let tree = Tree::new("host-drop");
    tree.write("proc/1/mountinfo", &mount(1, "/nfs", "nfs4", "server:/x"));
    let statfs = FakeStatfs::new();
    statfs.set(|state| state.hanging.push("/nfs".into()));
    let mut host = source(&tree, &statfs, |config| config.filesystem.wait_ms = 1);
    host.collect(0);
    let start = Instant::now();
    drop(host);
    assert!(start.elapsed() < Duration::from_secs(1));
    statfs.set(|state| state.hanging.clear());
}
