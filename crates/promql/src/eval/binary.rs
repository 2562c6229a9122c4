//! Binary operators between vectors and scalars.

use super::{
    Eval, Meter, Outcome, Sample, Sink, Value,
    arithmetic::{combine, compare, scalar_operation},
    operation::Operation,
};
use crate::{
    ast::{BinaryOp, ValueType},
    notes::Note,
    plan::{Binary, Node, Steps},
    span::Span,
};
use narthex_model::cell::{self, ABSENT};

impl Eval<'_> {
    pub(super) fn stream_binary(
        &self,
        b: &Binary,
        node: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        match (b.lhs.value_type, b.rhs.value_type) {
            (ValueType::Vector, ValueType::Vector) => {
                let (lhs, rhs) = (self.collect(&b.lhs, steps)?, self.collect(&b.rhs, steps)?);
                let operation = Operation::new(self, b, node.span);
                sink(self.charge(operation.run(&lhs, &rhs, steps)?)?)
            }
            (ValueType::Vector, _) => {
                let scalars = self.scalar(&b.rhs, steps)?;
                self.stream_with_scalar(b, &b.lhs, &scalars, false, node.span, steps, sink)
            }
            (_, ValueType::Vector) => {
                let scalars = self.scalar(&b.lhs, steps)?;
                self.stream_with_scalar(b, &b.rhs, &scalars, true, node.span, steps, sink)
            }
            _ => {
                // The type checker rejects a scalar operation where a vector is required.
                Err(crate::error::QueryError::Execution(
                    "expected an instant vector".to_owned(),
                ))
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "both operands, their order and the usual three"
    )]
    fn stream_with_scalar(
        &self,
        b: &Binary,
        vector: &Node,
        scalars: &[f64],
        swapped: bool,
        span: Span,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let drops_name = b.op.changes_meaning() || b.return_bool;
        let work = |mut block: super::Block| -> Outcome<super::Block> {
            if block.dense && !matches!(b.op, BinaryOp::TrimUpper | BinaryOp::TrimLower) {
                dense_with_scalar(b, &mut block, scalars, swapped);
            } else {
                self.mixed_with_scalar(b, &mut block, scalars, swapped, span)?;
                block.dense = false;
            }
            if !block.dense {
                block.drop_empty_rows();
            }
            Ok(block)
        };
        if drops_name {
            self.stream_nameless(vector, steps, sink, work)
        } else {
            self.stream(vector, steps, &mut |block| sink(work(block)?))
        }
    }

    fn mixed_with_scalar(
        &self,
        b: &Binary,
        block: &mut super::Block,
        scalars: &[f64],
        swapped: bool,
        span: Span,
    ) -> Outcome<()> {
        let (mut meter, mut pace) = (Meter::new(&self.memory), self.ctx.stop.pace());
        // As between vectors, only the last note of a step is kept.
        let mut last_notes: Vec<Option<Note>> = scalars.iter().map(|_| None).collect();
        for row in 0..block.len() {
            for (step, scalar) in scalars.iter().enumerate() {
                let sample = block.sample(row, step);
                if matches!(sample, Sample::Absent) {
                    continue;
                }
                if let Sample::Histogram(h) = sample {
                    // The result is another histogram.
                    pace.spend(4 * h.weight())?;
                    meter.add(h.heap_bytes())?;
                }
                pace.spend(2)?;
                let scalar = Sample::Float(*scalar);
                let (l, r) = if swapped {
                    (scalar, sample)
                } else {
                    (sample, scalar)
                };
                let combined = combine(b.op, l, r, span);
                if let Some(note) = combined.info.filter(|_| combined.value.is_none()) {
                    last_notes[step] = Some(note);
                    block.row_mut(row)[step] = ABSENT;
                    continue;
                }
                let value = match combined.value {
                    // A comparison keeps the vector's sample, on whichever side it is.
                    Some(_) if b.op.is_comparison() && swapped => sample.value(),
                    value => value,
                };
                let value = if b.return_bool {
                    Some(Value::Float(f64::from(combined.keep)))
                } else {
                    value
                };
                match value.filter(|_| combined.keep || b.return_bool) {
                    Some(value) => block.set(row, step, value),
                    None => block.row_mut(row)[step] = ABSENT,
                }
            }
        }
        let mut notes = self.notes();
        last_notes
            .into_iter()
            .flatten()
            .for_each(|note| notes.add(note));
        drop(notes);
        block.hold.join(meter.finish());
        Ok(())
    }
}

/// Computes the operator if all cells are floats.
fn dense_with_scalar(b: &Binary, block: &mut super::Block, scalars: &[f64], swapped: bool) {
    let filters = b.op.is_comparison() && !b.return_bool;
    for row in block.cells.chunks_exact_mut(scalars.len().max(1)) {
        for (x, scalar) in row.iter_mut().zip(scalars) {
            let (l, r) = if swapped {
                (*scalar, *x)
            } else {
                (*x, *scalar)
            };
            if !filters {
                *x = cell::canonical(scalar_operation(b.op, l, r));
            } else if !compare(b.op, l, r) {
                *x = ABSENT;
            }
        }
    }
    block.dense = !filters;
}
