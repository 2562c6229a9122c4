//! Two of Debian's node exporters, scraped in turn and compared.

use crate::support::{figure, record, refused, runs};
use narthex_testkit::tool;

#[test]
fn two_exporters_of_one_kind_cost_something_and_say_the_same() {
    let exporter = tool("prometheus-node-exporter", "prometheus-node-exporter");
    let server = |label: &str| format!("--server=node_exporter@{label}={}", exporter.display());
    let (one, two) = (server("one"), server("two"));
    let record = record(&[
        "exporter",
        &one,
        &two,
        "--scrapes=5",
        "--interval=1ms",
        "--syscalls",
    ]);
    let runs = runs(&record);
    assert_eq!(runs.len(), 4);
    for run in runs {
        assert!(
            figure(run, "CPU a scrape") > 0.0 && figure(run, "RSS") > 1.0,
            "{run}"
        );
        assert!(figure(run, "time of a scrape P50") <= figure(run, "time of a scrape P99"));
        if run["variant"] == "identity" {
            assert!(figure(run, "series") > 100.0 && figure(run, "families") > 50.0);
        }
    }
    let size = |variant: &str| {
        let mut runs = runs.iter().filter(|run| run["variant"] == variant);
        figure(runs.next().expect("a run"), "size of a page")
    };
    assert!(size("gzip") < size("identity"));
    let notes = record["notes"].to_string();
    assert!(
        notes.contains("node_exporter@two against node_exporter@one: "),
        "{notes}"
    );
    let titles: Vec<&str> = record["differences"]
        .as_array()
        .expect("tables")
        .iter()
        .map(|table| table["title"].as_str().expect("a text"))
        .collect();
    let alike = ["families only", "types and help texts"];
    for title in &titles {
        assert!(
            !alike.iter().any(|start| title.starts_with(start)),
            "{titles:?}"
        );
    }
    // Where tracing is not allowed, a note says so.
    if !notes.contains("System calls are not counted") {
        assert!(figure(&runs[0], "system calls a scrape") > 10.0);
        assert!(
            titles
                .iter()
                .any(|title| title.starts_with("system calls a scrape"))
        );
    }
}

#[test]
fn an_exporter_that_a_program_does_not_have_is_not_measured() {
    let reason = refused(&["exporter", "--server=narthex=/bin/false"]);
    assert!(
        reason.contains("narthex has no node-exporter command"),
        "{reason}"
    );
}
