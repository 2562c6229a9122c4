//! How labels of a body and of its target come together.

use crate::Limits;
use narthex_expfmt::{KeepLabels, Resolver};
use narthex_model::LabelSet;

/// Resolves the series of one target.
#[derive(Clone, Debug)]
pub(crate) struct TargetResolver {
    /// With `honor_labels` the target's labels are not common to all series: each takes those it lacks.
    pub(crate) honored: Option<LabelSet>,
    pub(crate) limits: Limits,
}

impl Resolver for TargetResolver {
    fn resolve(
        &mut self,
        parsed: &LabelSet,
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        let local = match &self.honored {
            Some(target) => Some(target.union(parsed)),
            None => KeepLabels.resolve(parsed, common)?,
        };
        if let Some(local) = &local {
            self.check(local, common)?;
        }
        Ok(local)
    }
}

impl TargetResolver {
    fn check(&self, local: &LabelSet, common: &LabelSet) -> Result<(), String> {
        let Limits {
            labels,
            label_name_bytes,
            label_value_bytes,
            ..
        } = self.limits;
        let count = local.len() + common.len();
        if labels > 0 && count > labels {
            return Err(format!(
                "label_limit exceeded ({local}): {count} labels, limit {labels}"
            ));
        }
        for label in local {
            let (name, value) = (label.name(), label.value());
            if label_name_bytes > 0 && name.len() > label_name_bytes {
                return Err(format!(
                    "label_name_length_limit exceeded (label {name:?}): limit {label_name_bytes}"
                ));
            }
            if label_value_bytes > 0 && value.len() > label_value_bytes {
                return Err(format!(
                    "label_value_length_limit exceeded (label {name:?}): limit {label_value_bytes}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honored_labels_win_and_missing_ones_are_taken() {
        let target = LabelSet::new([("job", "j"), ("instance", "i")]);
        let mut resolver = TargetResolver {
            honored: Some(target),
            limits: Limits::default(),
        };
        let parsed = LabelSet::new([("__name__", "m"), ("job", "own")]);
        let local = resolver
            .resolve(&parsed, &LabelSet::empty())
            .unwrap()
            .unwrap();
        assert_eq!(local.to_string(), r#"m{instance="i", job="own"}"#);
    }

    #[test]
    fn limits_refuse_with_the_limit_named() {
        let parsed = LabelSet::new([("__name__", "m"), ("label", "value")]);
        let refuse = |limits: Limits| {
            TargetResolver {
                honored: None,
                limits,
            }
            .resolve(&parsed, &LabelSet::empty())
            .unwrap_err()
        };
        assert!(
            refuse(Limits {
                labels: 1,
                ..Limits::default()
            })
            .starts_with("label_limit exceeded")
        );
        assert!(
            refuse(Limits {
                label_name_bytes: 4,
                ..Limits::default()
            })
            .starts_with("label_name_length")
        );
        assert!(
            refuse(Limits {
                label_value_bytes: 4,
                ..Limits::default()
            })
            .starts_with("label_value_length")
        );
    }
}
