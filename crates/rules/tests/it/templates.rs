//! Templates: the committed suite, and the newest Prometheus as its judge.
//!
//! A file of `tests/templates` holds cases: lines of a template, `=>`, and lines of the result, which begins with
//! `error: ` if expanding fails; a line `----` ends a case. With `NARTHEX_UPDATE=1` the oracle's answers are written.

use crate::oracle::Oracle;
use narthex_promql::SampleValue;
use narthex_rules::{Element, Scope, Template};
use narthex_testkit::{corpora, mutate::scaled, rng::SplitMix64};
use std::{collections::BTreeMap, env, fs, path::PathBuf};

const ALERT: &str = "A";
pub(crate) const VALUE: f64 = 1234.5678;
const EXTERNAL_URL: &str = "http://prometheus.example:9090/path";
const TIME_MS: i64 = 1_709_164_799_123;

fn labels() -> BTreeMap<String, String> {
    texts(&[
        ("__name__", "up"),
        ("instance", "db-1.example.com:9100"),
        ("job", "node"),
        ("a.b", "dotted"),
        ("empty", ""),
        ("number", "42.5"),
        ("odd", "<b>&'\"é\n"),
    ])
}

fn external_labels() -> BTreeMap<String, String> {
    texts(&[("cluster", "eu-1")])
}

