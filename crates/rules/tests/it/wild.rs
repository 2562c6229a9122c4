//! Rule files that other projects publish: same verdicts on files, and same results of their templates, as Prometheus.
//!
//! They are read from where `NARTHEX_WILD_RULES` points. Templates get labels of the names they use, as texts, as
//! numbers and not at all, and values of several sizes; every query in one finds the same elements.

use crate::{files, oracle::Oracle, templates};
use narthex_promql::SampleValue;
use narthex_rules::{Element, ParseOptions, RuleKind, Scope, Template, parse};
use narthex_testkit::corpora;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Templates and rule files that were there when the result in docs/conformance.md was recorded.
const ALL: (usize, usize) = (2_787, 228);

const ALERT: &str = "A";
const EXTERNAL_URL: &str = "http://prometheus.example:9090/path";
const TIME_MS: i64 = 1_709_164_799_123;

/// What a template is expanded with.
#[derive(Clone, Copy)]
enum Data {
    Texts,
    Numbers,
    Nothing,
}

impl Data {
    const ALL: [Self; 3] = [Self::Texts, Self::Numbers, Self::Nothing];

    fn value(self) -> f64 {
        match self {
            Self::Texts => 0.873_412_9,
            Self::Numbers => 93_784_512.25,
            Self::Nothing => f64::NAN,
        }
    }

    fn label(self, name: &str) -> Option<String> {
        match self {
            Self::Texts if name.contains("instance") => Some("db-1.example.com:9100".to_owned()),
            Self::Texts => Some(format!("{name} <1>")),
            Self::Numbers => Some((name.len() * 1_234).to_string()),
            Self::Nothing => None,
        }
    }

    fn labels(self, names: &BTreeSet<String>) -> BTreeMap<String, String> {
        let pairs = names
            .iter()
            .filter_map(|name| Some((name.clone(), self.label(name)?)));
        pairs.collect()
    }
}

/// Returns the names of labels that a template uses: words behind a dot or in quotation marks.
fn names(template: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for (at, _) in template.match_indices(['.', '"']) {
        let rest = &template[at + 1..];
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            found.insert(word.to_owned());
        }
    }
    found
}

fn external_labels() -> BTreeMap<String, String> {
    [("cluster".to_owned(), "eu-1".to_owned())].into()
}

fn ours(text: &str, labels: &BTreeMap<String, String>, value: f64) -> String {
    let template = match Template::parse(ALERT, text) {
        Ok(template) => template,
        Err(error) => return format!("error: {error}"),
    };
    let elements = templates::elements().into_iter();
    let elements: Vec<Element> = elements
        .map(|(labels, value)| (labels, SampleValue::Float(value)))
        .collect();
    let expanded = template.expand(&Scope {
        labels,
        value: &SampleValue::Float(value),
        external_labels: &external_labels(),
        external_url: EXTERNAL_URL,
        time_ms: TIME_MS,
        query: &|_| Ok(elements.clone()),
    });
    expanded.unwrap_or_else(|error| format!("error: {error}"))
}

fn theirs(
    oracle: &mut Oracle,
    text: &str,
    labels: &BTreeMap<String, String>,
    value: f64,
) -> String {
    let elements = templates::elements().into_iter();
    let elements: Vec<_> = elements
        .map(|(labels, value)| json!({ "labels": labels, "value": value }))
        .collect();
    oracle.template(json!({
        "alert": ALERT,
        "text": text,
        "labels": labels,
        "external_labels": external_labels(),
        "external_url": EXTERNAL_URL,
        "value": if value.is_nan() { 0.0 } else { value },
        "is_nan": value.is_nan(),
        "time_ms": TIME_MS,
        "elements": elements,
        "any_query": true,
    }))
}

fn texts() -> Vec<(String, String)> {
    let Some(dir) = corpora::wild_rules() else {
        return Vec::new();
    };
    let files = corpora::files(&dir, "ml").into_iter();
    files
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(file).unwrap())
        })
        .collect()
}

/// Returns the templates of a file's labels and annotations.
fn templates_of(text: &str) -> BTreeSet<String> {
    let options = ParseOptions {
        ignore_unknown_fields: true,
        ..ParseOptions::default()
    };
    let groups = parse(text, options).map_or_else(|_| Vec::new(), |file| file.groups);
    let rules = groups.into_iter().flat_map(|group| group.rules);
    let texts = rules.flat_map(|rule| match rule.kind {
        RuleKind::Recording => Vec::new(),
        RuleKind::Alerting { annotations, .. } => {
            let labels = rule.labels.into_values();
            labels.chain(annotations.into_values()).collect()
        }
    });
    texts.filter(|text| text.contains("{{")).collect()
}

#[test]
fn rule_files_in_the_wild_have_the_verdicts_of_the_newest_prometheus() {
    let texts = texts();
    if !texts.is_empty() {
        let mut oracle = Oracle::start();
        for (name, text) in &texts {
            files::compare(&mut oracle, name, text, false);
        }
    }
    let ran = texts.len();
    corpora::report_optional("rule files in the wild", ran, ran.max(ALL.1));
}

#[test]
fn templates_in_the_wild_mean_the_same_to_the_newest_prometheus() {
    let templates: BTreeSet<String> = texts()
        .iter()
        .flat_map(|(_, text)| templates_of(text))
        .collect();
    if !templates.is_empty() {
        let mut oracle = Oracle::start();
        let (mut different, mut errors) = (Vec::new(), 0);
        for text in &templates {
            let names = names(text);
            for data in Data::ALL {
                let labels = data.labels(&names);
                let found = ours(text, &labels, data.value());
                let expected = theirs(&mut oracle, text, &labels, data.value());
                errors += usize::from(expected.starts_with("error: "));
                if found != expected {
                    different.push(format!(
                        "{text}\n  expected {expected:?}\n  found    {found:?}"
                    ));
                }
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
        // Results were compared, not only errors.
        assert!(
            errors < templates.len(),
            "{errors} errors of {} templates",
            templates.len()
        );
    }
    let ran = templates.len();
    corpora::report_optional("templates in the wild", ran, ran.max(ALL.0));
}
