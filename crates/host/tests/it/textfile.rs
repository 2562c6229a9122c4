//! Files that other programs wrote: node_exporter's cases, and files that change, break and hang.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use narthex_host::CollectorKind::{Loadavg, Textfile};
use narthex_host::{HostConfig, HostSource};
use narthex_testkit::corpora;

use crate::support::{Families, Samples, Tree, families, of_family, parse_text, samples};

const MTIME: &str = "node_textfile_mtime_seconds";
const ERROR: &str = "node_textfile_scrape_error";

/// Directories below the corpus, and the resulting page.
const CASES: [(&[&str], &str); 16] = [
    (&["no_metric_files"], "no_metric_files"),
    (&["two_metric_files"], "two_metric_files"),
    (&["nonexistent_path"], "nonexistent_path"),
    (&["client_side_timestamp"], "client_side_timestamp"),
    (&["different_metric_types"], "different_metric_types"),
    (&["inconsistent_metrics"], "inconsistent_metrics"),
    (&["histogram"], "histogram"),
    (&["histogram_extra_dimension"], "histogram_extra_dimension"),
    (&["summary"], "summary"),
    (&["summary_extra_dimension"], "summary_extra_dimension"),
    (
        &["histogram_extra_dimension", "summary_extra_dimension"],
        "glob_extra_dimension",
    ),
    (&["*_extra_dimension"], "glob_extra_dimension"),
    (&["metrics_merge_empty_help"], "metrics_merge_empty_help"),
    (&["metrics_merge_no_help"], "metrics_merge_no_help"),
    (&["metrics_merge_same_help"], "metrics_merge_same_help"),
    (
        &["metrics_merge_different_help"],
        "metrics_merge_different_help",
    ),
];

fn source(tree: &Tree, directories: &[String]) -> HostSource {
    HostSource::new(HostConfig {
        textfile_directories: directories.to_vec(),
        ..tree.config(&[Textfile, Loadavg])
    })
    .expect("valid")
}

/// Returns the files' series: without the host's own and the files' times.
fn theirs((mut samples, mut families): (Samples, Families)) -> (Samples, Families) {
    let is_theirs = |name: &str| {
        !["node_load", "node_scrape", "node_exporter_build", MTIME]
            .iter()
            .any(|begin| name.starts_with(begin))
    };
    samples.retain(|series, _| is_theirs(series));
    families.retain(|name, _| is_theirs(name));
    (samples, families)
}

/// Formats bucket bounds as client_golang does: as short as possible.
fn with_short_bounds(samples: Samples) -> Samples {
    let shorten = |series: String| {
        let start = ["{le=\"", ",le=\""]
            .iter()
            .find_map(|mark| Some(series.find(mark)? + mark.len()));
        let Some(start) = start else { return series };
        let (before, rest) = series.split_at(start);
        let (bound, after) = rest.split_once('"').expect("a closed quote");
        let bound: f64 = bound.parse().expect("a number");
        format!("{before}{bound:?}\"{after}")
    };
    samples
        .into_iter()
        .map(|(series, value)| (shorten(series), value))
        .collect()
}

#[test]
fn node_exporters_cases() {
    let Some(dir) = corpora::dir("node-exporter") else {
        return corpora::report("text files", 0, CASES.len());
    };
    let dir = dir.join("textfile");
    let tree = Tree::new("host-textfile-cases");
    for (directories, page) in CASES {
        let paths = directories
            .iter()
            .map(|name| dir.join(name).display().to_string());
        let mut host = source(&tree, &paths.collect::<Vec<_>>());
        let expected = std::fs::read_to_string(dir.join(format!("{page}.out"))).expect("a page");
        let (mut expected, expected_families) = theirs(parse_text(&expected));
        // node_exporter adds a sum and a count of 0 to a summary that has only quantiles.
        expected.retain(|series, value| {
            let is_made_up = ["_sum{handler=", "_count{handler="]
                .iter()
                .any(|part| series.contains(part));
            !(is_made_up && *value == 0.0)
        });
        for round in 0..2 {
            let frame = host.collect(round);
            let (ours, our_families) = theirs((samples(frame), families(frame)));
            assert_eq!(
                with_short_bounds(ours),
                with_short_bounds(expected.clone()),
                "{directories:?}, round {round}"
            );
            for (name, (kind, help)) in &expected_families {
                let shown = help.replace("fixtures/textfile", &dir.display().to_string());
                assert_eq!(our_families[name], (kind.clone(), shown), "{directories:?}");
            }
        }
    }
    corpora::report("text files", CASES.len(), CASES.len());
}

