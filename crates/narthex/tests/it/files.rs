//! `narthex server` with files of metrics: what is stored, and what a reload does to it.

use crate::support::{self, PATIENCE, Running, until};
use narthex_testkit::{TempDir, http};
use std::{
    fs::{self, File, FileTimes},
    path::Path,
    time::{Duration, SystemTime},
};

/// Writes a file long enough ago to be settled, as a whole.
fn write(path: &Path, text: &str) {
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).unwrap();
    let modified = SystemTime::now() - Duration::from_secs(10);
    let file = File::options().write(true).open(&temporary).unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
    fs::rename(temporary, path).unwrap();
}

/// Returns the values of an instant query by label set, paths without the directory.
fn values(server: &Running, query: &str, dir: &TempDir) -> Vec<(String, f64)> {
    let start = format!("{}/", dir.path().display());
    let found = crate::client::vector(&server.url, query, None).into_iter();
    found
        .map(|(labels, (_, value))| (labels.replace(&start, ""), value))
        .collect()
}

#[test]
fn files_are_read_and_a_reload_changes_only_what_changed() {
    let dir = TempDir::new("files");
    for name in ["game", "text"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    write(
        &dir.join("game/eu-7.prom"),
        "# TYPE m gauge\nm{k=\"1\"} 1\n",
    );
    write(&dir.join("game/us-9.prom"), "m{k=\"2\"} 2\nhalf");
    write(&dir.join("text/a.prom"), "t 3\n");
    let path_labels = r".*/(?P<region>\w+)-(?P<instance>\d+)\.prom";
    let game = format!(
        "- job_name: game\n  paths: ['game/*.prom']\n  path_labels: '{path_labels}'\n  interval: 100ms\n"
    );
    let text = "- job_name: text\n  kind: textfile\n  paths: [text]\n  interval: 100ms\n  labels: {rack: r}\n";
    let config = dir.write("p.yml", format!("files:\n{game}{text}"));
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .arg("--web.enable-lifecycle");
    let mut server = Running::of(spawn);
    server.wait_vector("m", |found| found.len() == 1);
    server.wait_vector("t", |found| found.len() == 1);
    // A half-written file counts as broken only after some looks.
    server.wait_vector("up == 0", |found| found.len() == 1);
    let game_up = r#"up{file="game/eu-7.prom",instance="7",job="game",region="eu"}"#;
    assert_eq!(
        values(&server, "up == 1", &dir),
        [(game_up.to_owned(), 1.0)]
    );
    assert_eq!(
        values(
            &server,
            "{__name__=~'m|t|node_textfile_scrape_error'}",
            &dir
        ),
        [
            (r#"m{instance="7",job="game",k="1",region="eu"}"#, 1.0),
            (r#"node_textfile_scrape_error{job="text",rack="r"}"#, 0.0),
            (r#"t{job="text",rack="r"}"#, 3.0),
        ]
        .map(|(labels, value)| (labels.to_owned(), value))
    );
    let read = |server: &Running| server.metric("narthex_files_read_total ");
    let half = write_whole(&server, &dir);
    let reload = |server: &Running| {
        http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap()
    };
    dir.write("p.yml", "files: [{job_name: game}]");
    assert_eq!(reload(&server).status, 500);
    server
        .process
        .wait_for("no paths in files config", PATIENCE);
    let more = "- job_name: more\n  paths: ['more.txt']\n  interval: 100ms\n";
    write(&dir.join("more.txt"), "n 4\n");
    dir.write("p.yml", format!("files:\n{game}{more}"));
    assert_eq!(reload(&server).status, 200);
    server.wait_vector("n", |found| found.len() == 1);
    // What was removed ends, and what did not change was not begun anew, which would read its files again.
    server.wait_vector("{job='text'}", |found| found.is_empty());
    server.wait_vector("timestamp(m) > 0", |found| found.len() == 2);
    assert_eq!(read(&server), half.map(|before| before + 1.0));
    assert_eq!(server.metric("narthex_files{job=\"game\"} "), Some(2.0));
    server.stop();
}

/// Completes the half-written file; returns how many files were read until it was seen.
fn write_whole(server: &Running, dir: &TempDir) -> Option<f64> {
    write(&dir.join("game/us-9.prom"), "m{k=\"2\"} 2\n");
    until("the file is complete", || {
        let up = values(server, "up{job='game'} == 1", dir);
        (up.len() == 2).then_some(())
    });
    server.metric("narthex_files_read_total ")
}

#[test]
fn a_check_of_the_configuration_covers_files() {
    let dir = TempDir::new("files");
    for (entry, reason) in [
        ("{job_name: a, paths: [x]}", None),
        (
            "{job_name: a, paths: [x], kind: y}",
            Some("unknown kind of files \"y\""),
        ),
    ] {
        let config = dir.write("p.yml", format!("files: [{entry}]"));
        let checked = support::narthex().args(["check", "config"]).arg(&config);
        let checked = checked.run(PATIENCE);
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert_eq!(
            checked.exit.code,
            Some(i32::from(reason.is_some())),
            "{said}"
        );
        assert!(said.contains(reason.unwrap_or_default()), "{said}");
    }
}
