//! Tests of the engine's limits, errors and plans.

use narthex_model::{
    MemStore,
    storage::{Budget, Context, Stop, StopReason},
};
use narthex_promql::{
    Engine, EngineOptions, ErrorKind, QueryError, QueryResult, Value,
    testing::{self, TestStore},
};
use std::time::Instant;

const DATA: &str = r#"
load 1m
  up{job="a"} 1x10
  up{job="b"} 1x10
  down{job="a"} 2x10
  requests_total{job="a"} 0+60x10
"#;

const TIME_MS: i64 = 600_000;

fn store() -> Box<dyn TestStore> {
    testing::load(DATA, Box::new(MemStore::new())).unwrap()
}

fn engine(change: impl FnOnce(&mut EngineOptions)) -> Engine {
    let mut options = EngineOptions::default();
    change(&mut options);
    Engine::new(options)
}

fn ask(engine: &Engine, query: &str) -> Result<QueryResult, QueryError> {
    engine.instant(&*store(), query, TIME_MS, &Context::unlimited())
}

fn error(engine: &Engine, query: &str) -> (ErrorKind, String) {
    let error = ask(engine, query).expect_err(query);
    (error.kind(), error.to_string())
}

/// Formats an instant result as `labels value`, one series per line.
fn text(result: &QueryResult) -> String {
    match &result.value {
        Value::Vector(samples) => {
            let lines = samples
                .iter()
                .map(|s| format!("{} {:?}\n", s.labels, s.value));
            lines.collect()
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn names_go_at_once_unless_delayed() {
    let at_once = engine(|_| {});
    let delayed = engine(|o| o.delayed_name_removal = true);
    let query = "{__name__=~'up|down'} * 1";
    let clash = "vector cannot contain metrics with the same labelset".to_owned();
    assert_eq!(
        error(&at_once, query),
        (ErrorKind::Execution, clash.clone())
    );
    assert_eq!(error(&delayed, query), (ErrorKind::Execution, clash));
    // With delayed removal, a name can still be used for grouping after it has lost its meaning.
    let query = "label_replace(rate(requests_total[5m]), 'was', '$1', '__name__', '(.*)')";
    assert_eq!(
        ask(&at_once, query).map(|r| text(&r)).unwrap(),
        "{job=\"a\"} Float(1.0)\n"
    );
    assert_eq!(
        ask(&delayed, query).map(|r| text(&r)).unwrap(),
        "{job=\"a\", was=\"requests_total\"} Float(1.0)\n"
    );
}

#[test]
fn errors_have_the_kind_the_api_reports() {
    let engine = engine(|_| {});
    assert_eq!(
        error(&engine, "sum(up"),
        (
            ErrorKind::BadData,
            "1:7: parse error: unclosed left parenthesis".to_owned()
        )
    );
    let (kind, text) = error(&engine, "up + on (job) group_left down * on () up");
    assert_eq!(kind, ErrorKind::Execution);
    assert_eq!(
        text,
        "found duplicate series for the match group {} on the right hand-side of the operation: [{__name__=\"up\", job=\"a\"}, {__name__=\"up\", job=\"b\"}];many-to-many matching not allowed: matching labels must be unique on one side"
    );
    let ranged = engine.range(&*store(), "up[5m]", 0, 1, 1, &Context::unlimited());
    assert_eq!(
        ranged.unwrap_err().to_string(),
        "invalid expression type \"range vector\" for range query, must be Scalar or instant Vector"
    );
}

#[test]
fn samples_held_at_once_are_limited() {
    let small = engine(|o| o.max_samples = 20);
    assert!(ask(&small, "sum(up)").is_ok());
    let too_many = "query processing would load too many samples into memory in query execution";
    for query in [
        "up[10m]",
        "sum_over_time(up[10m])",
        "vector(1)[1h:1m]",
        "sum_over_time(gone[200y:1s])",
    ] {
        let expected = (ErrorKind::Execution, too_many.to_owned());
        assert_eq!(error(&small, query), expected, "{query}");
    }
    let result = ask(&engine(|_| {}), "sum(sum_over_time(up[10m]))").unwrap();
    assert_eq!(result.stats.samples_read, 20);
    assert!(result.stats.peak_samples >= 20);
}

#[test]
fn memory_is_leased_and_given_back() {
    let context = Context {
        budget: Budget::new("query", 20_000),
        stop: Stop::never(),
        ..Context::unlimited()
    };
    let (engine, store) = (engine(|_| {}), store());
    assert!(
        engine
            .instant(&*store, "sum(up)", TIME_MS, &context)
            .is_ok()
    );
    assert_eq!(context.budget.used_bytes(), 0);
    assert!(context.budget.peak_bytes() > 0);
    let failed = engine
        .range(&*store, "up", 0, TIME_MS, 100, &context)
        .unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Execution);
    assert!(matches!(failed, QueryError::OverBudget(_)), "{failed}");
    assert_eq!(context.budget.used_bytes(), 0);
}

#[test]
fn queries_stop_when_told() {
    let (engine, store) = (engine(|_| {}), store());
    let ask = |stop: Stop| {
        let context = Context {
            budget: Budget::unlimited(),
            stop,
            ..Context::unlimited()
        };
        engine
            .instant(&*store, "up", TIME_MS, &context)
            .unwrap_err()
    };
    let late = ask(Stop::at(Instant::now()));
    assert_eq!(late.kind(), ErrorKind::Timeout);
    assert_eq!(late.to_string(), "query timed out in expression evaluation");
    let canceled = Stop::never();
    canceled.stop(StopReason::Canceled);
    assert_eq!(ask(canceled).kind(), ErrorKind::Canceled);
}

#[test]
fn deep_queries_need_no_deep_stack() {
    let engine = engine(|_| {});
    let minus = format!("{}up", "-".repeat(450));
    let parens = format!("{}up{}", "abs(".repeat(450), ")".repeat(450));
    let chain = format!("up{}", " + up".repeat(450));
    for query in [minus, parens, chain] {
        let asked = std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn({
                let (engine, query) = (engine.clone(), query.clone());
                move || ask(&engine, &query).map(|r| text(&r).lines().count())
            })
            .unwrap();
        assert_eq!(asked.join().unwrap().unwrap(), 2, "{query}");
    }
}

#[test]
fn plans_say_what_will_happen() {
    let query = "sum by (job) (rate(requests_total[5m] offset 1m)) / (up + 2 * 3) > topk(1, requests_total @ end())";
    let plan = engine(|_| {}).explain(query, 0, 600_000, 60_000).unwrap();
    assert_eq!(
        plan,
        "\
steps 11 × 60000 ms from 0
selector 0: {__name__=\"requests_total\"} -359999..=600000
selector 1: {__name__=\"up\"} -299999..=600000
binary >
  binary /
    aggregate sum by (job)
      over Rate window selector 0 offset 60000 ms range 300000 ms
    binary +
      select selector 1
      number 6
  once
    aggregate topk by ()
      number 1
      select selector 0 at 600000
"
    );
}

#[test]
fn odd_cases_are_as_in_prometheus() {
    let engine = engine(|_| {});
    let answer = |query: &str| match ask(&engine, query) {
        Ok(result) => text(&result),
        Err(error) => format!("error: {error}"),
    };
    // An offset does not move a pinned time, but still hides later samples.
    assert_eq!(
        answer("timestamp(down offset 2m @ 600)"),
        "{job=\"a\"} Float(480.0)\n"
    );
    assert_eq!(
        answer("timestamp(down offset -2m @ 300)"),
        "{job=\"a\"} Float(300.0)\n"
    );
    // Seconds beyond 64 bits wrap around.
    assert_eq!(
        answer("year(down / 0)"),
        "{job=\"a\"} Float(292277026596.0)\n"
    );
    assert_eq!(answer("month(down / 0)"), "{job=\"a\"} Float(12.0)\n");
    assert_eq!(
        answer("time() </ 1"),
        "error: operator \"</\" not allowed for Scalar operations"
    );
    assert_eq!(
        answer("ts_of_last_over_time(vector(1)[1m:30s] @ -60)"),
        "{} Float(0.0)\n"
    );
    // Without any match on one side, duplicates on the other do not matter.
    assert_eq!(answer("gone + on () up"), "");
    // Floats cannot be trimmed, even in a dense block.
    assert_eq!(answer("1 </ up"), "");
    assert_eq!(
        answer("histogram_quantiles(label_replace(up, 'le', '+Inf', '', ''), 'q', 0.5, 0.5)"),
        "error: vector cannot contain metrics with the same labelset"
    );
    // Of equal notes, the outermost one's position is kept.
    let notes = ask(
        &engine,
        "quantile(scalar(gone), up) + quantile(-3, quantile(-3, up))",
    )
    .unwrap();
    assert_eq!(notes.warnings.len(), 2);
    assert!(
        notes.warnings[1].ends_with("got -3 (1:39)"),
        "{:?}",
        notes.warnings
    );
}
