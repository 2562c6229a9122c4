//! Committed queue files must always read the same.
//!
//! `NARTHEX_UPDATE_GOLDEN=1` rewrites them; only right while no release has written version 1.

use super::*;
use narthex_testkit::{mutate::Mutator, scaled, workspace_root};
use std::path::PathBuf;

/// Writes rounds with everything a file can hold to a new queue in `dir`.
fn write(dir: &Path) {
    let queue = queue(dir, MANY);
    let labelling = Labelling {
        external: LabelSet::new([("replica", "r1")]),
        rules: Vec::new(),
    };
    let first = schema(3);
    let mut writer = writer(&queue, labelling.clone(), &first);
    for time_ms in 0..3 {
        writer
            .append(&round(&first, 1000 + time_ms, &[1.0, 2.5, time_ms as f64]))
            .unwrap();
    }
    let second = grown(&first, 3, 40);
    writer.rebind(&second);
    let mut frame = Frame::new(second.clone(), 2000);
    frame.set(ColumnId(0), 2.0);
    frame.set_start_time(ColumnId(0), 500);
    frame.mark_stale(ColumnId(1));
    frame.set_histogram(ColumnId(2), histogram(7.0));
    for column in 3..40 {
        frame.set(ColumnId(column), f64::from(column));
    }
    frame.set_time(ColumnId(39), 1999);
    frame.push_exemplar(
        ColumnId(0),
        Exemplar {
            labels: LabelSet::new([("trace_id", "t")]),
            value: 0.25,
            time_ms: None,
        },
    );
    writer.append(&frame).unwrap();
    let mut sparse = Frame::new(second, 3000);
    sparse.set(ColumnId(39), 1.5);
    writer.append(&sparse).unwrap();
    let mut writer = SampleWriter::new(queue, Arc::new(labelling), ALL);
    let mut single = SeriesSample::float(LabelSet::new([("__name__", "single")]), 4000, 3.5);
    single.start_time_ms = 3999;
    writer.append(&[single]).unwrap();
}

fn path(name: &str) -> PathBuf {
    workspace_root().join("testdata/formats").join(name)
}

/// Returns a committed file; `change` makes it of the intact one.
fn committed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() {
        let dir = TempDir::new("queue-golden");
        write(dir.path());
        let mut bytes = std::fs::read(path_of(dir.path(), 1)).unwrap();
        change(&mut bytes);
        std::fs::write(path(name), bytes).unwrap();
    }
    std::fs::read(path(name)).unwrap()
}

/// Returns what a file's bytes hold, a line for each sample.
fn shown(bytes: &[u8]) -> String {
    let dir = TempDir::new("queue-golden");
    std::fs::write(path_of(dir.path(), 1), bytes).unwrap();
    let lines = read(&queue(dir.path(), MANY));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_committed_file_reads_as_written() {
    let bytes = committed("v2/remote_queue_small.queue", |_| {});
    let text = shown(&bytes);
    if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() {
        std::fs::write(path("v1/remote_queue_small.txt"), &text).unwrap();
    }
    let expected = std::fs::read_to_string(path("v1/remote_queue_small.txt")).unwrap();
    assert_eq!(text, expected);
    let version_1 = std::fs::read(path("v1/remote_queue_small.queue")).unwrap();
    assert_eq!(shown(&version_1), expected);
    let dir = TempDir::new("queue-golden");
    write(dir.path());
    let written = std::fs::read(path_of(dir.path(), 1)).unwrap();
    assert!(written == bytes, "the same rounds give the same bytes");
}

#[test]
fn committed_damage_costs_what_it_is_in() {
    let all = std::fs::read_to_string(path("v1/remote_queue_small.txt")).unwrap();
    let torn = committed("v2/remote_queue_torn.queue", |bytes| {
        bytes.truncate(bytes.len() - 3);
    });
    let missing = all.strip_prefix(&shown(&torn)).unwrap().to_owned();
    assert_eq!(missing.lines().count(), 1, "{missing}");
    // A byte of the second row: those behind it wait for a key row, which so short a file does not have.
    let damaged = committed("v2/remote_queue_damaged.queue", |bytes| {
        let mut entries = (0..bytes.len() - 1).filter(|at| bytes[*at..].starts_with(&[0x7a, 0xe5]));
        let second = entries.nth(1).unwrap();
        bytes[second + format::ENTRY_HEAD_BYTES + 2] ^= 1;
    });
    let left = shown(&damaged);
    let lines: Vec<&str> = left.lines().collect();
    let of_all: Vec<&str> = all.lines().collect();
    assert_eq!(lines[..3], of_all[..3], "the first row");
    // Samples with a time of their own, an exemplar whose sample is lost, and what came one by one.
    let of = |name: &str| format!(r#"{name}{{instance="i", job="j", replica="r1"}}"#);
    assert_eq!(
        lines[3..],
        [
            &*format!("{} 1999 39 [c 1]", of("c39")),
            &*format!(
                r#"{} 2000 nothing # [("trace_id", "t")] 0.25 2000 [c 1]"#,
                of("c0")
            ),
            &*format!("{} 3000 1.5 [c 1]", of("c39")),
            r#"single{replica="r1"} 4000 3.5 since 3999"#,
        ]
    );
}

#[test]
fn mutated_files_are_read_or_refused() {
    let bytes = std::fs::read(path("v2/remote_queue_small.queue")).unwrap();
    let dir = TempDir::new("queue-mutated");
    Mutator::new(0x9e06).run(&[&bytes], scaled(300), |data| {
        std::fs::write(path_of(dir.path(), 1), data).unwrap();
        if let Ok(queue) = Queue::open(dir.path(), MANY, Position::default()) {
            read(&Arc::new(queue));
        }
    });
}
