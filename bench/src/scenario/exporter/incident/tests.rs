//! Tests of `incident`.

use super::*;
use narthex_testkit::TempDir;

#[test]
fn every_step_keeps_what_was_done_before() {
    let base = TempDir::new("incident");
    let node = WorkDir::new(base.path(), "steps").unwrap();
    let steps: Vec<String> = (0..STEPS.len())
        .map(|step| arguments(step, &node))
        .collect();
    let has = |step: usize, flag: &str| steps[step].contains(flag);
    assert!(steps.iter().all(|step| step.starts_with("--path.procfs=/")));
    assert!(!has(1, "--no-collector.ipvs") && has(2, "--no-collector.ipvs"));
    assert!(!has(2, "netdev.device-exclude") && has(4, "netdev.device-exclude"));
    assert!(has(4, "--runtime.gomaxprocs=1"));
    let threads = steps.iter().map(|step| step.matches("gomaxprocs").count());
    assert_eq!(threads.collect::<Vec<_>>(), [0, 1, 1, 1, 1]);
}

#[test]
fn a_copy_of_procfs_reads_as_the_original() {
    let copy = TempDir::new("incident-procfs");
    copy_procfs(copy.path()).unwrap();
    let read = |path: &str| fs::read_to_string(path).unwrap();
    let shown = copy.path().display();
    assert_eq!(
        read(&format!("{shown}/net/protocols")),
        read("/proc/net/protocols")
    );
    assert_eq!(read(&format!("{shown}/version")), read("/proc/version"));
    assert!(!copy.join(std::process::id().to_string()).exists());
}

#[test]
fn a_load_balancer_has_services_of_ten() {
    let table = backends(25);
    let count = |begin: &str| table.lines().filter(|line| line.starts_with(begin)).count();
    // One of the arrows is the heading's.
    assert_eq!((count("TCP "), count("  -> ")), (3, 26));
}
