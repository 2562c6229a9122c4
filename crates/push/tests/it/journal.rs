//! Journals on disk: committed, torn and damaged ones, and persistence files of the real gateway.

use crate::rig::{Rig, config};
use narthex_push::StoreConfig;
use narthex_testkit::{TempDir, workspace_root};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Opens a committed journal.
fn opened(dir: &TempDir, name: &str) -> Rig {
    let from = workspace_root().join("testdata/formats/v1").join(name);
    fs::copy(from, dir.join("p.journal")).unwrap();
    Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")))
}

fn shown(samples: &BTreeMap<String, String>) -> String {
    samples
        .iter()
        .map(|(series, value)| format!("{series} {value}\n"))
        .collect()
}

fn small() -> String {
    fs::read_to_string(workspace_root().join("testdata/formats/v1/push_small.txt")).unwrap()
}

#[test]
fn a_journal_of_version_1_is_read() {
    let dir = TempDir::new("push");
    let rig = opened(&dir, "push_small.journal");
    assert_eq!(shown(&rig.samples()), small());
    assert!(!dir.join("p.journal.damaged").exists());
    // An older program must not read what is appended from here on.
    assert_eq!(fs::read(dir.join("p.journal")).unwrap()[8], 2);
    // A push of known series, and a restart.
    rig.put("/metrics/job/plain", "m{x=\"1\"} 100\n");
    drop(rig);
    let rig = Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")));
    assert_eq!(
        rig.samples()["m{instance=\"\",job=\"plain\",x=\"1\"}"],
        "100"
    );
}

/// It has expected intervals, lives, timestamps, sums and the names of pushes beside what version 1 had.
#[test]
fn a_journal_of_version_2_is_read() {
    let dir = TempDir::new("push");
    let formats = workspace_root().join("testdata/formats/v2");
    fs::copy(formats.join("push_small.journal"), dir.join("p.journal")).unwrap();
    let before = fs::read(dir.join("p.journal")).unwrap();
    let rig = Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")));
    let page = rig.ask("GET", "/metrics", "").text();
    assert_eq!(
        page,
        fs::read_to_string(formats.join("push_small.txt")).unwrap()
    );
    assert_eq!(fs::read(dir.join("p.journal")).unwrap(), before);
    // These two pushes were added already.
    for id in ["first", "second"] {
        rig.put(
            &format!("/metrics/job/sum?aggregate=last&id={id}"),
            "nothing 1\n",
        );
    }
    assert_eq!(rig.ask("GET", "/metrics", "").text(), page);
}

#[test]
fn a_torn_end_costs_the_record_that_is_torn() {
    let dir = TempDir::new("push");
    let whole = fs::read(workspace_root().join("testdata/formats/v1/push_small.journal")).unwrap();
    let rig = opened(&dir, "push_torn.journal");
    let samples = rig.samples();
    assert!(samples.len() < small().lines().count() && !samples.is_empty());
    // New records follow the intact ones.
    rig.put("/metrics/job/later", "later 1\n");
    drop(rig);
    assert!(!dir.join("p.journal.damaged").exists());
    let rig = Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")));
    assert_eq!(rig.samples().len(), samples.len() + 1);
    drop(rig);
    // Cut anywhere after the header, it still opens.
    for len in 16..whole.len() {
        fs::write(dir.join("p.journal"), &whole[..len]).unwrap();
        drop(Rig::start(
            config(),
            StoreConfig::default(),
            Some(&dir.join("p")),
        ));
    }
}

#[test]
fn a_damaged_record_costs_itself() {
    let dir = TempDir::new("push");
    let rig = opened(&dir, "push_damaged.journal");
    let (samples, all) = (shown(&rig.samples()), small());
    let lost: Vec<&str> = all.lines().filter(|line| !samples.contains(line)).collect();
    assert!(
        !lost.is_empty() && lost.iter().all(|line| line.contains("job=\"deep\"")),
        "{lost:?}"
    );
    assert!(dir.join("p.journal.damaged").exists());
}

