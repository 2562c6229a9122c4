//! Tests of `cleanup`.

use super::*;
use std::time::{Duration, Instant};

#[test]
fn a_group_dies_with_its_children_and_a_directory_with_its_content() {
    let dir = WorkDir::new(&std::env::temp_dir(), "cleanup").unwrap();
    let path = dir.path().to_path_buf();
    let pids = path.join("pids");
    let script = format!("sleep 60 & echo $! > {}; wait", pids.display());
    let group = Group::start(Command::new("sh").args(["-c", &script])).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let grandchild = loop {
        let text = fs::read_to_string(&pids).unwrap_or_default();
        if let Ok(pid) = text.trim().parse::<u32>() {
            break pid;
        }
        assert!(Instant::now() < end, "the shell did not start");
        thread::sleep(Duration::from_millis(5));
    };
    assert!(registry().contains(&Item::Group(group.pid())));
    drop(group);
    // Its new parent reaps it; until then it is a zombie, which has no command line.
    let alive =
        || fs::read(format!("/proc/{grandchild}/cmdline")).is_ok_and(|line| !line.is_empty());
    while alive() {
        assert!(Instant::now() < end, "the grandchild still runs");
        thread::sleep(Duration::from_millis(5));
    }
    drop(dir);
    assert!(!path.exists());
    assert!(!registry().contains(&Item::Dir(path)));
}
