//! Merges labels of a body with those of its target.
//!
//! **Invariant:** called once for each series of a schema, never per round.

use crate::{
    memory::{Admission, Page, ScrapeMemory},
    plan::Plan,
};
use narthex_expfmt::{KeepLabels, Resolver};
use narthex_model::{
    Label, LabelSet, METRIC_NAME, labels::write_quoted, relabel, storage::OverBudget,
};
use std::{fmt::Write as _, sync::Arc};

/// Resolves the series of one target.
#[derive(Debug)]
pub(crate) struct TargetResolver {
    pub(crate) plan: Arc<Plan>,
    /// Decides which new series are accepted.
    pub(crate) admission: Admission,
    /// Memory lease of the page being parsed.
    pub(crate) paid: Option<Page>,
    /// Number of series on earlier pages.
    pub(crate) known: usize,
    /// Whether the page was refused for lack of memory since this was last read.
    pub(crate) over_memory: bool,
    /// Whether a label limit was exceeded since this was last read.
    pub(crate) over_limit: bool,
}

impl Resolver for TargetResolver {
    fn resolve(
        &mut self,
        parsed: &LabelSet,
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        self.resolve_beside(parsed, &[], common)
    }

    fn resolve_beside(
        &mut self,
        parsed: &LabelSet,
        blank: &[Label],
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        let plan = Arc::clone(&self.plan);
        let target = &plan.labels;
        let local = if plan.honor_labels {
            // Gateways write `instance=""` for series without an instance.
            let stays = |label: &&Label| blank.iter().all(|blank| blank.name() != label.name());
            LabelSet::from_labels(target.iter().filter(stays).cloned()).union(parsed)
        } else {
            let kept = KeepLabels.resolve(parsed, target)?.unwrap_or_default();
            if common.is_empty() {
                kept.union(target)
            } else {
                kept
            }
        };
        let local = if plan.metric_relabel.is_empty() {
            local
        } else {
            let all = common.union(&local);
            let Some(relabelled) = relabel::process(&all, &plan.metric_relabel) else {
                return Ok(None);
            };
            if relabelled.is_empty() {
                return Ok(None);
            }
            let own = |label: &&Label| common.label(label.name()).is_none();
            LabelSet::from_labels(relabelled.iter().filter(own).cloned())
        };
        self.check(&local, common)?;
        Ok(Some(local))
    }

    fn admit(&mut self) -> Result<bool, String> {
        self.admission.admit()
    }

    fn room_for_lines(&mut self, lines: usize) -> Result<(), String> {
        let Some(page) = &mut self.paid else {
            return Ok(());
        };
        page.room_for_lines(lines, self.known).map_err(|over| {
            self.over_memory = true;
            no_memory(&over)
        })
    }
}

/// Formats the error of a page refused for lack of memory.
pub(crate) fn no_memory(over: &OverBudget) -> String {
    format!("no memory for the page: {over}")
}

impl TargetResolver {
    pub(crate) fn new(plan: Arc<Plan>, memory: &ScrapeMemory) -> Self {
        Self {
            plan,
            admission: Admission::new(memory),
            paid: None,
            known: 0,
            over_memory: false,
            over_limit: false,
        }
    }

    fn check(&mut self, local: &LabelSet, common: &LabelSet) -> Result<(), String> {
        let Some(metric) = local.get(METRIC_NAME) else {
            return Err("missing metric name (__name__ label)".to_owned());
        };
        let names = self.plan.names;
        let named_well = names.allows_metric(metric)
            && local
                .iter()
                .all(|label| label.name() == METRIC_NAME || names.allows_label(label.name()));
        if !named_well {
            let all = shown(&common.union(local));
            return Err(format!("invalid metric name or label names: {all}"));
        }
        let outcome = self.check_limits(metric, local, common);
        self.over_limit |= outcome.is_err();
        outcome
    }

    fn check_limits(
        &self,
        metric: &str,
        local: &LabelSet,
        common: &LabelSet,
    ) -> Result<(), String> {
        let limits = &self.plan.limits;
        let count = local.len() + common.len();
        let metric = cut(metric);
        if limits.labels > 0 && count > limits.labels {
            return Err(format!(
                "label_limit exceeded (metric: {metric}, number of labels: {count}, limit: {})",
                limits.labels
            ));
        }
        if limits.label_name_bytes == 0 && limits.label_value_bytes == 0 {
            return Ok(());
        }
        for label in &common.union(local) {
            let (name, value) = (label.name(), label.value());
            let limit = limits.label_name_bytes;
            if limit > 0 && name.len() > limit {
                return Err(format!(
                    "label_name_length_limit exceeded (metric: {metric}, label name: {}, length: {}, limit: {limit})",
                    cut(name),
                    name.len()
                ));
            }
            let limit = limits.label_value_bytes;
            if limit > 0 && value.len() > limit {
                let mut quoted = String::new();
                // Writing into a string cannot fail.
                let _ = write_quoted(&mut quoted, cut(value));
                return Err(format!(
                    "label_value_length_limit exceeded (metric: {metric}, label name: {}, value: {quoted}, length: {}, limit: {limit})",
                    cut(name),
                    value.len()
                ));
            }
        }
        Ok(())
    }
}

