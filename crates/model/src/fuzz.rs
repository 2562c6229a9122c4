//! Entry points for fuzzers and the seeded mutator.

pub use crate::pattern::{fuzz_pattern, fuzz_pattern_within};

use crate::{
    LabelSet,
    labels::NameScheme,
    relabel::{Action, RelabelConfig, Rule, process},
};

/// Applies arbitrary relabeling rules to arbitrary labels: six lines a rule (action, source labels, separator,
/// pattern, target, replacement), an empty line, then labels.
///
/// # Panics
/// Panics when applying the same rules twice differs, or an empty value remains.
pub fn fuzz_relabel(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (rules, labels) = text.split_once("\n\n").unwrap_or((&text, "a=b"));
    let lines: Vec<&str> = rules.lines().collect();
    let ready: Vec<Rule> = lines.chunks(6).filter_map(rule).collect();
    let pairs = labels.lines().filter_map(|line| line.split_once('='));
    let labels = LabelSet::new(pairs);
    let first = process(&labels, &ready);
    assert_eq!(first, process(&labels, &ready));
    for label in first.iter().flat_map(LabelSet::iter) {
        assert!(!label.value().is_empty());
    }
}

fn rule(lines: &[&str]) -> Option<Rule> {
    let [action, sources, separator, regex, target, replacement] = lines else {
        return None;
    };
    let number: usize = action.bytes().map(usize::from).sum();
    let config = RelabelConfig {
        source_labels: sources.split(',').map(str::to_owned).collect(),
        separator: (*separator).to_owned(),
        regex: (!regex.is_empty()).then(|| (*regex).to_owned()),
        modulus: number as u64,
        target_label: (*target).to_owned(),
        replacement: (*replacement).to_owned(),
        action: Some(Action::ALL[number % Action::ALL.len()]),
    };
    let scheme = if action.len() > 1 {
        NameScheme::Legacy
    } else {
        NameScheme::Utf8
    };
    Rule::new(config, scheme).ok()
}
