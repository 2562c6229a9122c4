//! The scenario with Debian's Prometheus and with our server, at once.

use crate::support::{figure, narthex, record, runs};
use narthex_testkit::tool;

#[test]
fn prometheus_evaluates_a_hundred_rules() {
    let prometheus = tool("prometheus", "prometheus");
    evaluate_a_hundred(&format!("--server=prometheus={}", prometheus.display()));
}

#[test]
fn narthex_evaluates_a_hundred_rules() {
    if let Some(narthex) = narthex() {
        evaluate_a_hundred(&format!("--server=narthex={}", narthex.display()));
    }
}

fn evaluate_a_hundred(server: &str) {
    let record = record(&[
        "rules",
        "--rules=100",
        "--targets=50",
        "--series=170",
        server,
        "--interval=500ms",
        "--warmup=6s",
        "--duration=5s",
        "--baseline",
    ]);
    let runs = runs(&record);
    assert_eq!(runs.len(), 2);
    let (without, with) = (&runs[0], &runs[1]);
    assert_eq!(without["variant"], "without rules");
    assert!(figure(without, "CPU") > 0.0);
    assert_eq!(with["variant"], "with rules");
    // 100 rules at 2 Hz, however busy the machine is: what is missed is counted.
    let evaluations = figure(with, "evaluations");
    assert!((20.0..=220.0).contains(&evaluations), "{evaluations}");
    assert!(figure(with, "evaluation p99") > 0.0 && figure(with, "missed iterations") >= 0.0);
    assert!(figure(with, "CPU an evaluation") > 0.0);
    // The first rule alone has a sample for each of three codes and service.
    assert!(figure(with, "samples of a round") > 100.0, "{with}");
    // Errors in each of five groups; saturation comes and goes.
    let firing = figure(with, "alerting rules firing");
    assert!((5.0..=10.0).contains(&firing), "{firing}");
    assert!(figure(with, "scrapes") > 100.0);
}
