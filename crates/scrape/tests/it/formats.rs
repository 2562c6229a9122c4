//! Formats: how they are requested, detected and guessed, and what gets stored.

use crate::{page::Page, support::Scraping};
use narthex_expfmt::{Negotiated, ScrapeProtocol, Writer};
use narthex_model::{
    Exemplar, Family, Frame, Histogram, LabelSet, MetricType, Schema,
    histogram::Span,
    labels::NameScheme,
    relabel::{Action, RelabelConfig, Rule},
    storage::{Context, SeriesQuery, Store, TimeRange},
};
use std::sync::Arc;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// A page with a native histogram and its exemplar.
fn messages() -> Vec<u8> {
    let mut edit = Schema::new(LabelSet::empty()).edit();
    let family = edit.family(Family {
        name: "h".into(),
        metric_type: MetricType::Histogram,
        help: "Help.".into(),
        unit: "".into(),
    });
    let column = edit.push(&LabelSet::new([("__name__", "h")]), family);
    let mut frame = Frame::new(edit.finish(), 0);
    let histogram = Histogram {
        histogram_schema: 3,
        integer_counts: true,
        count: 8.0,
        positive_spans: vec![Span {
            offset: 1,
            length: 4,
        }],
        positive_buckets: vec![2.0; 4],
        ..Histogram::default()
    };
    frame.set_histogram(column, Arc::new(histogram));
    let exemplar = Exemplar {
        labels: LabelSet::new([("trace_id", "abc")]),
        value: 1.5,
        time_ms: Some(1_700_000_000_000),
    };
    frame.push_exemplar(column, exemplar);
    let mut page = Vec::new();
    Writer::new(frame.schema(), Negotiated::from_accept(PROTOBUF)).write(&frame, &mut page);
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_say_what_prometheus_says() {
    let page = Page::start("a 1\n").await;
    let scraping = Scraping::start(&page, |_| {});
    scraping.until("it is asked", |_| page.asked() > 0).await;
    assert_eq!(
        page.header("accept").unwrap(),
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    );
    assert_eq!(page.header("accept-encoding").unwrap(), "gzip");
    assert_eq!(
        page.header("x-prometheus-scrape-timeout-seconds").unwrap(),
        "0.08"
    );
    scraping.end().await;
    let asked = page.asked();
    let choosy = Scraping::start(&page, |job| {
        job.scrape_protocols = Some(vec![
            ScrapeProtocol::PrometheusProto,
            ScrapeProtocol::PrometheusText1_0_0,
        ]);
        job.metric_name_validation_scheme = NameScheme::Legacy;
        job.enable_compression = false;
    });
    choosy.until("it is asked", |_| page.asked() > asked).await;
    assert_eq!(
        page.header("accept").unwrap(),
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
text/plain;version=1.0.0;escaping=underscores;q=0.5,*/*;q=0.4"
    );
    assert_eq!(page.header("accept-encoding").unwrap(), "identity");
    choosy.end().await;
    let asked = page.asked();
    let modern = Scraping::start(&page, |job| job.accept_zstd = true);
    modern.until("it is asked", |_| page.asked() > asked).await;
    assert_eq!(page.header("accept-encoding").unwrap(), "zstd,gzip");
    modern.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_read_as_their_type_says() {
    let page =
        Page::start("# TYPE a counter\na_total 1 # {trace_id=\"x\"} 0.5 1700000000\n# EOF\n").await;
    page.set_type(Some(OPENMETRICS));
    let scraping = Scraping::start(&page, |_| {});
    scraping
        .until("a_total is there", |s| s.value("a_total") == Some(1.0))
        .await;
    let exemplars = |scraping: &Scraping| {
        let view = scraping.store.view(TimeRange::ALL).unwrap();
        let query = SeriesQuery::all(TimeRange::ALL);
        view.exemplars(&query, &Context::unlimited()).unwrap()
    };
    assert_eq!(exemplars(&scraping).len(), 1);
    // Without its end mark the body is rejected whole.
    page.set("# TYPE a counter\na_total 1\n");
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    page.set_type(Some(PROTOBUF));
    page.set(messages());
    scraping
        .until("up is 1", |s| s.value("up") == Some(1.0))
        .await;
    // Without native histograms, it is a classic one with a single bucket.
    scraping
        .until("the classic bucket is there", |s| {
            s.value("h_bucket") == Some(8.0)
        })
        .await;
    scraping.end().await;
    let native = Scraping::start(&page, |job| {
        job.scrape_native_histograms = true;
        job.limits.native_histogram_buckets = 2;
    });
    native
        .until("the histogram is there", |s| s.last("h", &[]).is_some())
        .await;
    let histogram = native.last("h", &[]).unwrap().histogram.unwrap();
    assert_eq!(
        (histogram.count, histogram.histogram_schema),
        (8.0, 2),
        "{histogram:?}"
    );
    assert_eq!(exemplars(&native).len(), 1);
    native.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_types_are_guessed_or_configured() {
    let page = Page::start("# TYPE a counter\na_total 1\n# EOF\n").await;
    for odd in [None, Some("application/octet-stream"), Some("nonsense")] {
        page.set_type(odd);
        page.set("# TYPE a counter\na_total 1\n# EOF\n");
        let guessing = Scraping::start(&page, |_| {});
        guessing
            .until("up is 1", |s| s.value("up") == Some(1.0))
            .await;
        page.set(messages());
        guessing
            .until("messages are told", |s| s.value("h_count") == Some(8.0))
            .await;
        guessing.end().await;
        page.set("a 1\n");
        let told = Scraping::start(&page, |job| {
            job.fallback_scrape_protocol = Some(ScrapeProtocol::OpenMetricsText1_0_0);
        });
        told.until("up is 0", |s| s.value("up") == Some(0.0)).await;
        told.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn series_are_relabelled_and_counted() {
    let page = Page::start("keep{x=\"1\"} 1\ndrop_me 2\ndrop_too 3\n").await;
    let rule = |action, regex: &str, target: &str, replacement: &str| {
        let config = RelabelConfig {
            source_labels: vec!["__name__".into()],
            regex: Some(regex.into()),
            target_label: target.into(),
            replacement: replacement.into(),
            action: Some(action),
            ..RelabelConfig::default()
        };
        Rule::new(config, NameScheme::Utf8).unwrap()
    };
    let scraping = Scraping::start(&page, |job| {
        job.metric_relabel_configs = vec![
            rule(Action::Drop, "drop_.*", "", "$1"),
            rule(Action::Replace, "(.*)", "__name__", "kept_$1"),
            rule(Action::Replace, ".*", "instance", "same"),
        ];
        job.limits.samples = 1;
    });
    scraping
        .until("up is 1", |s| s.value("up") == Some(1.0))
        .await;
    assert!(
        scraping
            .last("kept_keep", &[("instance", "same")])
            .is_some()
    );
    assert!(scraping.value("keep").is_none() && scraping.value("drop_me").is_none());
    assert_eq!(scraping.value("scrape_samples_scraped"), Some(3.0));
    assert_eq!(
        scraping.value("scrape_samples_post_metric_relabeling"),
        Some(1.0)
    );
    page.set("keep{x=\"1\"} 1\nkeep{x=\"2\"} 1\ndrop_me 2\n");
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    // A rejected scrape is counted all the same.
    assert_eq!(scraping.value("scrape_samples_scraped"), Some(3.0));
    assert_eq!(
        scraping.value("scrape_samples_post_metric_relabeling"),
        Some(2.0)
    );
    scraping.end().await;
}
