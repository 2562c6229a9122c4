//! Entry points for fuzzers and for the seeded mutator in the tests; no input may cause a panic.
//!
//! **Invariant:** a parsed query prints as a query that parses and prints the same; no query can make the engine
//! panic or exceed its limits.

use crate::{Engine, EngineOptions, QueryError, QueryResult, testing};
use narthex_model::{
    MemStore,
    storage::{Budget, Context, Stop, Store},
};
use std::sync::{Arc, OnceLock};

/// Parses `data` as a query.
///
/// # Panics
/// Panics when the printed query does not parse, or changes when printed again.
pub fn fuzz_parse(data: &[u8]) {
    let query = String::from_utf8_lossy(data);
    let Ok(expr) = crate::parse(&query) else {
        return;
    };
    // A second round is needed: Prometheus prints some durations in a form that it parses differently.
    let second = print_again(&expr.to_string(), &query);
    let third = second.as_ref().and_then(|text| print_again(text, &query));
    if let (Some(second), Some(third)) = (second, third) {
        assert_eq!(
            without_plus(&second),
            without_plus(&third),
            "from {query:?}"
        );
    }
}

/// Parses a printed query and prints it again.
fn print_again(printed: &str, query: &str) -> Option<String> {
    match crate::parse(printed) {
        Ok(again) => Some(again.to_string()),
        // As in Prometheus, a duration below a millisecond prints as zero, which is not a valid range.
        Err(_) if printed.contains("[0s") || printed.contains(":0s") => None,
        Err(e) => panic!("{query:?} prints as {printed:?}: {e}"),
    }
}

/// As in Prometheus, infinity is printed with a sign, which a following power turns into an operator.
fn without_plus(text: &str) -> String {
    text.replace('+', "")
}

/// Parses `data` as a script of the test language, within a small bound on its expansion.
///
/// Trusted files run without this bound, so a script may expand to any size there.
pub fn fuzz_script(data: &[u8]) {
    let _ = testing::check(&String::from_utf8_lossy(data), 1 << 20, 1 << 8);
}

/// Series for `fuzz_query`: counters, a gap, buckets, a native histogram.
const DATA: &str = r#"
load 30s
  up{job="a"} 1x20
  up{job="b"} 1x9 stale 1x5
  c_total{job="a",cpu="0"} 0+3x10 5+2x10
  b{job="a",le="1"} 0+2x20
  b{job="a",le="+Inf"} 0+3x20
  h{job="a"} {{schema:1 sum:3 count:9 buckets:[1 2 3]}}+{{schema:1 sum:1 count:2 buckets:[1 0 1]}}x20
"#;

/// Evaluates `data` as a query over a few series within tight limits.
///
/// # Panics
/// As [`evaluate`].
pub fn fuzz_query(data: &[u8]) {
    static STORE: OnceLock<MemStore> = OnceLock::new();
    let store = STORE.get_or_init(|| {
        let store = MemStore::new();
        let loaded = testing::load(DATA, Box::new(store.clone()));
        drop(loaded.expect("a script of ours"));
        store
    });
    evaluate(data, store, 600_000);
}

/// Evaluates `data` as a query over `store`, at an instant and over a range.
///
/// # Panics
/// Panics when a query and its printed form have different results, or the query prepared for many instants, or memory
/// stays leased.
pub fn evaluate(data: &[u8], store: &dyn Store, time_ms: i64) {
    let query = String::from_utf8_lossy(data);
    let engine = Engine::new(EngineOptions {
        max_samples: 20_000,
        ..testing::reference_options()
    });
    let context = Context {
        budget: Budget::new("fuzz", 16 << 20),
        stop: Stop::never(),
        ..Context::unlimited()
    };
    let printed = crate::parse(&query).map_or_else(|_| query.to_string(), |e| e.to_string());
    let first = engine.instant(store, &query, time_ms, &context);
    if let Ok(expr) = crate::parse_with(&query, engine.options().parse) {
        let mut prepared = engine.prepare(Arc::new(expr), query.as_ref().into());
        for at_ms in [time_ms - 70_001, time_ms] {
            let at_once = engine.instant(store, &query, at_ms, &context);
            let again = prepared.evaluate(store, at_ms, &context);
            assert_eq!(shown(again), shown(at_once), "{query:?} at {at_ms}");
        }
    }
    let second = engine.instant(store, &printed, time_ms, &context);
    match (first, second) {
        (Ok(a), Ok(b)) => {
            // Positions differ between the two.
            assert_eq!(
                (a.warnings.len(), a.infos.len()),
                (b.warnings.len(), b.infos.len())
            );
            let (a, b) = (format!("{:?}", a.value), format!("{:?}", b.value));
            assert_eq!(a, b, "{query:?} prints as {printed:?}");
        }
        (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind(), "{query:?} prints as {printed:?}"),
        (a, b) => panic!("{query:?} is {a:?}, printed {printed:?} it is {b:?}"),
    }
    let _ = engine.range(store, &query, time_ms - 300_000, time_ms, 30_000, &context);
    assert_eq!(context.budget.used_bytes(), 0, "{query:?} keeps memory");
}

fn shown(result: Result<QueryResult, QueryError>) -> String {
    match result {
        Ok(result) => format!(
            "{:?} {:?} {:?}",
            result.value, result.warnings, result.infos
        ),
        Err(error) => error.to_string(),
    }
}
