//! The committed queries over a small dataset: Debian's Prometheus, and ours beside it.

use crate::support::{figure, narthex, record, refused, runs};
use narthex_testkit::{TempDir, tool};
use serde_json::Value;

const SMALL: &[&str] = &[
    "query",
    "--series=4000",
    "--duration=10m",
    "--interval=30s",
    "--rounds=2",
];

#[test]
fn servers_take_the_same_samples_and_their_answers_are_compared() {
    let prometheus = tool("prometheus", "prometheus");
    let prometheus = format!("--server=prometheus={}", prometheus.display());
    let ours = narthex().map(|path| format!("--server=narthex={}", path.display()));
    let mut line = SMALL.to_vec();
    line.extend(ours.as_deref());
    line.push(&prometheus);
    let record = record(&line);
    let servers = record["subjects"].as_array().expect("subjects").len();
    assert_eq!(runs(&record).len(), servers * 2);
    for run in runs(&record) {
        for class in ["small", "scan", "metadata"] {
            let p50 = figure(run, &format!("{class} queries p50"));
            assert!(p50 > 0.0 && p50 <= figure(run, &format!("{class} queries p99")));
        }
        assert!(figure(run, "RSS peak") > 1.0);
        let is_warm = run["variant"] == "warm";
        let of_query = run["distributions"].as_array().expect("distributions");
        let of_query = of_query
            .iter()
            .find(|one| one["key"] == "count of everything");
        let times = of_query.expect("each query has one")["count"].as_u64();
        assert_eq!(times, Some(if is_warm { 2 } else { 1 }));
    }
    let rows = record["differences"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 20);
    let row = |name: &str| -> &Value {
        let row = rows.iter().find(|row| row[0] == name);
        row.unwrap_or_else(|| panic!("{name} is missing"))
    };
    assert_eq!(row("count of everything")[1], "4000");
    assert_eq!(row("values of pod")[2], "80");
    assert_eq!(row("services with most errors")[2], "4");
    if servers == 2 {
        for name in [
            "sum by rate",
            "p90 of all services",
            "CPU by version",
            "series of pod_info",
        ] {
            let agreement = row(name)[3].as_str().expect("a text");
            assert!(
                agreement == "equal" || agreement.starts_with("within"),
                "{name}: {agreement}"
            );
        }
    }
}

#[test]
fn a_wrong_list_of_queries_is_refused_with_its_place() {
    let dir = TempDir::new("bench-queries");
    let file = dir.write("q.yml", "queries:\n  - {name: a, class: b, kind: often}\n");
    let flag = format!("--queries={}", file.display());
    let reason = refused(&["query", &flag]);
    assert!(
        reason.contains("q.yml:2:31: unknown variant `often`"),
        "{reason}"
    );
    assert!(refused(&["query", "--series=51"]).contains("51 is not a multiple of 50"));
    assert!(refused(&["query", "--queries=/nowhere"]).contains("/nowhere: No such file"));
}
