//! Prometheus' conventions for metrics, as `promtool check metrics` applies them.

use super::{families::Walk, family::Family};
use crate::{
    error::ParseError, format::Format, parser::Parser, resolve::KeepLabels, round::ParseOptions,
};
use narthex_model::{LabelSet, METRIC_NAME, MetricType};
use std::{collections::BTreeMap, fmt};

/// A metric that violates a convention.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Lint {
    /// The family's name.
    pub metric: String,
    /// Advice.
    pub text: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.metric, self.text)
    }
}

const BASE_UNITS: [&str; 10] = [
    "amperes", "bytes", "celsius", "grams", "joules", "kelvin", "meters", "metres", "seconds",
    "volts",
];
/// Other units and their base units.
const UNITS: [(&str, &str); 14] = [
    ("minutes", "seconds"),
    ("hours", "seconds"),
    ("days", "seconds"),
    ("weeks", "seconds"),
    ("kelvins", "kelvin"),
    ("fahrenheit", "celsius"),
    ("rankine", "celsius"),
    ("inches", "meters"),
    ("yards", "meters"),
    ("miles", "meters"),
    ("bits", "bytes"),
    ("calories", "joules"),
    ("pounds", "grams"),
    ("ounces", "grams"),
];
const PREFIXES: [&str; 18] = [
    "pico", "nano", "micro", "milli", "centi", "deci", "deca", "hecto", "kilo", "kibi", "mega",
    "mebi", "giga", "gibi", "tera", "tebi", "peta", "pebi",
];
const ABBREVIATIONS: [&str; 14] = [
    "s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d",
];

/// Lists violations of the conventions, ordered by metric and text.
///
/// # Errors
/// Fails when the body cannot be read.
pub fn lint(format: Format, body: &[u8]) -> Result<Vec<Lint>, ParseError> {
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    parser.parse(format, body, 0, &mut KeepLabels)?;
    let mut walk = Walk::new(format, body);
    walk.run();
    // In the text format the lines of one family may be scattered.
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for family in std::mem::take(&mut walk.families) {
        if family.samples.is_empty() {
            continue;
        }
        let name = if family.metric_type == Some(MetricType::Counter) {
            family.samples[0].name().to_owned()
        } else {
            family.name.clone()
        };
        match families.get_mut(&name) {
            Some(known) => known.samples.extend(family.samples),
            None => {
                families.insert(name, family);
            }
        }
    }
    let mut lints = Vec::new();
    for (name, family) in &families {
        let mut advise = |text: &str| {
            lints.push(Lint {
                metric: name.clone(),
                text: text.to_owned(),
            });
        };
        lint_name(name, family.metric_type.unwrap_or_default(), &mut advise);
        lint_family(family, &mut advise);
    }
    lints.sort();
    Ok(lints)
}

fn lint_name(name: &str, metric_type: MetricType, advise: &mut dyn FnMut(&str)) {
    if let Some((unit, base)) = unit_in(name)
        && unit != base
    {
        advise(&format!("use base unit {base:?} instead of {unit:?}"));
    }
    let lower = name.to_lowercase();
    let has_word =
        |word: &str| lower.contains(&format!("_{word}_")) || lower.ends_with(&format!("_{word}"));
    if metric_type != MetricType::Unknown && has_word(metric_type.as_str()) {
        advise(&format!(
            "metric name should not include type '{metric_type}'"
        ));
    }
    if name.contains(':') {
        advise("metric names should not contain ':'");
    }
    if is_camel_case(name) {
        advise("metric names should be written in 'snake_case' not 'camelCase'");
    }
    for _ in ABBREVIATIONS.iter().filter(|unit| has_word(unit)) {
        advise("metric names should not contain abbreviated units");
    }
    let total = name.ends_with("_total");
    match metric_type {
        MetricType::Counter if !total => advise("counter metrics should have \"_total\" suffix"),
        MetricType::Counter | MetricType::Unknown => {}
        _ if total => advise("non-counter metrics should not have \"_total\" suffix"),
        _ => {}
    }
    if metric_type == MetricType::Unknown {
        return;
    }
    let histogram = metric_type == MetricType::Histogram;
    let summary = metric_type == MetricType::Summary;
    if !histogram && name.ends_with("_bucket") {
        advise("non-histogram metrics should not have \"_bucket\" suffix");
    }
    for suffix in ["_count", "_sum"] {
        if !histogram && !summary && name.ends_with(suffix) {
            advise(&format!(
                "non-histogram and non-summary metrics should not have {suffix:?} suffix"
            ));
        }
    }
}

fn lint_family(family: &Family, advise: &mut dyn FnMut(&str)) {
    if family.help.is_none() {
        advise("no help text");
    }
    let metric_type = family.metric_type.unwrap_or_default();
    let part = match metric_type {
        MetricType::Histogram => Some("le"),
        MetricType::Summary => Some("quantile"),
        _ => None,
    };
    // One entry per metric: the parts of a histogram are one.
    let mut metrics: Vec<LabelSet> = Vec::new();
    for sample in &family.samples {
        let mut labels = sample.labels.without(&[METRIC_NAME]);
        match part {
            Some(part) => {
                labels = labels.without(&[part]);
                if !metrics.contains(&labels) {
                    metrics.push(labels);
                }
            }
            None => metrics.push(labels),
        }
    }
    for labels in &metrics {
        for label in labels {
            if is_camel_case(label.name()) {
                advise("label names should be written in 'snake_case' not 'camelCase'");
            }
            match label.name() {
                "le" if !matches!(metric_type, MetricType::Histogram | MetricType::Unknown) => {
                    advise("non-histogram metrics should not have \"le\" label");
                }
                "quantile" if !matches!(metric_type, MetricType::Summary | MetricType::Unknown) => {
                    advise("non-summary metrics should not have \"quantile\" label");
                }
                _ => {}
            }
        }
    }
    let mut seen = std::collections::HashMap::new();
    for labels in &metrics {
        *seen.entry(labels).or_insert(0usize) += 1;
    }
    for _ in seen.values().flat_map(|count| 1..*count) {
        advise("metric not unique");
    }
}

/// Returns the first unit in a name, and its base unit.
fn unit_in(name: &str) -> Option<(&str, &'static str)> {
    name.split('_')
        .filter(|word| !word.is_empty())
        .find_map(|word| {
            let base = |word: &str| {
                let units = BASE_UNITS.map(|unit| (unit, unit)).into_iter().chain(UNITS);
                let known = units.into_iter().find(|(unit, _)| *unit == word);
                known.map(|(_, base)| base)
            };
            let prefixed = || {
                let rest = PREFIXES
                    .iter()
                    .filter_map(|prefix| word.strip_prefix(prefix));
                rest.filter(|rest| !rest.is_empty()).find_map(base)
            };
            Some((word, base(word).or_else(prefixed)?))
        })
}

fn is_camel_case(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes
        .windows(2)
        .any(|two| matches!(two, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()))
}