#[test]
fn files_come_change_break_and_go() {
    let tree = Tree::new("host-textfile");
    let directory = tree.dir.join("files");
    tree.write("files/a.prom", "# TYPE jobs counter\njobs 1\n");
    let mut host = source(&tree, &[directory.display().to_string()]);
    let mut round = |now_ms| samples(host.collect(now_ms));

    let first = round(0);
    assert_eq!((first["jobs"], first[ERROR]), (1.0, 0.0));
    assert_eq!(of_family(&first, MTIME).len(), 1);

    tree.write("files/a.prom", "# TYPE jobs counter\njobs 2\n");
    tree.write("files/b.prom", "other{a=\"x y\\\"z\"} 5\n");
    let second = round(1);
    assert_eq!(
        (second["jobs"], second["other{a=\"x y\\\"z\"}"]),
        (2.0, 5.0)
    );

    // Half written: the file's series are gone, the other's stay.
    tree.write("files/a.prom", "jobs 3\nhalf");
    let broken = round(2);
    assert_eq!((broken.get("jobs"), broken[ERROR]), (None, 1.0));
    assert_eq!(of_family(&broken, MTIME).len(), 1);
    assert!(broken.contains_key("other{a=\"x y\\\"z\"}"));

    tree.write("files/a.prom", "jobs 4\n");
    std::fs::remove_file(directory.join("b.prom")).expect("it was written");
    let mended = round(3);
    assert_eq!((mended["jobs"], mended[ERROR]), (4.0, 0.0));
    assert_eq!(of_family(&mended, MTIME).len(), 1);
}

#[test]
fn a_label_that_all_series_have_is_exported() {
    let tree = Tree::new("host-textfile-common");
    tree.write("files/a.prom", "jobs{job=\"mine\"} 1\n");
    let mut host = HostSource::new(HostConfig {
        textfile_directories: vec![tree.dir.join("files").display().to_string()],
        common: narthex_model::LabelSet::new([("job", "node")]),
        ..tree.config(&[Textfile])
    })
    .expect("valid");
    let round = samples(host.collect(0));
    assert_eq!(round[r#"jobs{exported_job="mine",job="node"}"#], 1.0);
}

/// Opening a named pipe hangs until somebody writes to it.
#[test]
fn a_file_that_hangs_costs_a_thread_and_not_the_round() {
    let tree = Tree::new("host-textfile-hangs");
    tree.write("files/a.prom", "jobs 1\n");
    let pipe = tree.dir.join("files/b.prom");
    let mut host = HostSource::new(HostConfig {
        textfile_directories: vec![tree.dir.join("files").display().to_string()],
        wait_ms: 0,
        max_age_ms: u32::MAX,
        ..tree.config(&[Textfile, Loadavg])
    })
    .expect("valid");
    // Until the first run has ended there is nothing to serve.
    let mut now_ms = 0;
    let mut round = |host: &mut HostSource| {
        now_ms += 1;
        samples(host.collect(now_ms))
    };
    while !round(&mut host).contains_key("jobs") {
        std::thread::yield_now();
    }
    make_pipe(&pipe);
    // Once a run hangs in it, rounds continue with the known values.
    for _ in 0..20 {
        let served = round(&mut host);
        assert_eq!(served["jobs"], 1.0);
        assert_eq!(served["node_load1"], 0.01);
        assert_eq!(
            served[r#"node_scrape_collector_success{collector="loadavg"}"#],
            1.0
        );
    }
    drop(host);
    // Release anything that still hangs in the pipe, so that it ends.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let _ = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(nonblocking)
        .open(&pipe);
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.expect("coreutils").success());
}