#[test]
fn a_file_that_is_no_journal_stops_the_start() {
    let dir = TempDir::new("push");
    let open = |content: &[u8]| {
        fs::write(dir.join("p.journal"), content).unwrap();
        let store = narthex_push::Store::open(
            StoreConfig::default(),
            std::sync::Arc::new(|| 1),
            &dir.join("p"),
        );
        store.unwrap_err().to_string()
    };
    assert!(open(b"something else entirely").contains("not a push journal"));
    assert!(open(b"").contains("p.journal"));
    let mut later =
        fs::read(workspace_root().join("testdata/formats/v1/push_small.journal")).unwrap();
    later[8] = 9;
    assert!(open(&later).contains("header is damaged"));
    let crc = crc32c::crc32c(&later[..12]);
    later[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(open(&later).contains("version 9"));
}

#[test]
fn a_persistence_file_is_imported_once() {
    let dir = TempDir::new("push");
    let from = workspace_root().join("testdata/push");
    fs::copy(from.join("persisted.gob"), dir.join("p")).unwrap();
    let start = |dir: &Path| Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")));
    let rig = start(dir.path());
    let expected = fs::read_to_string(from.join("persisted.txt")).unwrap();
    let page = rig.ask("GET", "/metrics", "").text();
    let sorted = |text: &str| {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(sorted(&page), sorted(&expected));
    assert_eq!(rig.ask("PUT", "/api/v1/admin/wipe", "").status, 202);
    rig.put("/metrics/job/later", "later 1\n");
    drop(rig);
    // The imported file remains, but is not read again.
    assert!(dir.join("p").exists());
    assert_eq!(start(dir.path()).samples().len(), 1);
}

/// A crash during the first start must not leave a journal without the groups, because the next start would not import.
#[test]
fn an_import_that_is_cut_short_is_made_again() {
    let dir = TempDir::new("push");
    let from = workspace_root().join("testdata/push/persisted.gob");
    fs::copy(from, dir.join("p")).unwrap();
    let open = || {
        let now_ns = std::sync::Arc::new(|| 1);
        narthex_push::Store::open(StoreConfig::default(), now_ns, &dir.join("p"))
    };
    // A directory of the new file's name stops the import when it begins to write.
    fs::create_dir(dir.join("p.journal.new")).unwrap();
    let error = open().unwrap_err().to_string();
    assert!(error.contains("p.journal"), "{error}");
    fs::remove_dir(dir.join("p.journal.new")).unwrap();
    // A crash may also leave a part of that file.
    let whole = fs::read(workspace_root().join("testdata/formats/v1/push_small.journal")).unwrap();
    fs::write(dir.join("p.journal.new"), &whole[..whole.len() / 2]).unwrap();
    let start = || Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")));
    let imported = start().samples();
    assert!(imported.len() > 10, "{imported:?}");
    assert!(!dir.join("p.journal.new").exists());
    assert_eq!(start().samples(), imported);
}

#[test]
fn a_long_journal_is_written_anew() {
    let dir = TempDir::new("push");
    let rig = Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")));
    let len = || fs::metadata(dir.join("p.journal")).unwrap().len();
    let mut longest = 0;
    // Each push carries some 80 KiB of numbers.
    for round in 0..120 {
        let body: String = (0..10_000)
            .map(|k| format!("m{{k=\"{k}\"}} {}\n", round + k))
            .collect();
        rig.put("/metrics/job/a", &body);
        longest = longest.max(len());
        rig.store.maintain();
    }
    assert!(longest > 8 << 20 && len() < 4 << 20, "{longest} {}", len());
    let before = rig.samples();
    drop(rig);
    let rig = Rig::start(config(), StoreConfig::default(), Some(&dir.join("p")));
    assert_eq!(rig.samples(), before);
    assert!(!dir.join("p.journal.new").exists());
}
