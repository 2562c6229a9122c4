//! What the newest release has and the reference files do not.

use narthex_model::MemStore;
use narthex_promql::{
    Engine,
    testing::{self, TestStore},
};

/// Judged as Prometheus 3.16's own files are.
const SCRIPT: &str = r#"
load 10s
  m 0 10 20 30 40
  nans NaN NaN 4 NaN
  large 1e308 1e308
  infs 1 Inf 1
  data{case="before +Inf", at="a"} 1
  data{case="before +Inf", at="b"} 2
  data{case="before +Inf", at="c"} Inf
  data{case="after -Inf", at="a"} -Inf
  data{case="after -Inf", at="b"} 2
  data{case="after -Inf", at="c"} 3
  data{case="both", at="a"} -Inf
  data{case="both", at="b"} Inf

eval instant at 40s integral(m[1m])
  {} 800

eval instant at 40s integral(m[1m], 2)
  {} 800

eval instant at 40s integral(m[1m], 0)
  {} 600

eval instant at 40s integral(m[1m], 1)
  {} 1000

eval instant at 40s integral(m[1m], 3)
  expect warn regex: ^PromQL warning: strategy should be 0, 1, or 2 \(default\), using 2, got 3 \(1:[0-9]+\)$
  {} 800

eval instant at 30s integral(nans[1m])
  {} 40

eval instant at 10s integral(large[20s])
  {} Inf

eval instant at 20s integral(infs[1m])
  {} Inf

eval instant at 0 integral(m[1m])
  {} 0

eval instant at 0 quantile by (case) (0.5, data)
  {case="before +Inf"} 2
  {case="after -Inf"} 2
  {case="both"} NaN

eval instant at 0 deg(vector(1e306))
  {} 5.729577951308232e+307

load 1m
  {"http.requests", "service.name"="api"} 0+60x2
  {"温度", "場所"="東京"} 1x2

eval instant at 2m http.requests{service.name="api"}
  {"http.requests", "service.name"="api"} 120

eval instant at 2m 温度{場所="東京"} * 2
  {"場所"="東京"} 2
"#;

#[test]
fn functions_and_names_of_the_newest_release() {
    let engine = Engine::new(testing::reference_options());
    let open = || Box::new(MemStore::new()) as Box<dyn TestStore>;
    let report = testing::run(SCRIPT, &engine, &open).unwrap();
    let failures: Vec<String> = report
        .failures
        .iter()
        .map(|failure| format!("{} {}: {}", failure.line, failure.query, failure.reason))
        .collect();
    assert_eq!(failures, [""; 0]);
    assert_eq!(report.passed, report.total);
    assert_eq!(report.total, 13);
}

/// Reference times of `info`, and labels of types and units.
const LABELS: &str = r#"
load 1m
  tied{at="a"} 1x8
  tied{at="b"} 1x8
  tied{at="c"} 2x8
  m{instance="a", job="1"} 0+1x8
  other{instance="b", job="1"} 0+1x8
  alone{instance="c"} 0+1x8
  target_info{instance="a", job="1", version="old"} 1 1 1 stale
  target_info{instance="a", job="1", version="new"} _ _ _ 1 1 1 1 1 1
  target_info{instance="c", version="alone"} 1x8
  typed{__type__="gauge", __unit__="bytes", job="1", instance="a"} 1x8
  typed{__type__="counter", job="1", instance="b"} 2x8
  bound{le="0.5"} 1x8
  bound{le="+Inf"} 3x8
  bound{le="NaN"} 2x8

eval instant at 8m info(scalar(m @ 120) * m)
  {instance="a", job="1", version="new"} 16

eval range from 4m to 6m step 1m info(m @ 120 or other @ 480)
  m{instance="a", job="1", version="new"} 2 2 2
  other{instance="b", job="1"} 8 8 8

eval instant at 8m info({__name__=~"m|alone"})
  m{instance="a", job="1", version="new"} 8
  alone{instance="c", version="alone"} 8

# Of equal values, those with the least labels: first come is not first served.
eval instant at 8m topk(2, tied)
  tied{at="c"} 2
  tied{at="a"} 1

eval instant at 8m bottomk(1, -tied)
  {at="c"} -2

eval instant at 8m limitk(2, tied)
  tied{at="a"} 1
  tied{at="b"} 1

eval instant at 8m sum without (instance) (typed)
  {job="1"} 3

eval instant at 8m absent(typed{__type__="none", job="2"})
  {job="2"} 1

eval instant at 8m histogram_quantile(0.5, bound)
  expect warn regex: malformed value of "NaN"
  {} 0.5
"#;

#[test]
fn labels_as_in_the_newest_release() {
    let engine = Engine::new(testing::reference_options());
    let open = || Box::new(MemStore::new()) as Box<dyn TestStore>;
    let report = testing::run(LABELS, &engine, &open).unwrap();
    let failures: Vec<_> = report.failures.iter().map(|one| &one.reason).collect();
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(report.total, 9);
}
