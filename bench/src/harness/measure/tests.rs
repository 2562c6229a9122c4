//! Tests of `measure`.

use super::*;
use crate::harness::cleanup::{Group, WorkDir};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
};

/// Bytes that one of three burning processes writes.
const WRITTEN_BYTES: u64 = 48 << 20;
/// Two burn at once after an earlier one was waited for: a tree with live and ended members.
const TREE: &str = r#"burn="$0 --exact harness::measure::tests::burn --ignored --nocapture"
exec 3<&0
$burn </dev/null >/dev/null 2>&1
WRITE_TO=$1 $burn <&3 2>&1 >/dev/null &
exec $burn 2>&1 >/dev/null"#;

/// Known values do not come from the meter: a burning process reads its own CPU clock and counts the bytes it writes.
#[test]
fn known_cpu_and_bytes_are_measured() {
    let dir = WorkDir::new(&std::env::temp_dir(), "burn").unwrap();
    let (ready, ready_end) = io::pipe().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", TREE])
        .arg(std::env::current_exe().unwrap())
        .arg(dir.path().join("written"))
        .stdin(Stdio::piped())
        .stdout(ready_end);
    let group = Group::start(&mut command).unwrap();
    drop(command);
    let lines: Vec<String> = BufReader::new(ready)
        .lines()
        .take(2)
        .map(Result::unwrap)
        .collect();
    assert_eq!(lines, ["burnt", "burnt"]);
    let measured = Usage::read_tree(group.pid().as_raw_nonzero().get()).unwrap();
    let is_near = |measured: f64, known: f64| (measured / known - 1.0).abs() <= 0.05;
    assert!(is_near(measured.cpu.as_secs_f64(), 3.0), "{measured:?}");
    assert!(
        is_near(measured.write_bytes as f64, WRITTEN_BYTES as f64),
        "{measured:?}"
    );
}

#[test]
#[ignore = "it is a process of known_cpu_and_bytes_are_measured"]
fn burn() {
    if let Some(path) = std::env::var_os("WRITE_TO") {
        let mut file = fs::File::create(path).unwrap();
        for _ in 0..WRITTEN_BYTES >> 16 {
            file.write_all(&[7; 1 << 16]).unwrap();
        }
        file.sync_all().unwrap();
    }
    while cpu_time(ClockId::ProcessCPUTime) < Duration::from_secs(1) {
        std::hint::spin_loop();
    }
    eprintln!("burnt");
    // Its usage can only be read while it is alive.
    let _ = io::stdin().read(&mut [0]);
}

fn proc(text: &str) -> Proc {
    Proc {
        path: "/proc/1/x".into(),
        text: text.to_owned(),
    }
}

#[test]
fn the_name_of_a_process_does_not_shift_its_times() {
    let hertz = rustix::param::clock_ticks_per_second();
    let stat = proc(&format!(
        "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 {hertz} 0 {hertz} {hertz} 20 0"
    ));
    assert_eq!(stat.cpu().unwrap(), Duration::from_secs(3));
    assert!(!stat.is_zombie() && proc("7 (S) Z 1").is_zombie());
    let short = proc("7 (x) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7")
        .cpu()
        .unwrap_err();
    assert_eq!(short.to_string(), "/proc/1/x: utime is missing");
}

#[test]
fn keys_are_whole_and_their_absence_is_said() {
    let status = proc("VmPeak:\t  900 kB\nVmHWM:\t  12 kB\nThreads:\t3\n");
    assert_eq!(status.kib("VmHWM:").unwrap(), 12 << 10);
    assert_eq!(status.number("Threads:").unwrap(), 3);
    // A kernel thread and a zombie have no memory.
    assert!(!status.has_memory() && proc("Threads:\t1\nVmRSS:\t 8 kB\n").has_memory());
    assert_eq!(
        status.kib("VmRSS:").unwrap_err().to_string(),
        "/proc/1/x: VmRSS: is missing"
    );
    let io = proc("wchar: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n");
    assert_eq!(io.number("write_bytes:").unwrap(), 4096);
}

#[test]
fn idle_time_is_not_busy() {
    assert_eq!(
        busy_ticks("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9"),
        Some(63)
    );
    assert_eq!(busy_ticks("cpu  1 2 4 1000"), None);
    assert_eq!(busy_ticks("intr 1"), None);
}

#[test]
fn quantiles_are_values_that_occurred() {
    assert_eq!(quantile(&[], 0.5), 0.0);
    assert_eq!(quantile(&[3.0], 0.99), 3.0);
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(
        [0.5, 0.9, 0.99, 1.0].map(|share| quantile(&hundred, share)),
        [50.0, 90.0, 99.0, 100.0]
    );
}

#[test]
fn our_own_process_and_directory_can_be_read() {
    let usage = Usage::read_tree(i32::try_from(std::process::id()).unwrap()).unwrap();
    assert!(usage.rss_bytes > 100_000 && usage.peak_rss_bytes >= usage.rss_bytes / 2);
    assert!(usage.processes >= 1 && usage.threads >= 1);
    assert!(Usage::read_tree(i32::MAX).is_err());
    let dir = narthex_testkit::TempDir::new("measure");
    dir.write("a/b", vec![1; 10_000]);
    dir.write("c", vec![1; 1]);
    let (allocated, apparent) = directory_bytes(dir.path()).unwrap();
    assert_eq!(apparent, 10_001);
    assert!(allocated >= 12_288, "{allocated}");
}
