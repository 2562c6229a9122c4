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
