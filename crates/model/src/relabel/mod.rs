//! Relabelling: rules that change label sets, or drop the targets or series that carry them.
//!
//! **Invariant:** results equal Prometheus', including the order in which `labelmap` visits labels. A set that no
//! rule changes comes back as the same allocation, and labels that exist only between two rules are never interned.

mod case;
mod config;
#[cfg(test)]
mod tests;
mod working;

pub use config::{Action, RelabelConfig, RelabelError};

use crate::{LabelSet, Pattern, Template, labels::NameScheme};
use md5::{Digest as _, Md5};
use std::sync::Arc;
use working::Working;

/// A checked and compiled rule.
#[derive(Clone, Debug)]
pub struct Rule(Arc<Ready>);

#[derive(Debug)]
struct Ready {
    config: RelabelConfig,
    scheme: NameScheme,
    action: Action,
    regex: Pattern,
    target: Template,
    replacement: Template,
}

impl Rule {
    /// Checks and compiles a rule; `scheme` decides which names its labels may have.
    ///
    /// # Errors
    /// Fails with Prometheus' message when the fields do not fit together or the pattern is invalid.
    pub fn new(config: RelabelConfig, scheme: NameScheme) -> Result<Self, RelabelError> {
        let regex = Pattern::anchored(config.regex_text()).map_err(RelabelError::Pattern)?;
        let action = config.check(scheme)?;
        Ok(Self(Arc::new(Ready {
            action,
            scheme,
            regex,
            target: Template::parse(&config.target_label),
            replacement: Template::parse(&config.replacement),
            config,
        })))
    }

    /// Returns the rule's configuration.
    #[must_use]
    pub fn config(&self) -> &RelabelConfig {
        &self.0.config
    }

    /// Applies the rule; returns `false` when it drops the target.
    fn apply(&self, labels: &mut Working<'_>) -> bool {
        let rule = &*self.0;
        let source = labels.join(&rule.config.source_labels, &rule.config.separator);
        let target = rule.config.target_label.as_str();
        match rule.action {
            Action::Keep => return rule.regex.is_match(&source),
            Action::Drop => return !rule.regex.is_match(&source),
            Action::KeepEqual => return labels.get(target) == source,
            Action::DropEqual => return labels.get(target) != source,
            Action::Replace => rule.replace(&source, labels),
            Action::HashMod => labels.set(target, &remainder(&source, rule.config.modulus)),
            Action::Lowercase => labels.set(target, &case::lower(&source)),
            Action::Uppercase => labels.set(target, &case::upper(&source)),
            Action::LabelMap => {
                for (name, value) in labels.list() {
                    if rule.regex.is_match(&name) {
                        labels.set(&rule.regex.replace_all(&name, &rule.replacement), &value);
                    }
                }
            }
            Action::LabelDrop => labels.retain(|name| !rule.regex.is_match(name)),
            Action::LabelKeep => labels.retain(|name| rule.regex.is_match(name)),
        }
        true
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        let (left, right) = (&self.0, &other.0);
        Arc::ptr_eq(left, right) || (left.config == right.config && left.scheme == right.scheme)
    }
}

impl Eq for Rule {}

impl Ready {
    fn replace(&self, source: &str, labels: &mut Working<'_>) {
        // Fast path: most rules only set a label.
        let constants = self.target.constant().zip(self.replacement.constant());
        if let Some((target, replacement)) = constants {
            let matches = self.config.regex.is_none() || self.regex.is_match(source);
            if matches && self.scheme.allows_label(target) {
                labels.set(target, replacement);
            }
            return;
        }
        let templates = [&self.target, &self.replacement];
        if let Some([target, replacement]) = self.regex.expand_all(source, templates)
            && self.scheme.allows_label(&target)
        {
            labels.set(&target, &replacement);
        }
    }
}

/// Applies `rules` in order; returns `None` when one of them drops the target.
#[must_use]
pub fn process(labels: &LabelSet, rules: &[Rule]) -> Option<LabelSet> {
    outcome(labels, rules).ok()
}

/// Applies `rules` in order.
///
/// # Errors
/// Fails with the index of the rule that drops the target.
pub fn outcome(labels: &LabelSet, rules: &[Rule]) -> Result<LabelSet, usize> {
    let mut working = Working::new(labels);
    match rules.iter().position(|rule| !rule.apply(&mut working)) {
        None => Ok(working.finish()),
        Some(dropping) => Err(dropping),
    }
}

/// Returns the labels after each of `rules`; `None` from the rule on that drops the target.
#[must_use]
pub fn steps(labels: &LabelSet, rules: &[Rule]) -> Vec<Option<LabelSet>> {
    let mut working = Working::new(labels);
    let mut kept = true;
    let step = |rule: &Rule| {
        kept = kept && rule.apply(&mut working);
        kept.then(|| working.finish())
    };
    rules.iter().map(step).collect()
}

/// Returns the last eight bytes of the source's MD5 modulo `modulus`.
fn remainder(source: &str, modulus: u64) -> String {
    let [.., a, b, c, d, e, f, g, h] = <[u8; 16]>::from(Md5::digest(source));
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]) % modulus).to_string()
}
