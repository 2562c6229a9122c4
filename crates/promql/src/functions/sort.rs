//! `sort` and `sort_by_label`.
//!
//! **Invariant:** only the first step counts, since results over several steps are ordered by labels; NaN is last in
//! either direction, and numbers within labels sort numerically.

use super::FunctionId;
use crate::eval::{Block, Sample};
use narthex_model::{
    LabelSet,
    storage::{Stop, StopReason, ordered},
};
use std::cmp::Ordering;

/// Work of comparing two values, and the labels of two series, in samples read.
const VALUE_WORK: usize = 4;
const LABELS_WORK: usize = 64;

/// Sorts the rows of a block.
///
/// # Errors
/// Fails when stopped.
pub(crate) fn sort(
    id: FunctionId,
    mut block: Block,
    names: &[&str],
    stop: &Stop,
) -> Result<Block, StopReason> {
    let mut pace = stop.pace();
    let descending = matches!(id, FunctionId::SortDesc | FunctionId::SortByLabelDesc);
    let order = if matches!(id, FunctionId::Sort | FunctionId::SortDesc) {
        block.map_floats(|x| x);
        block.drop_empty_rows();
        let value = |row: usize| match block.sample(row, 0) {
            Sample::Float(x) => x,
            _ => f64::NAN,
        };
        let compare = |a, b| by_value(value(a), value(b), descending);
        ordered(block.len(), VALUE_WORK, &mut pace, compare)?
    } else {
        let labels: Vec<LabelSet> = block.series.iter().map(|s| s.labels()).collect();
        let compare =
            |a: usize, b: usize| directed(by_labels(&labels[a], &labels[b], names), descending);
        ordered(block.len(), LABELS_WORK, &mut pace, compare)?
    };
    let cells = order.iter().flat_map(|row| block.row(*row).to_vec());
    let series = order.iter().map(|row| block.series[*row].clone());
    Ok(Block {
        cells: cells.collect(),
        series: series.collect(),
        ..block
    })
}

fn by_value(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => directed(a.partial_cmp(&b).unwrap_or(Ordering::Equal), descending),
        (a, b) => a.cmp(&b),
    }
}

fn directed(ordering: Ordering, descending: bool) -> Ordering {
    match descending {
        true => ordering.reverse(),
        false => ordering,
    }
}

fn by_labels(a: &LabelSet, b: &LabelSet, names: &[&str]) -> Ordering {
    for name in names {
        let [x, y] = [a, b].map(|set| set.get(name).unwrap_or_default());
        if x != y {
            return match natural_less(x, y) {
                true => Ordering::Less,
                false => Ordering::Greater,
            };
        }
    }
    a.cmp(b)
}

/// Compares texts chunk by chunk, runs of digits as numbers.
fn natural_less(a: &str, b: &str) -> bool {
    let (a, b) = (chunks(a), chunks(b));
    let mut pairs = a.iter().zip(&b);
    let Some((x, y)) = pairs.find(|(x, y)| x != y) else {
        return a.len() < b.len();
    };
    match (x.parse::<u64>(), y.parse::<u64>()) {
        (Ok(p), Ok(q)) if p != q => p < q,
        // Equal numbers may differ in leading zeros.
        _ => x < y,
    }
}

fn chunks(text: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest
            .find(|c: char| c.is_ascii_digit() != digits)
            .unwrap_or(rest.len());
        let (chunk, tail) = rest.split_at(end);
        chunks.push(chunk);
        rest = tail;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_labels_sort_as_numbers() {
        let mut texts = vec!["a10", "a9", "a", "b1", "a09", "10", "9", ""];
        texts.sort_by(|a, b| {
            if natural_less(a, b) {
                Ordering::Less
            } else if a == b {
                Ordering::Equal
            } else {
                Ordering::Greater
            }
        });
        assert_eq!(texts, ["", "9", "10", "a", "a09", "a9", "a10", "b1"]);
    }
}
