//! The scenario with Debian's Prometheus.

use crate::support::{figure, narthex, record, runs};
use narthex_testkit::tool;

#[test]
fn a_hundred_rules_are_evaluated_and_read_each_other() {
    let prometheus = tool("prometheus", "prometheus");
    let mut arguments = vec![format!("--server=prometheus={}", prometheus.display())];
    arguments.extend(narthex().map(|narthex| format!("--server=narthex={}", narthex.display())));
    let servers = arguments.len();
    for flag in ["rules", "--rules=100", "--targets=50", "--series=170"]
        .iter()
        .rev()
    {
        arguments.insert(0, (*flag).to_owned());
    }
    for flag in [
        "--interval=500ms",
        "--warmup=6s",
        "--duration=5s",
        "--baseline",
    ] {
        arguments.push(flag.to_owned());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let record = record(&arguments);
    assert_eq!(runs(&record).len(), 2 * servers);
    for pair in runs(&record).chunks(2) {
        let (without, with) = (&pair[0], &pair[1]);
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
}