/// Truncates a text to its first 50 characters.
fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(50).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Formats labels as Go prints them: the metric name is a label like the others.
fn shown(labels: &LabelSet) -> String {
    let mut text = String::from("{");
    for (at, label) in labels.iter().enumerate() {
        let separator = if at > 0 { ", " } else { "" };
        // Writing into a string cannot fail.
        let _ = write!(text, "{separator}{label}");
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobConfig, Target, target::Populated};
    use narthex_discovery::LabelMap;
    use narthex_model::{
        labels::NameScheme,
        relabel::{Action, RelabelConfig, Rule},
    };
    use narthex_net::{Client, ClientConfig};

    fn resolver(change: impl FnOnce(&mut JobConfig)) -> TargetResolver {
        let mut job = JobConfig::new("j");
        change(&mut job);
        let own = LabelMap::from([("__address__".to_owned(), "i:1".to_owned())]);
        let Ok(Populated::Kept(target)) = Target::populate(&job, &own, &LabelMap::new()) else {
            panic!("the target is kept");
        };
        let client = Client::new(ClientConfig::default());
        let plan = Plan::new(&job, &Target::clone(&target), &client, 0).unwrap();
        TargetResolver::new(Arc::new(plan), &ScrapeMemory::default())
    }

    fn resolve(resolver: &mut TargetResolver, pairs: &[(&str, &str)]) -> Result<String, String> {
        let common = if resolver.plan.labels_are_common() {
            resolver.plan.labels.clone()
        } else {
            LabelSet::empty()
        };
        let parsed = LabelSet::new(pairs.iter().copied());
        let local = resolver.resolve(&parsed, &common)?;
        Ok(local.map_or("dropped".to_owned(), |local| {
            common.union(&local).to_string()
        }))
    }

    fn rule(action: Action, source: &str, regex: &str, target: &str) -> Rule {
        let config = RelabelConfig {
            source_labels: if source.is_empty() {
                vec![]
            } else {
                vec![source.into()]
            },
            regex: Some(regex.into()),
            target_label: target.into(),
            action: Some(action),
            ..RelabelConfig::default()
        };
        Rule::new(config, NameScheme::Utf8).unwrap()
    }

    /// A push gateway writes `instance=""` for a group without an instance: it must not get the gateway's own.
    #[test]
    fn a_label_without_a_value_takes_the_targets_away() {
        let parsed = LabelSet::new([("__name__", "m"), ("job", "own")]);
        let blank = [Label::new("instance", ""), Label::new("job", "")];
        let shown = |honor: bool| {
            let mut resolver = resolver(|job| job.honor_labels = honor);
            let none = LabelSet::empty();
            let local = resolver.resolve_beside(&parsed, &blank, &none).unwrap();
            local.unwrap().to_string()
        };
        assert_eq!(shown(true), r#"m{job="own"}"#);
        assert!(shown(false).contains(r#"instance="i:1""#));
    }

    #[test]
    fn labels_of_both_sides_come_together() {
        let series = [("__name__", "m"), ("job", "own"), ("exported_job", "x")];
        assert_eq!(
            resolve(&mut resolver(|_| {}), &series).unwrap(),
            r#"m{exported_exported_job="own", exported_job="x", instance="i:1", job="j"}"#
        );
        let mut honoring = resolver(|job| job.honor_labels = true);
        assert!(!honoring.plan.labels_are_common());
        assert_eq!(
            resolve(&mut honoring, &series).unwrap(),
            r#"m{exported_job="x", instance="i:1", job="own"}"#
        );
    }

    #[test]
    fn series_are_relabelled_with_the_targets_labels() {
        let mut rules = resolver(|job| {
            job.metric_relabel_configs = vec![
                rule(Action::Drop, "__name__", "go_.*", ""),
                rule(Action::Replace, "instance", "(.*):.*", "host"),
                rule(Action::LabelDrop, "", "tmp", ""),
            ];
        });
        assert!(rules.plan.labels_are_common());
        assert_eq!(
            resolve(&mut rules, &[("__name__", "go_x")]).unwrap(),
            "dropped"
        );
        assert_eq!(
            resolve(&mut rules, &[("__name__", "m"), ("tmp", "1")]).unwrap(),
            r#"m{host="i", instance="i:1", job="j"}"#
        );
        let mut touching = resolver(|job| {
            job.metric_relabel_configs = vec![rule(Action::LabelDrop, "", "inst.*", "")];
        });
        assert!(!touching.plan.labels_are_common());
        assert_eq!(
            resolve(&mut touching, &[("__name__", "m")]).unwrap(),
            r#"m{job="j"}"#
        );
        let mut nameless = resolver(|job| {
            job.metric_relabel_configs = vec![rule(Action::LabelDrop, "", "__name__", "")];
        });
        assert_eq!(
            resolve(&mut nameless, &[("__name__", "m")]).unwrap_err(),
            "missing metric name (__name__ label)"
        );
    }

    #[test]
    fn limits_and_names_refuse_in_prometheus_words() {
        let series = [("__name__", "m"), ("label", "value")];
        let mut few = resolver(|job| job.limits.labels = 3);
        assert_eq!(
            resolve(&mut few, &series).unwrap_err(),
            "label_limit exceeded (metric: m, number of labels: 4, limit: 3)"
        );
        assert!(few.over_limit);
        let mut short = resolver(|job| job.limits.label_name_bytes = 7);
        assert_eq!(
            resolve(&mut short, &series).unwrap_err(),
            "label_name_length_limit exceeded (metric: m, label name: __name__, length: 8, limit: 7)"
        );
        let mut brief = resolver(|job| job.limits.label_value_bytes = 4);
        assert_eq!(
            resolve(&mut brief, &series).unwrap_err(),
            "label_value_length_limit exceeded (metric: m, label name: label, value: \"value\", length: 5, limit: 4)"
        );
        let mut legacy = resolver(|job| job.metric_name_validation_scheme = NameScheme::Legacy);
        assert_eq!(
            resolve(&mut legacy, &[("__name__", "a.b")]).unwrap_err(),
            r#"invalid metric name or label names: {__name__="a.b", instance="i:1", job="j"}"#
        );
        assert!(!legacy.over_limit);
    }
}
