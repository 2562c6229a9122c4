//! `label_replace` and `label_join`.
//!
//! **Invariant:** samples are not read; a new metric name cancels a pending removal of the old one.

use super::FunctionId;
use crate::{
    error::QueryError,
    eval::{META_LABELS, Memory, Meter, Series},
};
use narthex_model::{CompileError, METRIC_NAME, Pattern, Patterns, Template};

/// A change to a series' labels.
pub(crate) struct Change {
    target: String,
    how: LabelFunction,
}

enum LabelFunction {
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
    /// Parses the string arguments of a call; the plan has validated the label names.
    pub(crate) fn new(
        id: FunctionId,
        texts: &[&str],
        patterns: &Patterns,
    ) -> Result<Self, QueryError> {
        let (target, how) = match (id, texts) {
            (FunctionId::LabelReplace, [target, template, source, pattern]) => {
                let compiled = patterns.anchored(pattern);
                let replace = LabelFunction::Replace {
                    source: (*source).to_owned(),
                    pattern: compiled.map_err(|error| match error {
                        CompileError::Invalid(_) => QueryError::Execution(format!(
                            "invalid regular expression in label_replace(): {pattern}"
                        )),
                        refused => refused.into(),
                    })?,
                    template: Template::parse(template),
                };
                (*target, replace)
            }
            (_, [target, separator, sources @ ..]) => {
                let join = LabelFunction::Join {
                    separator: (*separator).to_owned(),
                    sources: sources.iter().map(|&name| name.to_owned()).collect(),
                };
                (*target, join)
            }
            _ => {
                let text = "a label function lacks its arguments".to_owned();
                return Err(QueryError::Execution(text));
            }
        };
        Ok(Self {
            target: target.to_owned(),
            how,
        })
    }

    /// Changes a series' labels, taking their memory from `meter` before creating them.
    pub(crate) fn apply(
        &self,
        series: &mut Series,
        memory: &Memory,
        meter: &mut Meter,
    ) -> Result<(), QueryError> {
        let labels = series.labels();
        let most_bytes = memory.max_label_bytes();
        let value = match &self.how {
            LabelFunction::Replace {
                source,
                pattern,
                template,
            } => {
                let text = labels.get(source).unwrap_or_default();
                match pattern.expand_up_to(text, template, most_bytes) {
                    Ok(None) => return Ok(()),
                    Ok(Some(value)) => value,
                    Err(bytes) => return memory.check_label(&self.target, bytes),
                }
            }
            LabelFunction::Join { separator, sources } => {
                let values: Vec<&str> = sources
                    .iter()
                    .map(|name| labels.get(name).unwrap_or_default())
                    .collect();
                let separators = separator.len() * values.len().saturating_sub(1);
                let bytes = values.iter().map(|value| value.len()).sum::<usize>() + separators;
                memory.check_label(&self.target, bytes)?;
                values.join(separator)
            }
        };
        meter.add_label(value.len())?;
        let mut changed = Series::new(labels.with(&self.target, &value));
        meter.add(changed.heap_bytes())?;
        changed.drop_name = series.drop_name && self.target != META_LABELS[0];
        debug_assert_eq!(META_LABELS[0], METRIC_NAME);
        *series = changed;
        Ok(())
    }
}
