//! Results of a scan, round by round.

use narthex_testkit::TempDir;

use super::*;

fn scan(pattern: String) -> Scan {
    Scan {
        patterns: vec![pattern],
        known: BTreeMap::new(),
    }
}

/// Returns the sources with their numbers of targets, sorted.
fn summary(groups: &[TargetGroup], dir: &TempDir) -> Vec<(String, usize)> {
    let root = format!("{}/", dir.path().display());
    let short = |source: &str| source.strip_prefix(&root).expect("inside").to_owned();
    let mut told: Vec<_> = groups
        .iter()
        .map(|group| (short(&group.source), group.targets.len()))
        .collect();
    told.sort();
    told
}

fn want(groups: &[(&str, usize)]) -> Vec<(String, usize)> {
    let owned = groups.iter().map(|(source, n)| ((*source).to_owned(), *n));
    owned.collect()
}

#[test]
fn files_come_change_break_and_go() {
    let dir = TempDir::new("file-sd");
    let mut scan = scan(format!("{}/*.json", dir.path().display()));
    assert_eq!(summary(&scan.round(), &dir), want(&[]));
    dir.write("a.json", r#"[{"targets":["x","y"]},{"targets":["z"]}]"#);
    dir.write("b.json", r#"[{"targets":["b"]}]"#);
    let all = want(&[("a.json:0", 2), ("a.json:1", 1), ("b.json:0", 1)]);
    let groups = scan.round();
    assert_eq!(summary(&groups, &dir), all);
    let path = dir.join("a.json").display().to_string();
    assert_eq!(groups[0].labels["__meta_filepath"], path);
    // A broken file keeps its groups: none are reported.
    dir.write("a.json", "[{");
    assert_eq!(summary(&scan.round(), &dir), want(&[("b.json:0", 1)]));
    // The old groups are still known: fixing the file with fewer groups removes the rest.
    dir.write("a.json", r#"[{"targets":["x"]}]"#);
    let mended = want(&[("a.json:0", 1), ("a.json:1", 0), ("b.json:0", 1)]);
    assert_eq!(summary(&scan.round(), &dir), mended);
    std::fs::remove_file(dir.join("a.json")).expect("it is there");
    let gone = want(&[("a.json:0", 0), ("b.json:0", 1)]);
    assert_eq!(summary(&scan.round(), &dir), gone);
    assert_eq!(summary(&scan.round(), &dir), want(&[("b.json:0", 1)]));
}

#[tokio::test]
async fn changes_are_seen_and_readings_are_not() {
    let dir = TempDir::new("watch");
    let watcher = Watcher::new().expect("inotify");
    watcher.watch(dir.path()).expect("a directory");
    watcher.watch(dir.path()).expect("again");
    dir.write("a.json", "[]");
    watcher.changed().await.expect("created");
    assert!(read_file(&dir.join("a.json").display().to_string()).is_ok());
    std::fs::read_dir(dir.path()).expect("readable").count();
    let quiet = tokio::time::timeout(Duration::from_millis(50), watcher.changed()).await;
    assert!(quiet.is_err(), "reading is no change");
    std::fs::rename(dir.join("a.json"), dir.join("b.json")).expect("renamed");
    watcher.changed().await.expect("renamed");
    std::fs::remove_file(dir.join("b.json")).expect("removed");
    watcher.changed().await.expect("removed");
    assert!(watcher.watch(&dir.join("none")).is_err());
}
