//! What is counted of queries, from the selectors of a plan on.

use super::*;
use narthex_model::{MemStore, storage::Context};
use narthex_promql::{Engine, EngineOptions};
use narthex_testkit::rng::SplitMix64;

fn activity(bytes: u64) -> Arc<Activity> {
    let budget = Budget::new("statistics", bytes);
    Activity::new(&budget, Arc::new(|| 7_000)).unwrap()
}

fn ask(activity: &Arc<Activity>, text: &str, is_dashboard: bool) {
    let asked = Asked {
        text,
        times: [0, 0, 0],
        is_limited: false,
    };
    let origin = Origin::Http {
        client: String::new(),
        method: "GET".to_owned(),
        path: "/api/v1/query".to_owned(),
        is_dashboard,
    };
    let ticket = activity.arrive(&asked, origin);
    run(&ticket.observer(), text);
}

fn run(observer: &Arc<dyn Observer>, text: &str) {
    let engine = Engine::new(EngineOptions::default()).observed(Arc::clone(observer));
    let _ = engine.instant(&MemStore::new(), text, 0, &Context::unlimited());
}

#[test]
fn metrics_count_for_who_asks_for_them() {
    let activity = activity(1 << 20);
    ask(&activity, "a + on() b", false);
    ask(&activity, r#"sum(rate({__name__=~"a|c_.*"}[1m]))"#, true);
    ask(&activity, r#"{__name__=~"d|e"}"#, true);
    run(&activity.of_rules(), "sum(a)");
    for nobody in [
        r#"{__name__=~".+"}"#,
        r#"{job="x"}"#,
        r#"a{__ignore_usage__=""}"#,
        "a +",
    ] {
        ask(&activity, nobody, false);
    }
    let usage = activity.usage.lock().whole().counts();
    let counts = |name: &str| {
        let uses = usage.of_metric(name);
        (uses.queries, uses.dashboards, uses.rules, uses.last_ms)
    };
    assert_eq!(counts("a"), (1, 1, 1, 7000));
    assert_eq!(counts("b"), (1, 0, 0, 7000));
    assert_eq!(counts("c_x"), (0, 1, 0, 7000));
    assert_eq!(counts("d"), (0, 1, 0, 7000));
    assert_eq!(counts("x"), (0, 0, 0, 0));
    assert!(activity.running.lock().whole().is_empty());
}

/// Names come from outside: anybody can ask for any number of them.
#[test]
fn names_and_texts_are_bounded_by_memory() {
    let activity = activity(64 << 10);
    for at in 0..5000 {
        ask(&activity, &format!("metric_{at}"), false);
    }
    let usage = activity.usage.lock().whole();
    assert!(usage.size().1 <= 32 << 10, "{:?}", usage.size());
    assert!(usage.forgotten > 4000, "{}", usage.forgotten);
    assert_eq!(usage.counts().of_metric("metric_0").queries, 1);
    let top = activity.top.lock().whole();
    let kept = top.by(usize::MAX, |cost| cost.count).len() as u64;
    assert!(kept > 50 && kept < 200, "{kept}");
    assert_eq!(top.forgotten + kept, 5000);
}

#[test]
fn the_most_expensive_queries_come_first() {
    let activity = activity(1 << 20);
    for _ in 0..3 {
        ask(&activity, "vector(1)", false);
    }
    ask(
        &activity,
        "label_replace(vector(1), \"a\", \"b\", \"c\", \"d\")",
        false,
    );
    ask(
        &activity,
        "abs(vector(1)) + on() group_left() {__name__=\"x\", y=\"z\"} bool",
        false,
    );
    let top = activity.top.lock().whole();
    let by_count = top.by(1, |cost| cost.count);
    let [((text, range), cost)] = by_count.as_slice() else {
        panic!("{by_count:?}");
    };
    assert_eq!((&**text, *range, cost.count), ("vector(1)", 0, 3));
    // A query that is invalid is not evaluated.
    assert_eq!(top.by(9, |cost| cost.count).len(), 2);
}

/// Counts an evaluation of an instant query.
fn count(activity: &Arc<Activity>, top: &mut Top, text: &str, took: Duration) {
    let asked = Asked {
        text,
        times: [0, 0, 0],
        is_limited: false,
    };
    let origin = Origin::Rule {
        file: "".into(),
        group: "".into(),
    };
    let ticket = activity.arrive(&asked, origin);
    top.count(&ticket.entry, took, Ok(&QueryStats::default()), 0);
}

/// The reference looks at all of them each time.
#[test]
fn a_query_takes_the_place_of_the_cheapest() {
    let activity = activity(4 << 20);
    let mut top = activity.top.lock().whole();
    let mut expected: BTreeMap<String, Duration> = BTreeMap::new();
    let (mut random, mut forgotten, mut counted) = (SplitMix64::new(3), 0, 0);
    for _ in 0..20_000 {
        let text = format!("q{}", random.below(1_500));
        let took = Duration::from_micros(1 + random.below(2_000));
        counted += 1;
        count(&activity, &mut top, &text, took);
        if let Some(cost) = expected.get_mut(&text) {
            *cost += took;
            continue;
        }
        if expected.len() == 1_000 {
            let least = *expected.values().min().unwrap();
            if least > took {
                forgotten += 1;
                continue;
            }
            // Of equal ones any goes.
            let gone: Vec<String> = expected
                .iter()
                .filter(|(_, cost)| **cost == least)
                .map(|(text, _)| text.clone())
                .collect();
            let gone = gone
                .iter()
                .find(|text| duration_of(&top, text).is_none())
                .expect("one of the cheapest is gone");
            expected.remove(gone);
        }
        expected.insert(text, took);
    }
    assert!(forgotten > 100, "{forgotten}");
    for (text, cost) in &expected {
        assert_eq!(duration_of(&top, text), Some(*cost), "{text}");
    }
    let kept: u64 = top
        .by(usize::MAX, |cost| cost.count)
        .iter()
        .map(|(_, cost)| cost.count)
        .sum();
    assert_eq!(top.forgotten + kept, counted);
}

/// Returns what an instant query took in all, if it is remembered.
fn duration_of(top: &Top, text: &str) -> Option<Duration> {
    let cost = top.items.get(&(text.into(), 0));
    cost.map(|cost| cost.duration)
}

/// A query that found room may be cheaper than all before it.
#[test]
fn what_comes_once_there_is_room_may_be_cheap() {
    let budget = Budget::new("statistics", 64 << 10);
    let activity = Activity::new(&budget, Arc::new(|| 7_000)).unwrap();
    let mut top = activity.top.lock().whole();
    let ms = Duration::from_millis;
    count(&activity, &mut top, "dear", ms(100));
    let others = budget.lease(budget.limit_bytes() - budget.used_bytes());
    count(&activity, &mut top, "dearer", ms(200));
    assert_eq!(duration_of(&top, "dear"), None);
    drop(others);
    count(&activity, &mut top, "cheap", ms(1));
    let others = budget.lease(budget.limit_bytes() - budget.used_bytes());
    count(&activity, &mut top, "other", ms(2));
    assert_eq!(duration_of(&top, "cheap"), None);
    assert_eq!(duration_of(&top, "other"), Some(ms(2)));
    drop(others);
}

#[test]
fn the_log_is_opened_again_by_name() {
    let dir = narthex_testkit::TempDir::new("query-log");
    let (path, moved) = (dir.path().join("q.log"), dir.path().join("q.1"));
    let activity = activity(1 << 20);
    activity.log_to(Some(&path)).unwrap();
    ask(&activity, "vector(1)", false);
    run(&activity.of_rules(), "x{a=\"é\"}");
    std::fs::rename(&path, &moved).unwrap();
    activity.log_to(Some(&path)).unwrap();
    ask(&activity, "vector(2)", false);
    activity.log_to(None).unwrap();
    ask(&activity, "vector(3)", false);
    let read = |path| -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    };
    let first = read(&moved);
    assert_eq!(first.len(), 2);
    assert_eq!(first[0]["time"], "1970-01-01T00:00:07.000Z");
    assert_eq!(first[0]["msg"], "promql query logged");
    assert_eq!(first[0]["params"]["query"], "vector(1)");
    assert_eq!(first[0]["params"]["start"], "1970-01-01T00:00:00.000Z");
    assert_eq!(first[0]["httpRequest"]["path"], "/api/v1/query");
    assert!(first[0]["stats"]["timings"]["evalTotalTime"].is_number());
    assert_eq!(first[1]["params"]["query"], "x{a=\"é\"}");
    assert!(first[1].get("httpRequest").is_none());
    let second = read(&path);
    assert_eq!(second.len(), 1);
    assert_eq!(second[0]["params"]["query"], "vector(2)");
}
