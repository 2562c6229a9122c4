//! `count_values`: one series for each value.
//!
//! **Invariant:** floats are written without an exponent, histograms as text, as label values.

use super::{
    Block, Eval, Outcome, Sample, Series, Value, aggregate::missing_parameter, rows::Rows,
};
use crate::{
    fmt::float_f,
    plan::{Aggregate, Kind, Steps},
};
use narthex_model::METRIC_NAME;
use std::collections::HashMap;

impl Eval<'_> {
    pub(super) fn count_values(&self, a: &Aggregate, steps: Steps) -> Outcome<Block> {
        let Some(Kind::Text(label)) = a.param.as_ref().map(|p| &p.kind) else {
            return Err(missing_parameter());
        };
        let mut names: Vec<&str> = a.grouping.iter().map(|name| &**name).collect();
        names.push(if a.without { METRIC_NAME } else { label });
        let mut rows = Rows::new(steps.count, &self.memory);
        let mut counts: HashMap<(usize, usize), f64> = HashMap::new();
        self.stream(&a.input, steps, &mut |block| {
            for row in 0..block.len() {
                let series = block.series[row].labels();
                for step in 0..block.steps {
                    let text = match block.sample(row, step) {
                        Sample::Absent => continue,
                        Sample::Float(x) => float_f(x),
                        Sample::Histogram(h) => h.to_string(),
                    };
                    let labels = series.with(label, &text);
                    let labels = if a.without {
                        labels.without(&names)
                    } else {
                        labels.only(&names)
                    };
                    let to = rows.row(&Series::new(labels))?;
                    *counts.entry((to, step)).or_default() += 1.0;
                }
            }
            Ok(())
        })?;
        for ((row, step), count) in counts {
            rows.put(row, step, Value::Float(count))?;
        }
        Ok(rows.finish())
    }
}
