//! Tests of `measure`.

use super::*;

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
