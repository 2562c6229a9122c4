//! One target's rounds: what is stored, and what happens when the target fails.

use crate::{page::Page, support::Scraping};
use narthex_model::cell::is_stale;
use narthex_scrape::Limits;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_scraped_with_its_synthetic_series() {
    let page = Page::start("# TYPE a counter\na{x=\"1\"} 5\nb 7 1700000000000\n").await;
    let scraping = Scraping::start(&page, |job| job.extra_scrape_metrics = true);
    scraping
        .until("up is 1", |s| s.value("up") == Some(1.0))
        .await;
    let a = scraping
        .last(
            "a",
            &[("x", "1"), ("job", "test"), ("instance", &page.address())],
        )
        .unwrap();
    assert_eq!(a.cell, 5.0);
    assert_eq!(scraping.last("b", &[]).unwrap().time_ms, 1_700_000_000_000);
    assert_eq!(scraping.value("scrape_samples_scraped"), Some(2.0));
    assert_eq!(
        scraping.value("scrape_samples_post_metric_relabeling"),
        Some(2.0)
    );
    assert_eq!(scraping.value("scrape_timeout_seconds"), Some(0.08));
    assert_eq!(scraping.value("scrape_body_size_bytes"), Some(46.0));
    assert!(scraping.value("scrape_duration_seconds").unwrap() > 0.0);
    scraping
        .until("nothing is new any more", |s| {
            s.value("scrape_series_added") == Some(0.0)
        })
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn series_end_when_they_vanish_and_when_the_target_does() {
    let page = Page::start("a 1\nb 1\n").await;
    let scraping = Scraping::start(&page, |_| {});
    scraping
        .until("b is there", |s| s.value("b") == Some(1.0))
        .await;
    page.set("a 2\n");
    scraping
        .until("b has ended", |s| s.value("b").is_some_and(is_stale))
        .await;
    scraping
        .until("a goes on", |s| s.value("a") == Some(2.0))
        .await;
    page.fail(true);
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    assert!(is_stale(scraping.value("a").unwrap()));
    assert_eq!(scraping.value("scrape_samples_scraped"), Some(0.0));
    page.fail(false);
    scraping
        .until("a is back", |s| s.value("a") == Some(2.0))
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_body_stores_nothing_of_itself() {
    let page = Page::start("a 1\n").await;
    let scraping = Scraping::start(&page, |_| {});
    scraping
        .until("a is there", |s| s.value("a") == Some(1.0))
        .await;
    page.set("fresh 1\na 2\noops\n");
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    assert!(scraping.value("fresh").is_none());
    assert!(is_stale(scraping.value("a").unwrap()));
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_fail_the_whole_scrape() {
    let cases: [(&str, Limits); 3] = [
        (
            "samples",
            Limits {
                samples: 2,
                ..Limits::default()
            },
        ),
        (
            "body size",
            Limits {
                body_size_bytes: 10,
                ..Limits::default()
            },
        ),
        (
            "labels",
            Limits {
                labels: 2,
                ..Limits::default()
            },
        ),
    ];
    for (what, limits) in cases {
        let page = Page::start("a 1\nb{x=\"long enough\"} 1\nc 1\n").await;
        let scraping = Scraping::start(&page, |job| {
            job.limits = limits;
            job.extra_scrape_metrics = true;
        });
        scraping.until(what, |s| s.value("up") == Some(0.0)).await;
        assert!(scraping.value("a").is_none(), "{what}");
        let size = scraping.value("scrape_body_size_bytes").unwrap();
        assert_eq!(size == -1.0, what == "body size", "{what}: {size}");
        scraping.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn honored_labels_and_exported_ones() {
    let page = Page::start("a{job=\"own\"} 1\n").await;
    let exporting = Scraping::start(&page, |_| {});
    exporting
        .until("exported", |s| {
            s.last("a", &[("job", "test"), ("exported_job", "own")])
                .is_some()
        })
        .await;
    exporting.end().await;
    let honoring = Scraping::start(&page, |job| job.honor_labels = true);
    honoring
        .until("honored", |s| {
            s.last("a", &[("job", "own"), ("instance", &page.address())])
                .is_some()
        })
        .await;
    assert!(honoring.last("up", &[("job", "test")]).is_some());
    honoring.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_target_times_out_and_the_schedule_goes_on() {
    let page = Page::start("a 1\n").await;
    page.delay(Duration::from_millis(300));
    let scraping = Scraping::start(&page, |_| {});
    scraping
        .until("up is 0", |s| s.value("up") == Some(0.0))
        .await;
    page.delay(Duration::ZERO);
    scraping
        .until("up is 1", |s| s.value("up") == Some(1.0))
        .await;
    scraping.end().await;
}
