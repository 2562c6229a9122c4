//! Arithmetic and comparisons between float vectors, series by series.
//!
//! **Invariant:** returns the same result as [`super::pairing::Pairing`], or declines: it accepts only operations
//! that cannot fail, those with one series per group on the "one" side at all steps and with distinct result labels.

use super::{
    Block, Meter, Outcome, Series,
    arithmetic::scalar_operation,
    joined::Given,
    operation::{Groups, Operation},
};
use crate::ast::{BinaryOp, Cardinality};
use narthex_model::{
    LabelHash,
    cell::{self, ABSENT},
};
use std::{collections::HashSet, sync::Arc};

/// Work of creating the labels of a pair, in samples read.
const PAIR_WORK: usize = 64;

/// Computes the operation, or declines if it needs step-by-step evaluation.
pub(super) fn run(
    operation: &Operation<'_>,
    many: &Block,
    one: &Block,
    groups: &Groups,
) -> Outcome<Option<Block>> {
    let matching = operation.matching;
    let floats_only = many.histograms.is_empty() && one.histograms.is_empty();
    let trims = matches!(operation.op, BinaryOp::TrimLower | BinaryOp::TrimUpper);
    let fills = matching.fill_left.is_some() || matching.fill_right.is_some();
    if !floats_only || trims || fills {
        return Ok(None);
    }
    let Some(one_of) = unique(&groups.rhs, groups.count) else {
        return Ok(None);
    };
    let one_to_one = matching.cardinality == Cardinality::OneToOne;
    if one_to_one && unique(&groups.lhs, groups.count).is_none() {
        return Ok(None);
    }
    let joins = operation.joins();
    let mut pairs = Vec::new();
    let mut labels: HashSet<LabelHash, foldhash::fast::RandomState> = HashSet::default();
    let mut given: Vec<Option<Arc<Given>>> = vec![None; one.len()];
    let (mut meter, mut pace) = (
        Meter::new(&operation.eval.memory),
        operation.eval.ctx.stop.pace(),
    );
    for (row, group) in groups.lhs.iter().enumerate() {
        pace.spend(PAIR_WORK)?;
        let Some(partner) = one_of[*group] else {
            continue;
        };
        if operation.keeps_labels() {
            // Groups are the labels without the name, so all results are distinct.
            let series = operation.result_with_labels(&many.series[row]);
            meter.add(series.heap_bytes())?;
            pairs.push((row, partner, series));
            continue;
        }
        let joined = || {
            let include = &operation.matching.include;
            let of_one = || Arc::new(Given::new(include, &one.series[partner].labels()));
            let given = given[partner].get_or_insert_with(of_one);
            operation.joined(&many.series[row], given)
        };
        let joined = joins.then(joined).flatten();
        let series = joined.unwrap_or_else(|| {
            operation.result(&many.series[row].labels(), &one.series[partner].labels())
        });
        if !labels.insert(series.hash()) {
            return Ok(None);
        }
        meter.add(series.heap_bytes())?;
        pairs.push((row, partner, series));
    }
    let swapped = matching.cardinality == Cardinality::OneToMany;
    let mut block = compute(operation, many, one, pairs, swapped)?;
    block.hold.join(meter.finish());
    Ok(Some(block))
}

/// Returns the row of each group, or `None` if a group has several.
fn unique(rows: &[usize], groups: usize) -> Option<Vec<Option<usize>>> {
    let mut row_of = vec![None; groups];
    for (row, group) in rows.iter().enumerate() {
        if row_of[*group].replace(row).is_some() {
            return None;
        }
    }
    Some(row_of)
}

fn compute(
    operation: &Operation<'_>,
    many: &Block,
    one: &Block,
    pairs: Vec<(usize, usize, Series)>,
    swapped: bool,
) -> Outcome<Block> {
    let steps = many.steps;
    let size = pairs.len() * steps;
    let mut block = Block::new(steps);
    block.hold = operation
        .eval
        .memory
        .acquire(0, (size * size_of::<f64>()) as u64)?;
    block.cells.reserve(size);
    block.dense = many.dense && one.dense;
    let filters = operation.op.is_comparison() && !operation.return_bool;
    let mut pace = operation.eval.ctx.stop.pace();
    for (row, partner, series) in pairs {
        pace.spend(steps)?;
        let (many, one) = (many.row(row), one.row(partner));
        let (lhs, rhs) = if swapped { (one, many) } else { (many, one) };
        let begin = block.cells.len();
        if filters {
            push(lhs, rhs, &mut block.cells, |l, r| {
                let holds = scalar_operation(operation.op, l, r) != 0.0;
                if holds { l } else { ABSENT }
            });
            block.dense = false;
        } else {
            push_result(operation.op, lhs, rhs, &mut block.cells);
        }
        if block.cells[begin..].iter().all(|x| cell::is_absent(*x)) {
            block.cells.truncate(begin);
        } else {
            block.series.push(series);
        }
    }
    Ok(block)
}

/// Appends the results of one row. The operator is chosen once per row, not once per cell.
fn push_result(op: BinaryOp, lhs: &[f64], rhs: &[f64], out: &mut Vec<f64>) {
    match op {
        BinaryOp::Add => push(lhs, rhs, out, |l, r| cell::canonical(l + r)),
        BinaryOp::Sub => push(lhs, rhs, out, |l, r| cell::canonical(l - r)),
        BinaryOp::Mul => push(lhs, rhs, out, |l, r| cell::canonical(l * r)),
        BinaryOp::Div => push(lhs, rhs, out, |l, r| cell::canonical(l / r)),
        _ => push(lhs, rhs, out, |l, r| {
            cell::canonical(scalar_operation(op, l, r))
        }),
    }
}

#[inline]
fn push(lhs: &[f64], rhs: &[f64], out: &mut Vec<f64>, f: impl Fn(f64, f64) -> f64) {
    let both = lhs.iter().zip(rhs).map(|(l, r)| {
        if cell::is_float(*l) && cell::is_float(*r) {
            f(*l, *r)
        } else {
            ABSENT
        }
    });
    out.extend(both);
}
