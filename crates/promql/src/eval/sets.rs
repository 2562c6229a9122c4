//! `and`, `or`, `unless`.
//!
//! **Invariant:** samples pass unchanged or not at all; membership is decided at each step by match group.

use super::{
    Block, Outcome,
    operation::{Groups, Operation},
    rows::Rows,
};
use crate::ast::BinaryOp;
use narthex_model::cell;

/// Work of copying a sample, in samples read.
const CELL_WORK: usize = 4;

/// Computes a set operation.
pub(super) fn run(
    operation: &Operation<'_>,
    lhs: &Block,
    rhs: &Block,
    groups: &Groups,
    steps: usize,
) -> Outcome<Block> {
    let stop = &operation.eval.ctx.stop;
    let size = (groups.count * steps) as u64;
    let _present = operation.eval.memory.acquire(0, size)?;
    let present = |block: &Block, of: &[usize]| -> Outcome<Vec<bool>> {
        let mut pace = stop.pace();
        let mut present = vec![false; groups.count * steps];
        for (row, group) in of.iter().enumerate() {
            pace.spend(steps)?;
            for (step, x) in block.row(row).iter().enumerate() {
                present[group * steps + step] |= !cell::is_absent(*x);
            }
        }
        Ok(present)
    };
    let mut pace = stop.pace();
    let mut rows = Rows::new(steps, &operation.eval.memory);
    let mut copy = |block: &Block, of: &[usize], keep: &dyn Fn(usize) -> bool| -> Outcome<()> {
        for (row, group) in of.iter().enumerate() {
            let mut to = None;
            pace.spend(steps * CELL_WORK)?;
            for step in 0..steps {
                let Some(value) = block.sample(row, step).value() else {
                    continue;
                };
                if keep(group * steps + step) {
                    let to = match to {
                        Some(to) => to,
                        None => *to.insert(rows.row(&block.series[row])?),
                    };
                    rows.store(to, step, value)?;
                }
            }
        }
        Ok(())
    };
    match operation.op {
        BinaryOp::And => {
            let right = present(rhs, &groups.rhs)?;
            copy(lhs, &groups.lhs, &|at| right[at])?;
        }
        BinaryOp::Unless => {
            let right = present(rhs, &groups.rhs)?;
            copy(lhs, &groups.lhs, &|at| !right[at])?;
        }
        _ => {
            let left = present(lhs, &groups.lhs)?;
            copy(lhs, &groups.lhs, &|_| true)?;
            copy(rhs, &groups.rhs, &|at| !left[at])?;
        }
    }
    Ok(rows.finish())
}
