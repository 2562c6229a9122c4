//! A FUSE file system whose process never answers, in the test's own mount namespace.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use narthex_host::CollectorKind::{Filesystem, Loadavg, Textfile};
use narthex_host::{HostConfig, HostSource};
use narthex_testkit::corpora;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::support::{Tree, of_family, samples};

/// Far below the deadlines, far above what a loaded machine needs for a round of small files.
const PROMPT: Duration = Duration::from_millis(1_500);

/// Mounts a file system that nobody serves on `at`; closing the file aborts what waits for it.
fn mount_unserved(at: &str) -> Option<File> {
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).status();
        status.is_ok_and(|status| status.success())
    };
    if !mount(&["--make-rprivate", "/"]) {
        return None;
    }
    // Without CLOEXEC: mount(8) passes the descriptor on.
    let file = File::from(openat(CWD, "/dev/fuse", OFlags::RDWR, Mode::empty()).ok()?);
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0",
        file.as_raw_fd()
    );
    mount(&["-i", "-t", "fuse", "-o", &options, "unserved", at]).then_some(file)
}

fn isolated(test: impl FnOnce() -> Option<()> + Send + 'static) {
    let ran = thread::spawn(move || {
        // SAFETY: only this thread's mount namespace and its paths change.
        let entered = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
        entered.is_ok() && test().is_some()
    });
    let ran = ran.join().expect("the test passes");
    corpora::report("a FUSE file system that hangs", usize::from(ran), 1);
}

#[test]
fn a_hanging_fuse_file_system_does_not_delay_a_scrape() {
    isolated(|| {
        let tree = Tree::new("host-fuse");
        let files = tree.dir.join("files");
        std::fs::create_dir_all(&files).expect("writable");
        tree.write("files/a.prom", "jobs 1\n");
        let at = files.display().to_string();
        let line = format!("7 1 0:77 / {at} rw - fuse unserved rw\n");
        tree.write("proc/1/mountinfo", &line);
        let mut host = HostSource::new(HostConfig {
            textfile_directories: vec![at.clone()],
            wait_ms: 50,
            deadline_ms: 0,
            ..tree.config(&[Filesystem, Loadavg, Textfile])
        })
        .expect("valid");
        // The first round may take as long as it needs.
        while !samples(host.collect(0)).contains_key("jobs") {
            thread::yield_now();
        }
        let unserved = mount_unserved(&at)?;
        for now_ms in 1..20 {
            let start = Instant::now();
            let round = samples(host.collect(now_ms));
            let took = start.elapsed();
            assert!(took < PROMPT, "round {now_ms} took {took:?}");
            assert_eq!((round["jobs"], round["node_load1"]), (1.0, 0.01));
            let success = |name: &str| {
                round[&format!(r#"node_scrape_collector_success{{collector="{name}"}}"#)]
            };
            assert_eq!((success("textfile"), success("loadavg")), (0.0, 1.0));
            let ages = of_family(&round, "narthex_host_collector_age_seconds");
            assert_eq!(ages.len(), 1, "{ages:?}");
            assert_eq!(ages[0].0, r#"{collector="textfile"}"#);
            assert!(ages[0].1 > 0.0, "{ages:?}");
        }
        drop(unserved);
        Some(())
    });
}

/// The first scrape of a server, or one after a panic, waited ten times as long as the others.
#[test]
fn the_first_scrape_is_not_delayed_either_and_marks_what_hangs() {
    isolated(|| {
        let tree = Tree::new("host-fuse-first");
        let files = tree.dir.join("files");
        std::fs::create_dir_all(&files).expect("writable");
        let at = files.display().to_string();
        let unserved = mount_unserved(&at)?;
        let mut host = HostSource::new(HostConfig {
            textfile_directories: vec![at],
            first_wait_ms: 60_000,
            wait_ms: 50,
            ..tree.config(&[Loadavg, Textfile])
        })
        .expect("valid");
        let start = Instant::now();
        let round = samples(host.collect(0));
        let took = start.elapsed();
        assert!(took < PROMPT, "it took {took:?}");
        assert_eq!(round["node_load1"], 0.01);
        let success = r#"node_scrape_collector_success{collector="textfile"}"#;
        assert_eq!(round[success], 0.0);
        drop(unserved);
        Some(())
    });
}
