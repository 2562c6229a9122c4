//! Pages of metrics: changes, half-written files, mistakes, duplicates, labels, ages.

use crate::recorder::{Rig, age};
use narthex_expfmt::Format;
use narthex_files::PathLabels;
use narthex_model::storage::Budget;
use narthex_testkit::{TempDir, alloc, tool};
use std::{
    fs::{self, File},
    io::Write as _,
    process::Command,
    time::Duration,
};

#[test]
fn files_come_change_and_go() {
    let mut rig = Rig::new(|_, _| {});
    assert_eq!(rig.round(), Vec::<String>::new());
    rig.write("a.prom", "# TYPE m gauge\nm{k=\"1\"} 1\nm{k=\"2\"} 2\n");
    rig.write("b.prom", "n 3\n");
    let first = [
        r#"m{job="j", k="1"} 1"#,
        r#"m{job="j", k="2"} 2"#,
        r#"n{job="j"} 3"#,
    ];
    assert_eq!(rig.round(), first);
    // Unchanged files are stored again.
    assert_eq!(rig.round(), first);
    rig.write("a.prom", "# TYPE m gauge\nm{k=\"2\"} 4\nm{k=\"3\"} 5\n");
    assert_eq!(
        rig.round(),
        [
            r#"m{job="j", k="1"} x"#,
            r#"m{job="j", k="2"} 4"#,
            r#"m{job="j", k="3"} 5"#,
            r#"n{job="j"} 3"#
        ]
    );
    fs::remove_file(rig.dir.join("a.prom")).unwrap();
    assert_eq!(
        rig.round_with_own(),
        [
            r#"m{job="j", k="2"} x"#,
            r#"m{job="j", k="3"} x"#,
            r#"n{job="j"} 3"#,
            r#"narthex_files_duplicate_samples{file="a.prom", job="j"} x"#,
            r#"narthex_files_duplicate_samples{file="b.prom", job="j"} 0"#,
            r#"narthex_files_modified_timestamp_seconds{file="a.prom", job="j"} x"#,
        ]
        .into_iter()
        .map(str::to_owned)
        .chain(rig.stored_with("narthex_files_modified_timestamp_seconds{file=\"b.prom\""))
        .chain(
            [
                r#"narthex_files_samples{file="a.prom", job="j"} x"#,
                r#"narthex_files_samples{file="b.prom", job="j"} 1"#,
                r#"up{file="a.prom", job="j"} x"#,
                r#"up{file="b.prom", job="j"} 1"#,
            ]
            .map(str::to_owned)
        )
        .collect::<Vec<_>>()
    );
    let ended = rig.end();
    assert_eq!(ended.len(), 5);
    assert!(ended.iter().all(|line| line.ends_with(" x")), "{ended:?}");
}

/// The kernel tells only of what happens in the directory.
#[test]
fn a_file_that_is_elsewhere_is_read_when_it_changes() {
    let mut rig = Rig::new(|_, _| {});
    let elsewhere = TempDir::new("files-elsewhere");
    let (linked, named) = (elsewhere.join("linked"), elsewhere.join("named"));
    for (path, text) in [(&linked, "l 1\n"), (&named, "n 1\n")] {
        fs::write(path, text).unwrap();
        age(path, 10);
    }
    std::os::unix::fs::symlink(&linked, rig.dir.join("l.prom")).unwrap();
    fs::hard_link(&named, rig.dir.join("n.prom")).unwrap();
    rig.write("own.prom", "own 1\n");
    let shown = |l: i32, n: i32| {
        [
            format!("l{{job=\"j\"}} {l}"),
            format!("n{{job=\"j\"}} {n}"),
            "own{job=\"j\"} 1".to_owned(),
        ]
    };
    for _ in 0..2 {
        assert_eq!(rig.round(), shown(1, 1));
    }
    fs::write(&linked, "l 2\n").unwrap();
    assert_eq!(rig.round(), shown(2, 1));
    fs::write(&named, "n 2\n").unwrap();
    assert_eq!(rig.round(), shown(2, 2));
}

