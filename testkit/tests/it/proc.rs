//! Tests of `proc`.

use narthex_testkit::proc::{ProcFile, ThreadTime, children};
use std::{io::ErrorKind, process::Command};

fn proc(text: &str) -> ProcFile {
    ProcFile {
        path: "/proc/1/x".into(),
        text: text.to_owned(),
    }
}

#[test]
fn the_name_of_a_process_does_not_shift_its_times() {
    let stat = proc("7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 100 0 100 100 20 0");
    assert_eq!(stat.cpu_ticks().unwrap(), 300);
    assert!(!stat.is_zombie() && proc("7 (S) Z 1").is_zombie());
    let short = proc("7 (x) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7")
        .cpu_ticks()
        .unwrap_err();
    assert_eq!(short.to_string(), "/proc/1/x: utime is missing");
}

#[test]
fn keys_are_whole_and_their_absence_is_said() {
    let status = proc("VmPeak:\t  900 kB\nVmHWM:\t  12 kB\nThreads:\t3\n");
    assert_eq!(status.bytes("VmHWM:").unwrap(), 12 << 10);
    assert_eq!(status.number("Threads:").unwrap(), 3);
    // A kernel thread and a zombie have no memory.
    assert!(!status.has_memory() && proc("Threads:\t1\nVmRSS:\t 8 kB\n").has_memory());
    assert_eq!(
        status.bytes("VmRSS:").unwrap_err().to_string(),
        "/proc/1/x: VmRSS: is missing"
    );
    let io = proc("wchar: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n");
    assert_eq!(io.number("write_bytes:").unwrap(), 4096);
}

#[test]
fn idle_time_is_not_busy() {
    let busy = |text: &str| proc(text).busy_ticks().ok();
    assert_eq!(
        busy("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9"),
        Some(63)
    );
    assert_eq!(busy("cpu  1 2 4 1000"), None);
    assert_eq!(busy("intr 1"), None);
}

#[test]
fn a_process_has_threads_and_children_until_it_ends() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    assert!(children("self").unwrap().contains(&pid));
    assert_eq!(ThreadTime::of_all(pid).unwrap().len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = [
        ProcFile::read(pid, "stat").unwrap_err(),
        ThreadTime::of_all(pid).unwrap_err(),
    ];
    for error in gone {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().starts_with(&format!("/proc/{pid}/")));
    }
}
