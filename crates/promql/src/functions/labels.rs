//! `label_replace` and `label_join`.
//!
//! **Invariant:** samples are not looked at; a new metric name cancels a pending removal of the old one.

use super::FunctionId;
use crate::{
    error::QueryError,
    eval::{META_LABELS, Series},
};
use narthex_model::{METRIC_NAME, Pattern, Template};

/// What to do with a series' labels.
pub(crate) struct Change {
    target: String,
    how: How,
}

enum How {
    Replace {
        source: String,
        pattern: Pattern,
        template: Template,
    },
    Join {
        separator: String,
        sources: Vec<String>,
    },
}

impl Change {
    /// Takes the text arguments of a call; the plan has made sure that label names are some.
    pub(crate) fn new(id: FunctionId, texts: &[&str]) -> Result<Self, QueryError> {
        let fail = |text: String| Err(QueryError::Execution(text));
        let (target, how) = match (id, texts) {
            (FunctionId::LabelReplace, [target, template, source, pattern]) => {
                let Ok(compiled) = Pattern::anchored(pattern) else {
                    return fail(format!(
                        "invalid regular expression in label_replace(): {pattern}"
                    ));
                };
                let source = (*source).to_owned();
                (
                    *target,
                    How::Replace {
                        source,
                        pattern: compiled,
                        template: Template::parse(template),
                    },
                )
            }
            (_, [target, separator, sources @ ..]) => {
                let sources = sources.iter().map(|&name| name.to_owned()).collect();
                (
                    *target,
                    How::Join {
                        separator: (*separator).to_owned(),
                        sources,
                    },
                )
            }
            _ => return fail("a label function lacks its arguments".to_owned()),
        };
        Ok(Self {
            target: target.to_owned(),
            how,
        })
    }

    pub(crate) fn apply(&self, series: &mut Series) {
        let labels = series.labels();
        let value = match &self.how {
            How::Replace {
                source,
                pattern,
                template,
            } => {
                let text = labels.get(source).unwrap_or_default();
                let Some(value) = pattern.expand(text, template) else {
                    return;
                };
                value
            }
            How::Join { separator, sources } => {
                let values: Vec<&str> = sources
                    .iter()
                    .map(|name| labels.get(name).unwrap_or_default())
                    .collect();
                values.join(separator)
            }
        };
        let mut changed = Series::new(labels.with(&self.target, &value));
        changed.drop_name = series.drop_name && self.target != META_LABELS[0];
        debug_assert_eq!(META_LABELS[0], METRIC_NAME);
        *series = changed;
    }
}
