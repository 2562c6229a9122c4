//! Entry points for fuzzers and for the seeded mutator in the tests; no input may cause a panic.

use crate::{
    Element, ParseOptions, RuleError, RuleFile, Scope, Template, duplicates, parse,
    unit::{Means, TestFile, TestOptions},
};
use narthex_model::{NameScheme, storage::Budget};
use narthex_promql::SampleValue;
use std::{collections::BTreeMap, sync::OnceLock};

/// Parses `data` as a rule file, strictly and not.
///
/// # Panics
/// Panics when an error has no text or no place, or when the lenient reading refuses what the strict one accepts.
pub fn fuzz_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let strict = parse(&text, ParseOptions::default());
    let lenient = parse(
        &text,
        ParseOptions {
            scheme: NameScheme::Legacy,
            ignore_unknown_fields: true,
            ..ParseOptions::default()
        },
    );
    if let Ok(file) = &lenient {
        let _ = duplicates(&file.groups);
    }
    match strict {
        Ok(file) => {
            for rule in file.groups.iter().flat_map(|group| &group.rules) {
                assert!(!rule.name.is_empty() && rule.place.line > 0, "{rule:?}");
            }
        }
        Err(errors) => assert_explained(&errors),
    }
}

/// Fails if an error has no text or no place, or if there is none.
fn assert_explained(errors: &[RuleError]) {
    assert!(!errors.is_empty());
    for error in errors {
        assert!(!error.to_string().is_empty());
        assert!(
            error.places().iter().all(|place| place.line > 0),
            "{error:?}"
        );
    }
}

/// Expands `data` as a template.
///
/// # Panics
/// Panics when an error has no text, or when a template without actions is not its own result.
pub fn fuzz_template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let template = match Template::parse("A", &text) {
        Ok(template) => template,
        Err(error) => return assert!(!error.message.is_empty()),
    };
    let labels: BTreeMap<_, _> = [("job", "node"), ("instance", "h:1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let query = |text: &str| -> Result<Vec<Element>, String> {
        match text {
            "none" => Ok(Vec::new()),
            "elements" => Ok(vec![(labels.clone(), SampleValue::Float(0.5)); 3]),
            _ => Err("no such query".to_owned()),
        }
    };
    let expanded = template.expand(&Scope {
        labels: &labels,
        value: &SampleValue::Float(1.5),
        external_labels: &BTreeMap::new(),
        external_url: "http://h/p",
        time_ms: 0,
        query: &query,
    });
    match expanded {
        Ok(result) if !text.contains("{{") => assert_eq!(result, text),
        Ok(_) => {}
        Err(error) => assert!(!error.message.is_empty()),
    }
}

/// Most evaluations of a unit test that is run, and most values of its series.
const FEW_EVALUATIONS: i64 = 40;
/// Most unit tests of a file that are run.
const FEW_TESTS: usize = 3;
/// Rules that unit tests are run with.
const TESTED: &str = "groups:
- name: g
  labels: {team: a}
  rules:
  - {record: 'job:up:sum', expr: sum by (job) (up)}
  - {record: r, expr: 'rate(c[2m])', labels: {job: j}}
- name: h
  rules:
  - {alert: Down, expr: up == 0, for: 1m, keep_firing_for: 2m, labels: {severity: page}}
  - {alert: Value, expr: 'c > 1', annotations: {summary: '{{ $labels.job }} {{ $value | humanize }}'}}
";

/// Reads `data` as a file of unit tests, and runs small ones twice.
///
/// # Panics
/// Panics when an error has no text or no place, when a test has another outcome the second time, or keeps memory.
pub fn fuzz_tests(data: &[u8]) {
    static RULES: OnceLock<Vec<(String, RuleFile)>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let file = parse(TESTED, ParseOptions::default());
        vec![("rules.yml".to_owned(), file.expect("a file of ours"))]
    });
    let file = match TestFile::parse(&String::from_utf8_lossy(data)) {
        Ok(file) => file,
        Err(errors) => return assert_explained(&errors),
    };
    let small = |case: &&_| file.is_within(case, FEW_EVALUATIONS);
    for case in file.tests.iter().filter(small).take(FEW_TESTS) {
        let run = |diff| {
            let means = Means {
                memory: Budget::new("a unit test", 1 << 20),
                max_samples: 5_000,
            };
            let options = TestOptions {
                diff,
                debug: true,
                ..TestOptions::default()
            };
            let outcome = file.run_within(case, rules, options, &means);
            assert_eq!(means.memory.used_bytes(), 0, "memory is kept");
            outcome
        };
        let (first, second) = (run(false), run(false));
        assert_eq!(first.failures, second.failures);
        assert_eq!(first.samples, second.samples);
        let diff = run(true);
        assert_eq!(diff.failures.len(), first.failures.len());
        assert!(
            first
                .failures
                .iter()
                .all(|failure| !failure.text.is_empty())
        );
    }
}
