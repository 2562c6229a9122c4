//! Runs the fuzz targets on generated queries, then on mutations of the reference files' queries.

use crate::{generate::Generator, promqltest};
use narthex_model::{MemStore, storage::Store};
use narthex_promql::{
    fuzz,
    testing::{self, TestStore},
};
use narthex_testkit::{
    mutate::{Mutator, scaled},
    rng::SplitMix64,
};
use std::fs;

/// Counters with resets and gaps, classic and native histograms, a series that ends.
const DATA: &str = r#"
load 30s
  up{job="a"} 1x40
  up{job="b"} 1x20 stale
  cpu_total{job="a",cpu="0"} 0+3x20 5+2x20
  cpu_total{job="a",cpu="1"} 0+1.5x10 _x5 20+1x20
  cpu_total{job="b",cpu="0"} 1e3+7x40
  mem{job="a"} 5 NaN -Inf 3 Inf 2 1 0 -0 4x30
  mem{job="b"} 1+1x40
  lat_bucket{job="a",le="0.1"} 0+1x40
  lat_bucket{job="a",le="1"} 0+2x40
  lat_bucket{job="a",le="+Inf"} 0+3x40
  h{job="a"} {{schema:1 sum:3 count:9 buckets:[1 2 3] z_bucket:3 z_bucket_w:0.1}}+{{schema:1 sum:1 count:2 buckets:[1 0 1]}}x40
  h{job="b"} {{schema:0 sum:3 count:6 buckets:[1 2 3] n_buckets:[1]}}x20 1 2 3 {{schema:0 count:1 buckets:[1]}}x10
  nh{job="a"} {{schema:-53 sum:5 count:7 custom_values:[1 2 5] buckets:[1 2 4]}}+{{schema:-53 sum:1 count:1 custom_values:[1 2 5] buckets:[1]}}x40
  {"ü.x", "ä b"="ä\n"} 1+1x40
  target_info{instance="i",job="a",v="1"} 1x40
"#;

const TIME_MS: i64 = 1_200_000;

fn store() -> Box<dyn TestStore> {
    testing::load(DATA, Box::new(MemStore::new())).unwrap()
}

/// Returns the queries of the reference files, or a few others if the files are missing.
fn corpus() -> Vec<String> {
    let mut queries = vec![
        "sum by (job) (rate(cpu_total[5m])) / on (job) group_left (le) mem".to_owned(),
        "histogram_quantile(0.9, sum(rate(lat_bucket[5m])) by (le)) offset -1m".to_owned(),
    ];
    for path in promqltest::files().into_iter().flatten() {
        let script = fs::read_to_string(path).unwrap();
        let evaluations = script.lines().filter_map(|line| {
            let rest = line.trim().strip_prefix("eval ")?;
            let mut words = rest.splitn(4, ' ');
            (words.next() == Some("instant")).then_some(())?;
            words.nth(2).map(str::to_owned)
        });
        queries.extend(evaluations);
    }
    queries
}

#[test]
fn generated_queries_print_as_themselves() {
    let store = store();
    let mut rng = SplitMix64::new(7);
    let mut parsed = 0;
    let all = scaled(3000);
    for _ in 0..all {
        let query = Generator { rng: &mut rng }.vector(4);
        if let Ok(expr) = narthex_promql::parse(&query) {
            let printed = expr.to_string();
            let again = narthex_promql::parse(&printed).unwrap().to_string();
            if !printed.contains("+Inf ^") {
                assert_eq!(again, printed, "from {query}");
            }
            parsed += 1;
        }
        fuzz::fuzz_parse(query.as_bytes());
        fuzz::evaluate(query.as_bytes(), &*store as &dyn Store, TIME_MS);
    }
    assert!(parsed * 10 > all * 8, "only {parsed} of {all} are queries");
}

#[test]
fn mutated_queries_are_harmless() {
    let corpus = corpus();
    let slices: Vec<&[u8]> = corpus.iter().map(String::as_bytes).collect();
    Mutator::new(11).run(&slices, scaled(20_000), fuzz::fuzz_parse);
    Mutator::new(14).run(&slices, scaled(2000), fuzz::fuzz_query);
    let store = store();
    Mutator::new(12).run(&slices, scaled(4000), |data| {
        fuzz::evaluate(data, &*store as &dyn Store, TIME_MS);
    });
}

#[test]
fn mutated_scripts_are_harmless() {
    let script = format!("{DATA}\neval instant at 5m up\n  expect no_warn\n  up{{job=\"a\"}} 1\n");
    let odd = "load 1m\n a 1x9 {{schema:1 buckets:[1 2 3]}}+{{schema:1 buckets:[1]}}x9\n\neval instant at 1m a\n expect fail regex:(\\pL{9}|x+){9}\n";
    let corpus = [script.as_bytes(), odd.as_bytes()];
    Mutator::new(13).run(&corpus, scaled(3000), fuzz::fuzz_script);
}

/// Regression: six bytes of a script expanded to 100,000 values, forty to as many histograms of any width, and a line
/// of forty to a pattern of ten megabytes, without any bound.
/// pattern of ten megabytes: no bound held for them.
#[test]
fn scripts_expand_to_no_more_than_they_may() {
    let wide = "1 ".repeat(500);
    let classes = "(\\pL{50}){50}";
    for (script, refused) in [
        (" a 1x99999\n".repeat(20), true),
        (" a _x99999\n".repeat(20), true),
        (format!(" a {{{{buckets:[{wide}]}}}}x9999\n"), true),
        (format!(" a {{{{buckets:[{wide}]}}}}x99\n"), false),
        (" a@st 1s+1sx99999\n".repeat(20), true),
        (" a 1x99\n".to_owned(), false),
    ] {
        let script = format!("load 1m\n{script}");
        let checked = testing::check(&script, 1 << 20, 1 << 8);
        assert_eq!(checked.is_err(), refused, "{:?}", script.get(..40));
        fuzz_within(script.as_bytes());
    }
    let patterns = format!(" expect fail regex:{classes}\n").repeat(50);
    let script = format!("eval instant at 1m a\n{patterns}");
    fuzz_within(script.as_bytes());
}

/// Runs one input within the bounds of `fuzz/bounds.txt`.
fn fuzz_within(data: &[u8]) {
    Mutator::new(15).run(&[data], 1, fuzz::fuzz_script);
    narthex_testkit::alloc::bounded(data, 512, 4 << 20, fuzz::fuzz_script);
}
