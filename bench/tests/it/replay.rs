//! A recording of Debian's node_exporter, served again to Debian's Prometheus.

use narthex_testkit::{TempDir, process::Spawn, tool};
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

fn bench(arguments: &[&str]) -> (Option<i32>, String) {
    let finished = Spawn::new(env!("CARGO_BIN_EXE_narthex-bench"))
        .args(arguments.iter().copied())
        .run(LIMIT);
    let output = format!("{}{}", finished.stdout, finished.stderr);
    (finished.exit.code, output)
}

fn figure(run: &Value, key: &str) -> f64 {
    let mut figures = run["figures"].as_array().expect("figures").iter();
    let figure = figures.find(|figure| figure["key"] == key);
    let value = figure.and_then(|figure| figure["value"].as_f64());
    value.unwrap_or_else(|| panic!("{key} is missing"))
}

#[test]
fn what_is_recorded_is_stored_bit_by_bit() {
    let dir = TempDir::new("bench-replay");
    let (corpus, record) = (dir.join("corpus"), dir.join("record.json"));
    let program = tool("prometheus-node-exporter", "prometheus-node-exporter");
    let mut exporter = Spawn::new(program)
        .arg("--web.listen-address=127.0.0.1:0")
        .start();
    let port = exporter.wait_port("Listening on", Duration::from_secs(60));
    let (code, output) = bench(&[
        "record-scrapes",
        &format!("--target=node=http://127.0.0.1:{port}"),
        "--interval=200ms",
        "--count=10",
        &format!("--out={}", corpus.display()),
    ]);
    drop(exporter);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("node: 10 rounds, "), "{output}");
    let prometheus = tool("prometheus", "prometheus");
    let (corpus_flag, dir_flag) = (
        format!("--corpus={}", corpus.display()),
        format!("--dir={}", dir.path().display()),
    );
    let server = format!("--server=prometheus={}", prometheus.display());
    for compression in ["1", "2"] {
        let (code, output) = bench(&[
            "replay",
            &corpus_flag,
            &dir_flag,
            &server,
            &format!("--compress-time={compression}"),
            "--settle=0s",
            &format!("--out={}", record.display()),
        ]);
        assert_eq!(code, Some(0), "{output}");
        let text = std::fs::read_to_string(&record).expect("the record is written");
        let json: Value = serde_json::from_str(&text).expect("the record is JSON");
        let run = &json["runs"][0];
        assert_eq!(figure(run, "scrapes served"), 10.0);
        let series = figure(run, "series of the last round");
        assert!(series > 100.0, "{series}");
        assert!(figure(run, "samples read back") >= 250.0, "{output}");
        for key in [
            "samples missing",
            "samples with other bits",
            "samples nobody served",
        ] {
            assert_eq!(figure(run, key), 0.0, "{key}: {output}");
        }
        assert!(figure(run, "at rest, a sample") > 0.0);
    }
    // A damaged file is refused with its place, before any server starts.
    let file = corpus.join("node.scrapes");
    let mut bytes = std::fs::read(&file).expect("the file is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("the file can be written");
    let (code, output) = bench(&["replay", &corpus_flag, &dir_flag, &server]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("node.scrapes: byte "), "{output}");
    assert!(output.contains("a block's checksum is wrong"), "{output}");
}
