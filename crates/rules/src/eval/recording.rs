//! Recording rules: the elements of a result become series under the rule's name.
//!
//! **Invariant:** an element's series is worked out when its labels are first seen; later rounds only look it up.

use super::{output::Output, query::Elements};
use crate::file::Texts;
use narthex_model::{ColumnId, LabelSet, METRIC_NAME, storage::Budget};
use std::collections::HashMap;

/// Elements of a round of which any multiple is remembered.
const FEW: usize = 256;

/// Columns by the labels of elements.
#[derive(Default)]
pub(crate) struct Inputs {
    generation: u64,
    columns: HashMap<LabelSet, ColumnId>,
    /// Elements of the last round, in its order: results hardly ever change it.
    last: Vec<(LabelSet, ColumnId)>,
}

impl Inputs {
    /// Keeps only the elements of the last round once they are a small part: a rule's own labels may hide those whose
    /// values are always others, so that these never fill the schema.
    fn forget_unused(&mut self) {
        if self.columns.len() > 4 * self.last.len().max(FEW) {
            self.columns = self.last.iter().cloned().collect();
        }
    }
}

/// Returns the labels that all series of a rule have, beside the name.
pub(crate) fn common(labels: &Texts) -> LabelSet {
    let given = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
    LabelSet::new(given.map(|(name, value)| (&**name, &**value)))
}

/// Puts a result into the round.
///
/// # Errors
/// Fails, in Prometheus' words, when two elements become one series or there are more than `limit`.
pub(crate) fn fill(
    output: &mut Output,
    inputs: &mut Inputs,
    (name, labels): (&str, &Texts),
    elements: Elements,
    limit: Option<u64>,
    memory: &Budget,
) -> Result<(), String> {
    if inputs.generation != output.generation() {
        *inputs = Inputs {
            generation: output.generation(),
            ..Inputs::default()
        };
    }
    let count = elements.samples.len();
    for (at, sample) in elements.samples.into_iter().enumerate() {
        let column = match inputs.last.get(at) {
            Some((labels, column)) if *labels == sample.labels => *column,
            _ => {
                let column = match inputs.columns.get(&sample.labels) {
                    Some(column) => *column,
                    None => {
                        let local = local(&sample.labels, name, labels);
                        let column = output.column(&local, memory);
                        let column = column.map_err(|over| over.to_string())?;
                        inputs.columns.insert(sample.labels.clone(), column);
                        column
                    }
                };
                let entry = (sample.labels, column);
                match inputs.last.get_mut(at) {
                    Some(place) => *place = entry,
                    None => inputs.last.push(entry),
                }
                column
            }
        };
        if !output.add(column, sample.value) {
            return Err(
                "vector contains metrics with the same labelset after applying rule labels"
                    .to_owned(),
            );
        }
    }
    inputs.last.truncate(count);
    inputs.forget_unused();
    match limit {
        Some(limit) if count as u64 > limit => {
            Err(format!("exceeded limit of {limit} with {count} series"))
        }
        _ => Ok(()),
    }
}

/// Returns the labels of an element's series beyond the rule's own.
fn local(element: &LabelSet, name: &str, labels: &Texts) -> LabelSet {
    let mut builder = element.to_builder();
    for name in labels.keys() {
        builder.remove(name);
    }
    builder.set(METRIC_NAME, name);
    builder.finish()
}
