//! A recording of Debian's node_exporter, served again to Debian's Prometheus.

use crate::support::{figure, record, runs};
use narthex_testkit::{TempDir, process::Spawn, tool};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

fn bench(arguments: &[&str]) -> (Option<i32>, String) {
    let finished = Spawn::new(env!("CARGO_BIN_EXE_narthex-bench"))
        .args(arguments.iter().copied())
        .run(LIMIT);
    let output = format!("{}{}", finished.stdout, finished.stderr);
    (finished.exit.code, output)
}

#[test]
fn what_is_recorded_is_stored_bit_by_bit() {
    let dir = TempDir::new("bench-replay");
    let corpus = dir.join("corpus");
    let program = tool("prometheus-node-exporter", "prometheus-node-exporter");
    let mut exporter = Spawn::new(program)
        .arg("--web.listen-address=127.0.0.1:0")
        .start();
    let port = exporter.wait_port("Listening on", Duration::from_secs(60));
    let (code, output) = bench(&[
        "record-scrapes",
        &format!("--target=node=http://127.0.0.1:{port}"),
        "--interval=1s",
        "--count=6",
        &format!("--out={}", corpus.display()),
    ]);
    drop(exporter);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("node: 6 rounds, "), "{output}");
    let prometheus = tool("prometheus", "prometheus");
    let corpus_flag = format!("--corpus={}", corpus.display());
    let server = format!("--server=prometheus={}", prometheus.display());
    for compression in ["1", "2"] {
        let compression = format!("--compress-time={compression}");
        let arguments = ["replay", &corpus_flag, &server, &compression, "--settle=0s"];
        let record = record(&arguments);
        let (run, notes) = (&runs(&record)[0], &record["notes"]);
        assert_eq!(figure(run, "scrapes served"), 6.0);
        let series = figure(run, "series of the last round");
        assert!(series > 100.0, "{series}");
        let compared = figure(run, "samples read back");
        assert!(compared >= 200.0, "{compared}");
        for key in ["samples with other bits", "samples nobody served"] {
            assert_eq!(figure(run, key), 0.0, "{key}: {notes}");
        }
        // On a busy machine the server may abort a scrape whose response was on its way.
        assert!(figure(run, "samples missing") <= compared / 2.0, "{notes}");
        assert!(figure(run, "at rest, a sample") > 0.0);
    }
    // A damaged file is refused with the position, before any server starts.
    let file = corpus.join("node.scrapes");
    let mut bytes = std::fs::read(&file).expect("the file is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("the file can be written");
    let (code, output) = bench(&["replay", &corpus_flag, &server]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("node.scrapes: line "), "{output}");
}
