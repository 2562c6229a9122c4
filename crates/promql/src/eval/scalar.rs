//! Scalars: one float per step.
//!
//! **Invariant:** the result has exactly one value for every step.

use super::{Eval, Hold, Outcome, Sample, scalar_operation};
use crate::{
    error::QueryError,
    functions::FunctionId,
    math,
    plan::{Call, Node, NodeKind, Steps},
};
use narthex_model::cell::NAN;
use std::ops::Deref;

/// The values of a scalar, with the lease for their memory.
#[derive(Default)]
pub(crate) struct Scalars {
    values: Vec<f64>,
    _hold: Hold,
}

impl Deref for Scalars {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.values
    }
}

impl Eval<'_> {
    /// Evaluates a scalar.
    pub(super) fn scalar(&self, node: &Node, steps: Steps) -> Outcome<Scalars> {
        self.ctx.stop.check()?;
        let bytes = steps.count as u64 * size_of::<f64>() as u64;
        // Both operands exist while the result is computed; their own operands have separate leases.
        let hold = self.memory.acquire(0, 2 * bytes)?;
        Ok(Scalars {
            values: self.scalar_values(node, steps)?,
            _hold: hold,
        })
    }

    /// Evaluates an optional scalar.
    pub(super) fn scalar_or(
        &self,
        node: Option<&Node>,
        otherwise: f64,
        steps: Steps,
    ) -> Outcome<Scalars> {
        if let Some(node) = node {
            return self.scalar(node, steps);
        }
        let bytes = steps.count as u64 * size_of::<f64>() as u64;
        let hold = self.memory.acquire(0, bytes)?;
        Ok(Scalars {
            values: vec![otherwise; steps.count],
            _hold: hold,
        })
    }

    fn scalar_values(&self, node: &Node, steps: Steps) -> Outcome<Vec<f64>> {
        Ok(match &node.kind {
            NodeKind::Number(x) => vec![*x; steps.count],
            NodeKind::StepInvariant(inner) => {
                let one = steps.first();
                let (once, counts) = self.counted_apart(one, || self.scalar(inner, one));
                self.count_once(counts, steps);
                vec![once?.first().copied().unwrap_or(NAN); steps.count]
            }
            NodeKind::Negate(inner) => self.scalar(inner, steps)?.iter().map(|x| -x).collect(),
            NodeKind::Binary(b) => {
                let (lhs, rhs) = (self.scalar(&b.lhs, steps)?, self.scalar(&b.rhs, steps)?);
                let both = lhs.iter().zip(rhs.iter());
                both.map(|(l, r)| scalar_operation(b.op, *l, *r)).collect()
            }
            NodeKind::Call(call) => self.scalar_call(call, steps)?,
            _ => return Err(QueryError::Execution("expected a scalar".to_owned())),
        })
    }

    fn scalar_call(&self, call: &Call, steps: Steps) -> Outcome<Vec<f64>> {
        let arg = |at: usize| match call.args.get(at) {
            Some(node) => self.scalar(node, steps),
            None => Err(QueryError::Execution(
                "a function lacks an argument".to_owned(),
            )),
        };
        let pairwise = |f: fn(f64, f64) -> f64| -> Outcome<Vec<f64>> {
            let (first, second) = (arg(0)?, arg(1)?);
            let both = first.iter().zip(second.iter());
            Ok(both.map(|(a, b)| f(*a, *b)).collect())
        };
        match (call.function, call.args.first()) {
            (FunctionId::Time, _) => Ok(steps.times_ms().map(math::seconds).collect()),
            (FunctionId::MaxOf, _) => pairwise(math::max),
            (FunctionId::MinOf, _) => pairwise(math::min),
            (FunctionId::Scalar, Some(vector)) => self.only_float(vector, steps),
            _ => Err(QueryError::Execution(format!(
                "{:?} gives no scalar",
                call.function
            ))),
        }
    }

    /// Returns the single float of each step; NaN if there are several or none.
    fn only_float(&self, vector: &Node, steps: Steps) -> Outcome<Vec<f64>> {
        let mut values = vec![NAN; steps.count];
        let mut found = vec![0u32; steps.count];
        self.stream(vector, steps, &mut |block| {
            for row in 0..block.len() {
                for step in 0..block.steps {
                    if let Sample::Float(x) = block.sample(row, step) {
                        found[step] = found[step].saturating_add(1);
                        values[step] = if found[step] == 1 { x } else { NAN };
                    }
                }
            }
            Ok(())
        })?;
        Ok(values)
    }
}
