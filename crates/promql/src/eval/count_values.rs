//! `count_values`: one series for each value.
//!
//! **Invariant:** in label values, floats are written without an exponent and histograms as text.

use super::{
    Block, Eval, META_LABELS, Outcome, Sample, Series, aggregate::missing_parameter, rows::Rows,
};
use crate::{
    fmt::float_f,
    plan::{Aggregate, NodeKind, Steps},
};

/// Work of creating the labels of one value, in samples read.
const VALUE_WORK: usize = 128;

impl Eval<'_> {
    pub(super) fn count_values(&self, a: &Aggregate, steps: Steps) -> Outcome<Block> {
        let Some(NodeKind::Text(label)) = a.param.as_ref().map(|p| &p.kind) else {
            return Err(missing_parameter());
        };
        let mut names: Vec<&str> = a.grouping.iter().map(|name| &**name).collect();
        if a.without {
            names.extend(META_LABELS);
        } else {
            names.push(label);
        }
        let mut rows = Rows::new(steps.count, &self.memory);
        let mut pace = self.ctx.stop.pace();
        self.stream(&a.input, steps, &mut |block| {
            for row in 0..block.len() {
                let series = block.series[row].labels();
                for step in 0..block.steps {
                    let text = match block.sample(row, step) {
                        Sample::Absent => continue,
                        Sample::Float(x) => float_f(x),
                        Sample::Histogram(h) => h.to_string(),
                    };
                    pace.spend(VALUE_WORK + text.len())?;
                    self.memory.check_label(label, text.len())?;
                    let labels = series.with(label, &text);
                    let labels = if a.without {
                        labels.without(&names)
                    } else {
                        labels.only(&names)
                    };
                    let known = rows.len();
                    let to = rows.row(&Series::new(labels))?;
                    if to == known {
                        rows.add_label(text.len())?;
                    }
                    rows.count(to, step);
                }
            }
            Ok(())
        })?;
        Ok(rows.finish())
    }
}
