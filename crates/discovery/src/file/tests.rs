//! What a scan reports, round by round.

use narthex_testkit::TempDir;

use super::*;

fn scan(pattern: String) -> Scan {
    Scan {
        patterns: vec![pattern],
        known: BTreeMap::new(),
    }
}

/// Sources with the number of their targets, in order.
fn told(groups: &[TargetGroup], dir: &TempDir) -> Vec<(String, usize)> {
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
    assert_eq!(told(&scan.round(), &dir), want(&[]));
    dir.write("a.json", r#"[{"targets":["x","y"]},{"targets":["z"]}]"#);
    dir.write("b.json", r#"[{"targets":["b"]}]"#);
    let all = want(&[("a.json:0", 2), ("a.json:1", 1), ("b.json:0", 1)]);
    let groups = scan.round();
    assert_eq!(told(&groups, &dir), all);
    let path = dir.join("a.json").display().to_string();
    assert_eq!(groups[0].labels["__meta_filepath"], path);
    // A broken file keeps its groups: nothing is said about them.
    dir.write("a.json", "[{");
    assert_eq!(told(&scan.round(), &dir), want(&[("b.json:0", 1)]));
    // Still known: mending it with fewer groups takes the rest away.
    dir.write("a.json", r#"[{"targets":["x"]}]"#);
    let mended = want(&[("a.json:0", 1), ("a.json:1", 0), ("b.json:0", 1)]);
    assert_eq!(told(&scan.round(), &dir), mended);
    std::fs::remove_file(dir.join("a.json")).expect("it is there");
    let gone = want(&[("a.json:0", 0), ("b.json:0", 1)]);
    assert_eq!(told(&scan.round(), &dir), gone);
    assert_eq!(told(&scan.round(), &dir), want(&[("b.json:0", 1)]));
}

#[test]
fn only_changes_of_content_are_changes() {
    use notify::event::{CreateKind, DataChange, MetadataKind, RemoveKind};
    for (kind, want) in [
        (EventKind::Create(CreateKind::File), true),
        (EventKind::Modify(ModifyKind::Data(DataChange::Any)), true),
        (EventKind::Remove(RemoveKind::File), true),
        (EventKind::Access(AccessKind::Close(AccessMode::Write)), true),
        (EventKind::Access(AccessKind::Open(AccessMode::Read)), false),
        (EventKind::Access(AccessKind::Close(AccessMode::Read)), false),
        (EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), false),
    ] {
        assert_eq!(is_change(&kind), want, "{kind:?}");
    }
}
