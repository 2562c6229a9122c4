//! What collectors cost, as the source and the landing page report it.

use narthex_host::CollectorKind::{Loadavg, Meminfo, Textfile};
use narthex_host::{HostConfig, HostSource};

use crate::support::{Tree, of_family, samples};

fn tree() -> (Tree, HostConfig) {
    let tree = Tree::new("host-cost");
    let many: String = (0..900)
        .map(|at| format!("jobs{{at=\"{at}\"}} {at}\n"))
        .collect();
    tree.write("files/a.prom", &many);
    let config = HostConfig {
        textfile_directories: vec![tree.dir.join("files").display().to_string()],
        ..tree.config(&[Loadavg, Meminfo, Textfile])
    };
    (tree, config)
}

#[test]
fn a_measured_round_says_who_read_and_wrote_what() {
    let (tree, config) = tree();
    let mut host = HostSource::new(config).expect("valid");
    host.collect(0);
    let costs = host.collect_measured(1);
    let kinds: Vec<_> = costs.iter().map(|cost| cost.kind).collect();
    assert_eq!(kinds, [Loadavg, Meminfo, Textfile]);
    let [load, _, text] = &costs[..] else {
        panic!("{costs:?}")
    };
    let read = load.cost.expect("measured");
    let file = std::fs::read(tree.dir.join("proc/loadavg")).expect("there");
    assert_eq!(read.read_bytes, file.len() as u64);
    assert!((1..=2).contains(&read.calls), "{read:?}");
    assert_eq!((load.series, text.series), (3, 902));
    // Each line is about `jobs{at="123"} 123`.
    assert!((900 * 15..900 * 22).contains(&text.page_bytes), "{text:?}");
    assert!(text.cost.expect("measured").calls >= 2, "{text:?}");
    assert!(costs.iter().all(|cost| cost.error.is_none()), "{costs:?}");
}

#[test]
fn costs_are_series_on_request() {
    let (_tree, config) = tree();
    let config = HostConfig {
        cost_metrics: true,
        ..config
    };
    let mut host = HostSource::new(config).expect("valid");
    let mut calls = Vec::new();
    for now_ms in 0..4 {
        let round = samples(host.collect(now_ms));
        let of = |family: &str, kind: &str| {
            round[&format!(r#"narthex_host_collector_{family}{{collector="{kind}"}}"#)]
        };
        calls.push((
            of("system_calls_total", "loadavg"),
            of("system_calls_total", "textfile"),
        ));
        if now_ms > 1 {
            assert_eq!(of("series", "textfile"), 902.0);
            assert!(of("page_bytes", "textfile") > 900.0 * 15.0);
        }
        assert!(of("cpu_seconds_total", "loadavg") > 0.0);
        assert!(of("read_bytes_total", "meminfo") > 0.0);
        assert_eq!(of_family(&round, "narthex_host_collector_series").len(), 3);
    }
    assert!(
        calls.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
        "{calls:?}"
    );
}
