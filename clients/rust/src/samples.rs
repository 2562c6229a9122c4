//! Series passed to a [`Visitor`] as samples.

use crate::number;
use crate::point::{Point, Reading, SeriesVisitor};
use crate::spec::Spec;
use crate::visit::{Sample, SampleLabels, Visitor};

/// Passes readings as samples.
pub(crate) struct Samples<'a> {
    visitor: &'a mut dyn Visitor,
    spec: Option<Spec>,
    /// The family's `le` or `quantile` values as text.
    extras: Vec<String>,
}

impl<'a> Samples<'a> {
    pub(crate) fn new(visitor: &'a mut dyn Visitor) -> Self {
        Self {
            visitor,
            spec: None,
            extras: Vec::new(),
        }
    }
}

impl SeriesVisitor for Samples<'_> {
    fn family(&mut self, spec: &Spec) {
        self.spec = Some(*spec);
        let numbers = spec.bounds.iter().chain(spec.quantiles);
        self.extras.clear();
        self.extras
            .extend(numbers.map(|number| number::to_string(*number)));
        self.visitor.family(spec.name, spec.help, spec.kind);
    }

    fn series(&mut self, reading: &Reading<'_>) {
        let Some(Spec { name, .. }) = self.spec else {
            return;
        };
        let mut put = |suffix, extra, value| {
            self.visitor.sample(&Sample {
                name,
                suffix,
                labels: SampleLabels {
                    extra,
                    ..reading.labels
                },
                value,
            });
        };
        let texts = self.extras.iter().map(String::as_str);
        match reading.point {
            Point::Counter { value, .. } | Point::Gauge(value) => put("", None, value),
            Point::Histogram { sum, buckets, .. } => {
                let mut total = 0_u64;
                for (bucket, le) in buckets.iter().zip(texts.chain(["+Inf"])) {
                    total += bucket;
                    put("_bucket", Some(("le", le)), total as f64);
                }
                put("_sum", None, sum);
                put("_count", None, total as f64);
            }
            Point::Summary { sum, count, values } => {
                for (value, quantile) in values.iter().zip(texts) {
                    put("", Some(("quantile", quantile)), *value);
                }
                put("_sum", None, sum);
                put("_count", None, count as f64);
            }
        }
    }
}