impl Rig {
    /// Returns what was stored last of series that begin so.
    fn stored_with(&self, start: &str) -> Vec<String> {
        let directory = format!("{}/", self.dir.path().display());
        let lines = self.recorder.at(self.now_ms).into_iter();
        let lines = lines.map(|line| line.replace(&directory, ""));
        lines.filter(|line| line.starts_with(start)).collect()
    }

    fn up(&self) -> Vec<String> {
        self.stored_with("up{")
    }
}

#[test]
fn a_half_written_file_keeps_what_it_showed() {
    let mut rig = Rig::new(|_, _| {});
    rig.write("a.prom", "m 1\n");
    rig.write("b.prom", "n 1\n");
    assert_eq!(rig.round(), [r#"m{job="j"} 1"#, r#"n{job="j"} 1"#]);
    // A writer in the middle of a line, and one that has begun anew.
    fs::write(rig.dir.join("a.prom"), "m 2\nk").unwrap();
    File::create(rig.dir.join("b.prom")).unwrap();
    for round in 0..2 {
        assert_eq!(
            rig.round(),
            [r#"m{job="j"} 1"#, r#"n{job="j"} 1"#],
            "{round}"
        );
        assert_eq!(
            rig.up(),
            [
                r#"up{file="a.prom", job="j"} 1"#,
                r#"up{file="b.prom", job="j"} 1"#
            ]
        );
    }
    // It stays like that: the writer has died.
    assert_eq!(rig.round(), [r#"m{job="j"} x"#, r#"n{job="j"} x"#]);
    assert_eq!(
        rig.up(),
        [
            r#"up{file="a.prom", job="j"} 0"#,
            r#"up{file="b.prom", job="j"} 0"#
        ]
    );
    let mut file = File::options()
        .append(true)
        .open(rig.dir.join("a.prom"))
        .unwrap();
    file.write_all(b" 3\n").unwrap();
    // An empty file that nobody has touched for a while is a page without metrics.
    age(&rig.dir.join("b.prom"), 10);
    assert_eq!(rig.round(), [r#"k{job="j"} 3"#, r#"m{job="j"} 2"#]);
    assert_eq!(
        rig.up(),
        [
            r#"up{file="a.prom", job="j"} 1"#,
            r#"up{file="b.prom", job="j"} 1"#
        ]
    );
}

#[test]
fn a_new_file_is_reported_once_it_is_complete_or_broken() {
    let mut rig = Rig::new(|config, _| config.require_eof = true);
    rig.write("a.prom", "m 1\n");
    assert_eq!(rig.round_with_own(), Vec::<String>::new());
    assert_eq!(rig.round_with_own(), Vec::<String>::new());
    rig.round();
    assert_eq!(rig.up(), [r#"up{file="a.prom", job="j"} 0"#]);
    rig.write("a.prom", "# TYPE m gauge\nm 1\n# EOF\n");
    assert_eq!(rig.round(), [r#"m{job="j"} 1"#]);
}

#[test]
fn a_bad_file_costs_itself() {
    let mut rig = Rig::new(|config, _| {
        config.file_size_limit = 100;
        config.sample_limit = 3;
    });
    rig.write("good.prom", "m 1\n");
    rig.write("bad.prom", "b 1\n");
    rig.write("long.prom", format!("# {}\nl 1\n", "x".repeat(100)));
    rig.write(
        "many.prom",
        "m{k=\"1\"} 1\nm{k=\"2\"} 1\nm{k=\"3\"} 1\nm{k=\"4\"} 1\n",
    );
    fs::create_dir(rig.dir.join("directory.prom")).unwrap();
    assert_eq!(rig.round(), [r#"b{job="j"} 1"#, r#"m{job="j"} 1"#]);
    let up = |bad: u8| {
        [
            format!("up{{file=\"bad.prom\", job=\"j\"}} {bad}"),
            "up{file=\"good.prom\", job=\"j\"} 1".to_owned(),
            "up{file=\"long.prom\", job=\"j\"} 0".to_owned(),
            "up{file=\"many.prom\", job=\"j\"} 0".to_owned(),
        ]
    };
    assert_eq!(rig.up(), up(1));
    rig.write("bad.prom", "b{ 1\n");
    assert_eq!(rig.round(), [r#"b{job="j"} x"#, r#"m{job="j"} 1"#]);
    assert_eq!(rig.up(), up(0));
    // It is tried again in each round, and works when it is mended.
    assert_eq!(rig.round(), [r#"m{job="j"} 1"#]);
    rig.write("bad.prom", "b 2\n");
    assert_eq!(rig.round(), [r#"b{job="j"} 2"#, r#"m{job="j"} 1"#]);
    assert_eq!(rig.up(), up(1));
}

#[test]
fn the_first_file_keeps_a_series_and_hands_it_over() {
    let mut rig = Rig::new(|_, _| {});
    rig.write("a.prom", "m 1\nm{k=\"a\"} 1\n");
    rig.write("b.prom", "m 2\nm{k=\"b\"} 2\n");
    rig.write("c.prom", "m 3\n");
    let all = [
        r#"m{job="j"} 1"#,
        r#"m{job="j", k="a"} 1"#,
        r#"m{job="j", k="b"} 2"#,
    ];
    assert_eq!(rig.round(), all);
    let duplicates = |rig: &Rig| rig.stored_with("narthex_files_duplicate_samples");
    assert_eq!(
        duplicates(&rig),
        [
            r#"narthex_files_duplicate_samples{file="a.prom", job="j"} 0"#,
            r#"narthex_files_duplicate_samples{file="b.prom", job="j"} 1"#,
            r#"narthex_files_duplicate_samples{file="c.prom", job="j"} 1"#,
        ]
    );
    // The series goes on from the next file, without a marker between.
    rig.write("a.prom", "m{k=\"a\"} 4\n");
    assert_eq!(
        rig.round(),
        [
            r#"m{job="j"} 2"#,
            r#"m{job="j", k="a"} 4"#,
            r#"m{job="j", k="b"} 2"#
        ]
    );
    fs::remove_file(rig.dir.join("b.prom")).unwrap();
    assert_eq!(
        rig.round(),
        [
            r#"m{job="j"} 3"#,
            r#"m{job="j", k="a"} 4"#,
            r#"m{job="j", k="b"} x"#
        ]
    );
    // And back, when the first one has it again.
    rig.write("a.prom", "m 5\n");
    assert_eq!(rig.round(), [r#"m{job="j"} 5"#, r#"m{job="j", k="a"} x"#]);
    fs::remove_file(rig.dir.join("a.prom")).unwrap();
    fs::remove_file(rig.dir.join("c.prom")).unwrap();
    assert_eq!(rig.round(), [r#"m{job="j"} x"#]);
}

#[test]
fn labels_come_from_the_entry_the_path_and_the_file() {
    let page = "m{job=\"own\",k=\"1\",zone=\"\"} 1\n";
    let change = |honors: bool| {
        move |config: &mut narthex_files::FilesConfig, _: &TempDir| {
            config.honor_labels = honors;
            config.labels = vec![("zone".to_owned(), "z".to_owned())];
            config.path_labels = Some(PathLabels::new(".*/(?P<name>[a-c])\\.prom").unwrap());
        }
    };
    for (honors, expected) in [
        (
            false,
            r#"m{exported_job="own", job="j", k="1", name="a", zone="z"} 1"#,
        ),
        (true, r#"m{job="own", k="1", name="a"} 1"#),
    ] {
        let mut rig = Rig::new(change(honors));
        rig.write("a.prom", page);
        rig.write("x.prom", page);
        assert_eq!(rig.round(), [expected], "{honors}");
        assert_eq!(
            rig.up(),
            [r#"up{file="a.prom", job="j", name="a", zone="z"} 1"#]
        );
    }
}

#[test]
fn a_file_that_is_too_old_ends() {
    let mut rig = Rig::new(|config, _| config.stale_after = Duration::from_secs(30));
    rig.write("a.prom", "m 1\n");
    // Written ten seconds ago; a round takes place each second.
    assert_eq!(rig.round(), [r#"m{job="j"} 1"#]);
    rig.now_ms += 20_000;
    assert_eq!(rig.round(), [r#"m{job="j"} x"#]);
    assert_eq!(rig.up(), [r#"up{file="a.prom", job="j"} 0"#]);
    assert_eq!(rig.round(), Vec::<String>::new());
    rig.write("a.prom", "m 2\n");
    rig.now_ms = crate::recorder::now_ms() + 5000;
    assert_eq!(rig.round(), [r#"m{job="j"} 2"#]);
}

#[test]
fn formats_are_seen_or_said() {
    let mut rig = Rig::new(|_, _| {});
    rig.write("a.prom", "# TYPE c counter\nc_total 1 5.25\n# EOF\n");
    rig.write("b.prom", "m 1 7000\n\n# just a remark\nn 2\n");
    rig.round();
    assert_eq!(rig.recorder.at(5250), [r#"c_total{job="j"} 1"#]);
    assert_eq!(rig.recorder.at(7000), [r#"m{job="j"} 1"#]);
    // A text with an end mark, which OpenMetrics would refuse for its blank line.
    let mut rig = Rig::new(|config, _| {
        config.format = Some(Format::Text);
        config.honor_timestamps = false;
        config.require_eof = true;
    });
    rig.write("b.prom", "m 1 7000\n\n# just a remark\nn 2\n# EOF\n");
    assert_eq!(rig.round(), [r#"m{job="j"} 1"#, r#"n{job="j"} 2"#]);
}

/// Series that come and go for long make the parser begin another schema, which must not lose a marker.
#[test]
fn many_series_that_come_and_go_end_as_they_should() {
    let mut rig = Rig::new(|_, _| {});
    for round in 0..40 {
        let body: String = (0..100)
            .map(|k| format!("m{{k=\"{round}-{k}\"}} {round}\n"))
            .collect();
        rig.write("a.prom", body);
        let stored = rig.round();
        let (ended, present): (Vec<&String>, Vec<&String>) =
            stored.iter().partition(|line| line.ends_with(" x"));
        assert_eq!(present.len(), 100, "{round}");
        assert_eq!(ended.len(), if round == 0 { 0 } else { 100 }, "{round}");
        let before = format!("k=\"{}-", round - 1);
        assert!(
            ended.iter().all(|line| line.contains(&before)),
            "{round}: {ended:?}"
        );
    }
}

#[test]
fn a_page_is_read_only_if_there_is_memory_for_it() {
    let mut rig = Rig::within(Budget::new("files", 20_000), |_, _| {});
    rig.write("a.prom", "m 1\n");
    let line = "# a line that is no sample\n";
    rig.write("b.prom", format!("{}n 1\n", line.repeat(40_000)));
    let (stored, taken) = alloc::measured(|| rig.round());
    assert_eq!(stored, [r#"m{job="j"} 1"#]);
    assert_eq!(
        rig.up(),
        [
            r#"up{file="a.prom", job="j"} 1"#,
            r#"up{file="b.prom", job="j"} 0"#
        ]
    );
    assert!(taken.peak_bytes < 500_000, "{taken:?}");
    // What a page with a mistake took is free for the next one.
    rig.write("b.prom", format!("{}n{{\n", line.repeat(400)));
    rig.write("c.prom", format!("{}n 1\n", line.repeat(400)));
    assert_eq!(rig.round(), [r#"m{job="j"} 1"#, r#"n{job="j"} 1"#]);
}

/// Opening a pipe that nobody writes to would block the whole entry.
#[test]
fn a_named_pipe_is_not_opened() {
    let mut rig = Rig::new(|_, _| {});
    rig.write("a.prom", "m 1\n");
    let made = Command::new(tool("mkfifo", "coreutils"))
        .arg(rig.dir.join("b.prom"))
        .status();
    assert!(made.unwrap().success());
    assert_eq!(rig.round(), [r#"m{job="j"} 1"#]);
    assert_eq!(rig.up(), [r#"up{file="a.prom", job="j"} 1"#]);
}
