//! Compares rules with Prometheus' own package at test time.

use crate::oracle::{Answer, Oracle};
use narthex_model::{
    LabelSet,
    labels::NameScheme,
    relabel::{self, RelabelConfig, Rule},
};
use narthex_testkit::{mutate::scaled, rng::SplitMix64};
use serde_json::{Map, Value, json};

const ACTIONS: &[&str] = &[
    "replace",
    "replace",
    "replace",
    "keep",
    "drop",
    "keepequal",
    "dropequal",
    "hashmod",
    "labelmap",
    "labeldrop",
    "labelkeep",
    "lowercase",
    "uppercase",
    "Replace",
    "LABELMAP",
    "nope",
];
const NAMES: &[&str] = &[
    "a", "b", "a_b", "b_b", "__meta_x", "__meta_y", "ä", "a-b", "job",
];
const VALUES: &[&str] = &[
    "foo", "bar", "Foo", "STRAßE", "İx", "foo-bar", "1", "a;b", "$1", "ΑΣ", "x",
];
const REGEXES: &[&str] = &[
    "(.*)",
    ".*",
    "foo",
    "foo.*",
    "(f)(.*)",
    "__meta_(.+)",
    "(.)_(.)",
    "(?i)foo",
    "[ab]",
    "a.*",
    "",
    "(?P<n>.+)-(.*)",
    "(",
    "a|(b)",
];
const TEMPLATES: &[&str] = &[
    "$1", "${1}", "x", "", "${1}_$2", "$n", "${1}x", "a", "b_b", "$$", "$", "ä$1", "-$1", "$0",
];

/// One rule as written, without the absent keys.
struct Written(Vec<(&'static str, Value)>);

impl Written {
    fn random(rng: &mut SplitMix64) -> Self {
        let mut keys = vec![("action", json!(rng.pick(ACTIONS)))];
        let maybe = |rng: &mut SplitMix64| !rng.one_in(3);
        if maybe(rng) {
            let names: Vec<&str> = (0..1 + rng.index(2)).map(|_| *rng.pick(NAMES)).collect();
            keys.push(("source_labels", json!(names)));
        }
        if maybe(rng) {
            keys.push(("regex", json!(rng.pick(REGEXES))));
        }
        if maybe(rng) {
            let target = if rng.one_in(3) {
                rng.pick(TEMPLATES)
            } else {
                rng.pick(NAMES)
            };
            keys.push(("target_label", json!(target)));
        }
        if maybe(rng) {
            keys.push(("replacement", json!(rng.pick(TEMPLATES))));
        }
        if rng.one_in(6) {
            keys.push(("separator", json!(rng.pick(&["", ",", "--"]))));
        }
        if rng.one_in(3) {
            keys.push(("modulus", json!(rng.below(20))));
        }
        Self(keys)
    }

    fn yaml(&self) -> String {
        let keys = self.0.iter().map(|(key, value)| format!("{key}: {value}"));
        format!("- {}", keys.collect::<Vec<_>>().join("\n  "))
    }

    fn rule(&self, scheme: NameScheme) -> Result<Rule, String> {
        let mut config = RelabelConfig::default();
        for (key, value) in &self.0 {
            let text = value.as_str().unwrap_or_default().to_owned();
            match *key {
                "action" => {
                    config.action = Some(text.parse().map_err(|error| format!("{error}"))?);
                }
                "source_labels" => {
                    let names = value.as_array().unwrap().iter();
                    config.source_labels = names
                        .map(|name| name.as_str().unwrap().to_owned())
                        .collect();
                }
                "regex" => config.regex = Some(text),
                "target_label" => config.target_label = text,
                "replacement" => config.replacement = text,
                "separator" => config.separator = text,
                "modulus" => config.modulus = value.as_u64().unwrap(),
                key => panic!("{key} is not a key"),
            }
        }
        Rule::new(config, scheme).map_err(|error| error.to_string())
    }
}

fn ours(written: &[Written], scheme: NameScheme, labels: &Map<String, Value>) -> Answer {
    let rules = written
        .iter()
        .map(|written| written.rule(scheme))
        .collect::<Result<Vec<_>, _>>()?;
    let labels = labels
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
    Ok(match relabel::process(&LabelSet::new(labels), &rules) {
        None => json!({ "keep": false, "labels": null }),
        Some(labels) => {
            let labels = labels
                .iter()
                .map(|label| (label.name().to_owned(), json!(label.value())));
            json!({ "keep": true, "labels": labels.collect::<Map<_, _>>() })
        }
    })
}

#[test]
fn random_rules_do_what_prometheus_does() {
    let mut oracle = Oracle::start();
    let mut rng = SplitMix64::new(0x4e1a);
    let (mut valid, mut dropped, mut differences) = (0, 0, Vec::new());
    let count = scaled(2_000);
    for _ in 0..count {
        let written: Vec<Written> = (0..1 + rng.index(3))
            .map(|_| Written::random(&mut rng))
            .collect();
        let mut labels = Map::new();
        for _ in 0..rng.index(5) {
            labels.insert((*rng.pick(NAMES)).to_owned(), json!(rng.pick(VALUES)));
        }
        let scheme = *rng.pick(&[NameScheme::Utf8, NameScheme::Legacy]);
        let ours = ours(&written, scheme, &labels);
        let yaml = written
            .iter()
            .map(Written::yaml)
            .collect::<Vec<_>>()
            .join("\n");
        let theirs = oracle.relabel(
            &yaml,
            scheme == NameScheme::Legacy,
            &Value::Object(labels.clone()),
        );
        valid += u32::from(theirs.is_ok());
        dropped += u32::from(theirs.as_ref().is_ok_and(|answer| answer["keep"] == false));
        let same = match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            // The order in which several mistakes are found depends on YAML.
            (Err(ours), Err(theirs)) => written.len() > 1 || theirs.ends_with(ours.as_str()),
            _ => false,
        };
        if !same {
            differences.push(format!(
                "{yaml}\n{labels:?} {scheme:?}\n  ours {ours:?}\n  Prometheus {theirs:?}"
            ));
        }
    }
    println!("{valid} of {count} sets of rules were valid, {dropped} dropped their labels");
    assert!(
        differences.is_empty(),
        "{} differences, the first of them:\n{}",
        differences.len(),
        differences
            .iter()
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}
