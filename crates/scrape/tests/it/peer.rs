//! A real exporter: client_golang's formats, scraped one after the other, yield the same data.

use crate::support::{Scraping, job};
use narthex_discovery::{LabelMap, TargetGroup};
use narthex_expfmt::ScrapeProtocol;
use narthex_testkit::{go_program, process::Spawn};
use std::time::Duration;

/// A name, its labels and its value.
type Expected = (&'static str, &'static [(&'static str, &'static str)], f64);

/// Series of the exporter and their values, in every format that has them.
const SERIES: [Expected; 8] = [
    ("demo_requests_total", &[("code", "300")], 17.5),
    (
        "demo_temperature_celsius",
        &[("room", "room \"1\"\n")],
        -3.25,
    ),
    ("demo_classic_seconds_bucket", &[("le", "1.0")], 39.0),
    ("demo_classic_seconds_bucket", &[("le", "+Inf")], 200.0),
    ("demo_classic_seconds_count", &[], 200.0),
    ("demo_rpc_seconds_count", &[], 200.0),
    ("demo_rpc_seconds", &[("quantile", "0.5")], 6.534),
    (
        "demo_native_seconds_bucket",
        &[("path", "/a"), ("le", "0.1")],
        41.0,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_real_exporter_says_the_same_in_every_format() {
    let program = go_program("goclient");
    let mut exporter = Spawn::new(program).arg("serve").start();
    let port = exporter.wait_port("Listening on", Duration::from_secs(60));
    let groups = [TargetGroup::of_addresses(
        "g",
        [format!("127.0.0.1:{port}")],
        LabelMap::new(),
    )];
    for protocol in ScrapeProtocol::ALL {
        let scraping = Scraping::idle();
        let mut asking = job();
        asking.scrape_timeout = Duration::from_millis(100);
        asking.scrape_interval = Duration::from_millis(200);
        asking.scrape_protocols = Some(vec![protocol]);
        scraping.manager.apply(asking, &groups).unwrap();
        scraping
            .until("it is up", |s| s.value("up") == Some(1.0))
            .await;
        for (name, labels, value) in SERIES {
            let last = scraping.last(name, labels);
            assert_eq!(
                last.map(|last| last.cell),
                Some(value),
                "{protocol:?}: {name} {labels:?}"
            );
        }
        scraping.end().await;
    }
    let native = Scraping::idle();
    let mut asking = job();
    asking.scrape_timeout = Duration::from_millis(100);
    asking.scrape_native_histograms = true;
    asking.start_times.are_stored = true;
    native.manager.apply(asking, &groups).unwrap();
    native
        .until("it is up", |s| s.value("up") == Some(1.0))
        .await;
    let last = native
        .last("demo_native_seconds", &[("path", "/")])
        .unwrap();
    let histogram = last.histogram.unwrap();
    assert_eq!(
        (histogram.count, histogram.sum),
        (200.0, 1564.4666666666667)
    );
    assert!(
        histogram.integer_counts && histogram.histogram_schema == 3,
        "{histogram:?}"
    );
    assert!(last.start_time_ms > 1_700_000_000_000);
    assert!(native.value("demo_native_seconds_count").is_none());
    native.end().await;
}