pub(crate) fn elements() -> Vec<(BTreeMap<String, String>, f64)> {
    vec![
        (
            texts(&[("__name__", "m"), ("host", "b"), ("__value__", "sv")]),
            21.0,
        ),
        (texts(&[("__name__", "m"), ("host", "a")]), 0.5),
        (texts(&[("__name__", "m"), ("host", "c")]), f64::MAX),
    ]
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn query(text: &str) -> Result<Vec<Element>, String> {
    match text {
        "none" => Ok(Vec::new()),
        "elements" => {
            let elements = elements().into_iter();
            Ok(elements
                .map(|(labels, value)| (labels, SampleValue::Float(value)))
                .collect())
        }
        _ => Err("no such query".to_owned()),
    }
}

/// Expands a template; an error begins with `error: `.
fn ours(text: &str) -> String {
    let template = match Template::parse(ALERT, text) {
        Ok(template) => template,
        Err(error) => return format!("error: {error}"),
    };
    let expanded = template.expand(&Scope {
        labels: &labels(),
        value: &SampleValue::Float(VALUE),
        external_labels: &external_labels(),
        external_url: EXTERNAL_URL,
        time_ms: TIME_MS,
        query: &query,
    });
    expanded.unwrap_or_else(|error| format!("error: {error}"))
}

fn theirs(oracle: &mut Oracle, text: &str) -> String {
    let elements = elements().into_iter();
    let elements: Vec<_> = elements
        .map(|(labels, value)| serde_json::json!({ "labels": labels, "value": value }))
        .collect();
    oracle.template(serde_json::json!({
        "alert": ALERT,
        "text": text,
        "labels": labels(),
        "external_labels": external_labels(),
        "external_url": EXTERNAL_URL,
        "value": VALUE,
        "time_ms": TIME_MS,
        "elements": elements,
    }))
}

/// Returns the templates and results of a file.
fn cases(text: &str) -> Vec<(String, String)> {
    let cases = text
        .split("\n----\n")
        .filter(|case| !case.trim().is_empty());
    cases
        .map(|case| {
            let (template, result) = case
                .split_once("\n=>\n")
                .unwrap_or_else(|| panic!("{case}"));
            (template.to_owned(), result.to_owned())
        })
        .collect()
}

fn files() -> Vec<PathBuf> {
    let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/templates"));
    corpora::files(&dir, ".txt")
}

/// Returns all committed templates.
pub(crate) fn committed() -> Vec<String> {
    let files = files()
        .into_iter()
        .map(|file| fs::read_to_string(file).unwrap());
    files
        .flat_map(|text| cases(&text))
        .map(|(template, _)| template)
        .collect()
}

#[test]
fn templates_expand_as_recorded() {
    let mut failed = Vec::new();
    for file in files() {
        for (template, result) in cases(&fs::read_to_string(&file).unwrap()) {
            let found = ours(&template);
            if found != result {
                failed.push(format!(
                    "{template}\n  recorded {result:?}\n  found    {found:?}"
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn records_are_the_results_of_the_newest_prometheus() {
    let mut oracle = Oracle::start();
    let update = env::var_os("NARTHEX_UPDATE").is_some();
    for file in files() {
        let mut written = String::new();
        for (template, result) in cases(&fs::read_to_string(&file).unwrap()) {
            let expected = theirs(&mut oracle, &template);
            assert!(
                update || expected == result,
                "{template}\n{expected:?} {result:?}"
            );
            written.push_str(&format!("{template}\n=>\n{expected}\n----\n"));
        }
        if update {
            fs::write(file, written).unwrap();
        }
    }
}

#[test]
fn endless_templates_end() {
    for (template, reason) in [
        (
            "{{ range 1000000000 }}{{ end }}",
            "exceeded maximum number of steps (1000000)",
        ),
        (
            "{{ define \"t\" }}{{ template \"t\" }}{{ end }}{{ template \"t\" }}",
            "exceeded maximum template depth (300)",
        ),
        (
            "{{ range 1000000000 }}0123456789012345678901234567890123456789{{ end }}",
            "exceeded maximum",
        ),
        (
            "{{ $x := \"0123456789\" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}",
            "exceeded maximum length",
        ),
        (
            "{{ printf \"%999999d%999999d%999999d%999999d\" 1 1 1 1 }}",
            "exceeded maximum length",
        ),
    ] {
        let result = ours(template);
        assert!(
            result.starts_with("error: ") && result.contains(reason),
            "{template}: {result}"
        );
    }
    let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    let result = ours(&format!("{{{{ {deep} }}}}"));
    assert_eq!(
        result,
        "error: template: __alert_A:1: max expression depth exceeded"
    );
    let deep = "{{ if 1 }}".repeat(5000);
    assert_eq!(ours(&deep), result);
}

/// Splits a template into words that keep what ends them.
fn words(template: &str) -> Vec<&str> {
    let ends = [' ', '(', ')', '|', '.', '}', '{', '"'];
    template.split_inclusive(ends).collect()
}

/// Changes a few words of a committed template.
fn changed(templates: &[String], all: &[&str], rng: &mut SplitMix64) -> String {
    let mut pick = |from: usize| {
        let at = rng.next_u64() % from.max(1) as u64;
        usize::try_from(at).unwrap()
    };
    let mut text = words(&templates[pick(templates.len())]);
    for _ in 0..=pick(3) {
        let at = pick(text.len());
        match pick(4) {
            0 if at < text.len() => {
                text.remove(at);
            }
            1 => text.insert(at, all[pick(all.len())]),
            2 if at < text.len() => text[at] = all[pick(all.len())],
            _ if at < text.len() => {
                let other = pick(text.len());
                text.swap(at, other);
            }
            _ => {}
        }
    }
    text.concat()
}

#[test]
fn changed_templates_mean_the_same_to_the_newest_prometheus() {
    let mut oracle = Oracle::start();
    let templates = committed();
    let all: Vec<&str> = templates
        .iter()
        .flat_map(|template| words(template))
        .collect();
    let mut rng = SplitMix64::new(0x7e);
    let (mut ran, mut errors) = (0, 0);
    for _ in 0..scaled(3_000) {
        let text = changed(&templates, &all, &mut rng);
        let (found, expected) = (ours(&text), theirs(&mut oracle, &text));
        // Only Go has complex numbers and addresses, only we have limits.
        let excepted = found.contains("complex constants") || found.contains("exceeded maximum");
        if excepted || found.contains("0xc000000000") {
            continue;
        }
        assert_eq!(found, expected, "{text}");
        ran += 1;
        errors += usize::from(expected.starts_with("error: "));
    }
    // Both results and errors were compared.
    assert!(
        errors * 5 > ran && errors * 5 < ran * 4,
        "{errors} of {ran}"
    );
}
