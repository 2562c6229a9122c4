//! Prometheus' text forms of histograms and floats.
//!
//! **Invariant:** floats are written like Go's `%g`: shortest digits, an exponent when it is below −4 or at least 6.

use super::{Bucket, Histogram, ResetHint, Span};
use std::fmt::{self, Display, Formatter, Write as _};

/// Formats like Go's `%g` and `%v`.
#[must_use]
pub fn format_g(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("LowerExp writes an exponent");
    let exponent: i32 = exponent.parse().expect("LowerExp writes a small exponent");
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

impl Display for Bucket {
    /// Writes `(lower,upper]:count`, with a square bracket for an inclusive bound.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let open = if self.lower_inclusive { '[' } else { '(' };
        let close = if self.upper_inclusive { ']' } else { ')' };
        write!(
            f,
            "{open}{},{}{close}:{}",
            format_g(self.lower),
            format_g(self.upper),
            format_g(self.count)
        )
    }
}

impl Display for Histogram {
    /// Writes `{count:…, sum:…, bucket, …}` with the populated buckets in ascending order.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{count:{}, sum:{}",
            format_g(self.count),
            format_g(self.sum)
        )?;
        let all = self.in_order(self.zero_count != 0.0);
        for bucket in all.iter().filter(|b| b.count != 0.0) {
            write!(f, ", {bucket}")?;
        }
        f.write_str("}")
    }
}

impl Histogram {
    /// Formats in the notation of Prometheus' test files: `{{schema:1 count:2 sum:3 buckets:[1 1]}}`.
    #[must_use]
    pub fn test_notation(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.histogram_schema != 0 {
            parts.push(format!("schema:{}", self.histogram_schema));
        }
        let numbers = [
            ("count", self.count),
            ("sum", self.sum),
            ("z_bucket", self.zero_count),
            ("z_bucket_w", self.zero_threshold),
        ];
        parts.extend(
            numbers
                .iter()
                .filter(|(_, x)| *x != 0.0)
                .map(|(name, x)| format!("{name}:{}", format_g(*x))),
        );
        if self.uses_custom_buckets() {
            parts.push(format!("custom_values:{}", list(&self.custom_values)));
        }
        parts.extend(match self.reset_hint {
            ResetHint::Unknown => None,
            ResetHint::Reset => Some("counter_reset_hint:reset".to_owned()),
            ResetHint::NotReset => Some("counter_reset_hint:not_reset".to_owned()),
            ResetHint::Gauge => Some("counter_reset_hint:gauge".to_owned()),
        });
        let mut compact = self.clone();
        compact.compact();
        for (negative, prefix) in [(false, ""), (true, "n_")] {
            let (spans, buckets) = compact.side(negative);
            if let Some(first) = spans.first() {
                if first.offset != 0 {
                    parts.push(format!("{prefix}offset:{}", first.offset));
                }
                parts.push(format!(
                    "{prefix}buckets:{}",
                    list(&without_gaps(spans, buckets))
                ));
            }
        }
        format!("{{{{{}}}}}", parts.join(" "))
    }
}

/// Lists the counts with zeros in the gaps between spans; very long gaps are shortened.
fn without_gaps(spans: &[Span], buckets: &[f64]) -> Vec<f64> {
    const LONGEST: usize = 1000;
    let mut counts = buckets.iter();
    let mut filled = Vec::new();
    for (at, span) in spans.iter().enumerate() {
        if at > 0 {
            filled.extend(std::iter::repeat_n(
                0.0,
                usize::try_from(span.offset).unwrap_or(0).min(LONGEST),
            ));
        }
        filled.extend(counts.by_ref().take(span.length as usize));
    }
    filled
}

fn list(values: &[f64]) -> String {
    let mut text = String::from("[");
    for (at, value) in values.iter().enumerate() {
        let _ = write!(
            text,
            "{}{}",
            if at == 0 { "" } else { " " },
            format_g(*value)
        );
    }
    text.push(']');
    text
}
