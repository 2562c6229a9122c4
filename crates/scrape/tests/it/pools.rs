//! Pools: targets discovered, dropped, changed and gone, and the API's view of them.

use crate::{
    page::Page,
    support::{Scraping, job, parse_selector},
};
use narthex_discovery::{LabelMap, TargetGroup};
use narthex_model::{
    cell::is_stale,
    labels::NameScheme,
    relabel::{Action, RelabelConfig, Rule},
};
use narthex_net::{Server, ServerConfig, Stopper};
use narthex_scrape::{RouteLimits, routes};
use narthex_testkit::http;
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

fn group(addresses: &[String]) -> TargetGroup {
    TargetGroup::of_addresses("g", addresses.iter().cloned(), LabelMap::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_targets_go_on_and_gone_ones_end() {
    let (stays, goes) = (Page::start("a 1\n").await, Page::start("b 1\n").await);
    let scraping = Scraping::idle();
    let both = [group(&[stays.address(), goes.address()])];
    scraping.manager.apply(job(), &both).unwrap();
    scraping
        .until("both are there", |s| {
            s.value("a") == Some(1.0) && s.value("b") == Some(1.0)
        })
        .await;
    scraping
        .until("nothing is new", |s| {
            s.last("scrape_series_added", &[("instance", &stays.address())])
                .is_some_and(|last| last.cell == 0.0)
        })
        .await;
    scraping
        .manager
        .apply(job(), &[group(&[stays.address()])])
        .unwrap();
    scraping
        .until("b has ended", |s| s.value("b").is_some_and(is_stale))
        .await;
    let up = |s: &Scraping| s.last("up", &[("instance", &goes.address())]).unwrap().cell;
    scraping
        .until("its up has ended", |s| is_stale(up(s)))
        .await;
    let asked = stays.asked();
    scraping
        .until("the other goes on", |_| stays.asked() > asked + 2)
        .await;
    let added = scraping.last("scrape_series_added", &[("instance", &stays.address())]);
    assert_eq!(added.unwrap().cell, 0.0, "its series are known still");
    scraping.manager.retain(&BTreeSet::new());
    scraping
        .until("a has ended", |s| s.value("a").is_some_and(is_stale))
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_comes_back_in_time_never_ended() {
    let page = Page::start("a 1\n").await;
    let scraping = Scraping::idle();
    let mut slow = job();
    slow.scrape_interval = Duration::from_millis(400);
    let here = [group(&[page.address()])];
    scraping.manager.apply(slow.clone(), &here).unwrap();
    scraping
        .until("a is there", |s| s.value("a") == Some(1.0))
        .await;
    scraping.manager.apply(slow.clone(), &[]).unwrap();
    scraping.manager.apply(slow, &here).unwrap();
    page.set("a 2\n");
    scraping
        .until("a goes on", |s| {
            let a = s.value("a").unwrap();
            assert!(!is_stale(a), "a never ends");
            a == 2.0
        })
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_job_is_followed_by_running_loops() {
    let page = Page::start("a{job=\"own\"} 1\n").await;
    let scraping = Scraping::idle();
    let here = [group(&[page.address()])];
    scraping.manager.apply(job(), &here).unwrap();
    scraping
        .until("labels are exported", |s| {
            s.last("a", &[("exported_job", "own")]).is_some()
        })
        .await;
    let mut honoring = job();
    honoring.honor_labels = true;
    honoring.extra_scrape_metrics = true;
    honoring.limits.samples = 5;
    scraping.manager.apply(honoring, &here).unwrap();
    scraping
        .until("labels are honored", |s| {
            s.last("a", &[("job", "own")]).is_some()
        })
        .await;
    scraping
        .until("the other series has ended", |s| {
            s.last("a", &[("exported_job", "own")])
                .is_some_and(|last| is_stale(last.cell))
        })
        .await;
    scraping
        .until("up goes on", |s| {
            s.value("up") == Some(1.0) && s.value("scrape_sample_limit") == Some(5.0)
        })
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_targets_fail_all() {
    let pages = [Page::start("a 1\n").await, Page::start("b 1\n").await];
    let addresses = pages.each_ref().map(Page::address);
    let scraping = Scraping::idle();
    let mut limited = job();
    limited.limits.targets = 1;
    scraping
        .manager
        .apply(limited.clone(), &[group(&addresses)])
        .unwrap();
    scraping
        .until("both are down", |s| {
            addresses.iter().all(|address| {
                s.last("up", &[("instance", address)])
                    .is_some_and(|up| up.cell == 0.0)
            })
        })
        .await;
    assert_eq!(pages[0].asked() + pages[1].asked(), 0);
    scraping
        .manager
        .apply(limited, &[group(&addresses[..1])])
        .unwrap();
    scraping
        .until("one is up", |s| s.value("a") == Some(1.0))
        .await;
    scraping.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
async fn the_api_shows_targets_pools_and_metadata() {
    let page = Page::start("# HELP a_total Help.\n# TYPE a_total counter\na_total 1\nb 2\n").await;
    let scraping = Scraping::idle();
    let mut dropping = job();
    let config = RelabelConfig {
        source_labels: vec!["__address__".into()],
        regex: Some("dropped.*".into()),
        action: Some(Action::Drop),
        ..RelabelConfig::default()
    };
    dropping.relabel_configs = vec![Rule::new(config, NameScheme::Utf8).unwrap()];
    dropping.limits.keep_dropped_targets = 1;
    let addresses = [
        page.address(),
        "dropped-1:1".into(),
        "dropped-2:1".into(),
        "bad/host".into(),
    ];
    scraping
        .manager
        .apply(dropping, &[group(&addresses), group(&addresses[..1])])
        .unwrap();
    scraping
        .until("up is 1", |s| s.value("up") == Some(1.0))
        .await;
    let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default())
        .await
        .unwrap();
    let base = format!("http://{}/api/v1", server.local_addrs()[0]);
    let (stopper, stop) = Stopper::new();
    tokio::spawn(server.serve(
        routes(
            Arc::clone(&scraping.manager),
            RouteLimits::default(),
            parse_selector,
        ),
        stop,
    ));
    let get = |path: &str| {
        let url = format!("{base}{path}");
        async move {
            let answer = tokio::task::spawn_blocking(move || http::get(&url).unwrap())
                .await
                .unwrap();
            serde_json::from_str::<Value>(&answer.text()).unwrap()
        }
    };
    let all = get("/targets").await;
    let data = &all["data"];
    assert_eq!(
        data["activeTargets"].as_array().unwrap().len(),
        1,
        "one target, however often it is found"
    );
    let target = &data["activeTargets"][0];
    assert_eq!(target["scrapePool"], "test");
    assert_eq!(target["health"], "up");
    assert_eq!(target["scrapeInterval"], "100ms");
    assert_eq!(
        target["discoveredLabels"]["__address__"],
        page.address().as_str()
    );
    assert_eq!(data["droppedTargets"].as_array().unwrap().len(), 1);
    assert_eq!(
        data["droppedTargets"][0]["discoveredLabels"]["__address__"],
        "dropped-1:1"
    );
    assert_eq!(data["droppedTargetCounts"]["test"], 2);
    let why = r#"relabel_configs[0] drop: [__address__] matches "dropped.*""#;
    assert_eq!(data["droppedTargets"][0]["reason"], why);
    let rule = &data["droppedTargets"][0]["rule"];
    assert_eq!(
        (&rule["index"], &rule["action"]),
        (&Value::from(0), &Value::from("drop"))
    );
    assert_eq!(rule["source_labels"], serde_json::json!(["__address__"]));
    assert_eq!(
        data["droppedTargetReasons"]["test"],
        serde_json::json!({ why: 2 })
    );
    assert_eq!(data["failedTargetCounts"]["test"], 1);
    assert_eq!(
        (
            &data["failedTargets"][0]["reason"],
            &data["failedTargets"][0]["discoveredLabels"]["__address__"]
        ),
        (
            &Value::from("\"bad/host\" is not a valid hostname"),
            &Value::from("bad/host")
        )
    );
    let active = get("/targets?state=active&scrapePool=other").await;
    assert_eq!(active["data"]["activeTargets"].as_array().unwrap().len(), 0);
    assert_eq!(active["data"]["droppedTargetCounts"], Value::Null);
    let dropped = get("/targets?state=dropped").await;
    assert_eq!(
        dropped["data"]["activeTargets"].as_array().unwrap().len(),
        0
    );
    assert_eq!(
        get("/scrape_pools").await["data"]["scrapePools"],
        serde_json::json!(["test"])
    );
    let steps = get("/targets/relabel_steps?scrapePool=test&labels=%7B%22__address__%22%3A%22dropped%22%2C%22a%22%3A%22%22%7D").await;
    assert_eq!(
        steps["data"]["steps"],
        serde_json::json!([{
            "rule": {"source_labels": ["__address__"], "separator": ";", "regex": "dropped.*", "replacement": "$1", "action": "drop"},
            "output": {},
            "keep": false,
        }])
    );
    for (path, error) in [
        ("/targets/relabel_steps", "no scrapePool parameter provided"),
        (
            "/targets/relabel_steps?scrapePool=test",
            "no labels parameter provided",
        ),
        (
            "/targets/relabel_steps?scrapePool=x&labels=%7B%7D",
            "error retrieving scrape config: scrape pool \"x\" not found",
        ),
        ("/scrape_pools/config", "no scrapePool parameter provided"),
        (
            "/scrape_pools/config?scrapePool=x",
            "error retrieving scrape config: scrape pool \"x\" not found",
        ),
    ] {
        let answer = get(path).await;
        assert_eq!(
            (&answer["errorType"], &answer["error"]),
            (&Value::from("bad_data"), &Value::from(error))
        );
    }
    let metadata = get("/targets/metadata").await;
    // The other family has no type, unit or help.
    let entries = metadata["data"].as_array().unwrap();
    assert_eq!(
        (entries.len(), &entries[0]["metric"]),
        (1, &Value::from("a_total"))
    );
    let one = get("/targets/metadata?metric=a_total&match_target=%7Bjob%3D%22test%22%7D").await;
    assert_eq!(one["data"][0]["type"], "counter");
    assert_eq!(one["data"][0]["help"], "Help.");
    assert_eq!(one["data"][0]["metric"], Value::Null);
    let none = get("/targets/metadata?match_target=%7Bjob%3D%22x%22%7D").await;
    assert_eq!(none["data"], serde_json::json!([]));
    let bad = get("/targets/metadata?limit=x").await;
    assert_eq!(
        (&bad["errorType"], &bad["error"]),
        (
            &Value::from("bad_data"),
            &Value::from("limit must be a number")
        )
    );
    stopper.stop();
    scraping.end().await;
}
