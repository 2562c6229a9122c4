//! Sources inside the process that end, and those that follow them.

use crate::support::Scraping;
use narthex_model::{ColumnId, Family, Frame, LabelSet, METRIC_NAME, Schema, cell::is_stale};
use narthex_scrape::{LocalHandle, LocalSource, Target};
use std::{sync::Arc, time::Duration};

/// One series that is always 1.
struct One(Frame);

impl LocalSource for One {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        let schema = self.0.schema().clone();
        self.0.restart(&schema, now_ms);
        self.0.set(ColumnId(0), 1.0);
        Ok(&self.0)
    }

    fn restart(&mut self) -> Result<(), String> {
        Ok(())
    }
}

fn start(scraping: &Scraping, metric: &str) -> LocalHandle {
    let target = Target::local("own", "here");
    let mut edit = Schema::new(target.labels.clone()).edit();
    let family = edit.family(Family::default());
    edit.push(&LabelSet::new([(METRIC_NAME, metric)]), family);
    let source = One(Frame::new(edit.finish(), 0));
    let interval = Duration::from_millis(100);
    scraping
        .manager
        .start_local(target, interval, Box::new(source))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_ends_with_its_series_and_another_may_follow() {
    let scraping = Scraping::idle();
    let before = start(&scraping, "before");
    scraping
        .until("it is up", |s| s.value("before") == Some(1.0))
        .await;
    // The next one begins when the series of this one have ended: `up` is stale and then 1 again.
    scraping.manager.end_local(&before);
    let after = start(&scraping, "after");
    scraping
        .until("the next is up", |s| {
            s.value("after") == Some(1.0) && s.value("up") == Some(1.0)
        })
        .await;
    assert!(is_stale(scraping.value("before").unwrap()));
    assert_eq!(scraping.manager.pool_names(), ["own"]);
    scraping.manager.end_local(&after);
    scraping
        .until("all series end", |s| {
            ["after", "up"]
                .iter()
                .all(|name| s.value(name).is_some_and(is_stale))
        })
        .await;
    assert!(scraping.manager.pool_names().is_empty());
    scraping.end().await;
}

/// Two sections of a configuration may name one job: a reload that ended the one ended the other too.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_ends_alone_although_another_has_its_job() {
    let scraping = Scraping::idle();
    let stays = start(&scraping, "stays");
    let ends = start(&scraping, "ends");
    scraping
        .until("both are up", |s| {
            ["stays", "ends"].iter().all(|n| s.value(n) == Some(1.0))
        })
        .await;
    scraping.manager.end_local(&ends);
    scraping
        .until("one ends", |s| s.value("ends").is_some_and(is_stale))
        .await;
    assert_eq!(scraping.manager.pool_names(), ["own"]);
    let follows = start(&scraping, "follows");
    scraping
        .until("the next is up", |s| s.value("follows") == Some(1.0))
        .await;
    assert_eq!(scraping.value("stays"), Some(1.0));
    for source in [&stays, &follows] {
        scraping.manager.end_local(source);
    }
    assert!(scraping.manager.pool_names().is_empty());
    scraping.end().await;
}

/// A source that ended in the millisecond of its last round kept its series: of two samples at one time the first stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_ends_after_its_last_round() {
    let scraping = Scraping::with(|store| Arc::new(store), || 1_767_225_600_000);
    let source = start(&scraping, "m");
    scraping
        .until("it is up", |s| s.value("m") == Some(1.0))
        .await;
    scraping.manager.end_local(&source);
    scraping
        .until("its series end", |s| {
            ["m", "up"]
                .iter()
                .all(|name| s.value(name).is_some_and(is_stale))
        })
        .await;
    scraping.end().await;
}
