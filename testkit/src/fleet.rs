//! A fleet of microservice-like targets: the corpus that storage and parsing figures name "the fleet".
//!
//! A target reports `series` series of about 185 bytes a line, 10 to 12 labels each with job and instance. Half are
//! counters (+0..15 a round), a quarter bucket counters (+0..3 each, cumulated over the buckets of a histogram), a
//! quarter gauges (uniform, three decimals). The floor of its information is 0.875 bytes a sample.
//!
//! `Target::service` and its like have other shapes.
//!
//! **Invariant:** the same shape, index, generation, width and number of rounds give the same bytes everywhere.

mod native;
mod rules;
mod shapes;

pub use native::Native;
pub use rules::rule_group;
pub use shapes::{NATIVE_A_FAMILY, NATIVE_FAMILIES};

use crate::rng::SplitMix64;
use std::fmt::Write;

/// Buckets of each histogram.
const BUCKETS: usize = 12;

/// One target of a fleet.
#[derive(Debug)]
pub struct Target {
    prefixes: Vec<String>,
    kinds: Vec<SeriesKind>,
    values: Vec<f64>,
    natives: Vec<Native>,
    rng: SplitMix64,
}

/// How a series' value changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesKind {
    /// Grows by up to this much, exclusive.
    Counter(u64),
    /// Any thousandth up to 1,000.
    Gauge,
    /// Cumulated over its histogram; the flag marks its first.
    Bucket {
        /// Whether it is the first.
        first: bool,
    },
    /// Count of the last bucket.
    Count,
    /// Thousandths, in proportion to the count behind it.
    Sum,
    /// Around its level.
    Quantile(u16),
    /// 0 or 1, rarely changing.
    State,
    /// The count of that native histogram.
    Native(u32),
}

impl Target {
    /// Returns target `index` with `series` series; another `generation` has another pod and so other series.
    #[must_use]
    pub fn new(index: usize, generation: usize, series: usize) -> Self {
        let (mut all, common) = Self::pod(index, generation, series);
        for at in 0..series {
            let kind = match at * 4 / series {
                0 | 1 => SeriesKind::Counter(16),
                2 => SeriesKind::Bucket {
                    first: at.is_multiple_of(BUCKETS),
                },
                _ => SeriesKind::Gauge,
            };
            all.push(kind, prefix(at, kind, &common));
        }
        all
    }

    /// Returns a pod without series yet, and the labels all of them will have.
    fn pod(index: usize, generation: usize, series: usize) -> (Self, String) {
        let mut rng = SplitMix64::new((index as u64) << 32 | generation as u64);
        let service = index % 50;
        let common = format!(
            "cluster=\"prod\",namespace=\"team-{:02}\",service=\"svc-{service:02}\",pod=\"{:08x}\",node=\"n{:03}.internal\"",
            service % 12,
            rng.next_u64() as u32,
            index % 97
        );
        (Self::empty(rng, series), common)
    }

    fn empty(rng: SplitMix64, series: usize) -> Self {
        Self {
            prefixes: Vec::with_capacity(series),
            kinds: Vec::with_capacity(series),
            values: Vec::with_capacity(series),
            natives: Vec::new(),
            rng,
        }
    }

    fn push(&mut self, kind: SeriesKind, prefix: String) {
        let value = match kind {
            SeriesKind::Counter(_) | SeriesKind::Bucket { .. } | SeriesKind::Count => 1000.0,
            SeriesKind::Sum => 120.5,
            SeriesKind::State => f64::from(u8::from(self.rng.one_in(4))),
            SeriesKind::Gauge | SeriesKind::Quantile(_) => 0.5,
            SeriesKind::Native(_) => {
                let mut native = Native::new(&mut self.rng);
                let count = native.step(&mut self.rng);
                self.natives.push(native);
                count
            }
        };
        self.prefixes.push(prefix);
        self.kinds.push(kind);
        self.values.push(value);
    }

    /// Returns the number of series.
    #[must_use]
    pub fn series(&self) -> usize {
        self.values.len()
    }

    /// Returns the values of the current round, in line order.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns how each line's value changes.
    #[must_use]
    pub fn kinds(&self) -> &[SeriesKind] {
        &self.kinds
    }

    /// Returns the native histograms, whose lines have their counts.
    #[must_use]
    pub fn natives(&self) -> &[Native] {
        &self.natives
    }

    /// Returns each line's text up to its value, with the comments before it.
    #[must_use]
    pub fn prefixes(&self) -> &[String] {
        &self.prefixes
    }

    /// Advances all values by one round.
    pub fn step(&mut self) {
        let (mut cumulated, mut counted) = (0, 0);
        for (value, kind) in self.values.iter_mut().zip(&self.kinds) {
            match *kind {
                SeriesKind::Counter(most) => {
                    counted = self.rng.below(most);
                    *value += counted as f64;
                }
                SeriesKind::Gauge => *value = self.rng.below(1_000_000) as f64 / 1000.0,
                SeriesKind::Bucket { first } => {
                    cumulated = if first { 0 } else { cumulated } + self.rng.below(4);
                    *value += cumulated as f64;
                    counted = cumulated;
                }
                SeriesKind::Count => *value += counted as f64,
                SeriesKind::Sum => {
                    // Summed in thousandths, so that the text stays short.
                    let more = counted * self.rng.below(500);
                    *value = ((*value * 1000.0).round() + more as f64) / 1000.0;
                }
                SeriesKind::Quantile(level) => {
                    let level = f64::from(level);
                    *value = (level + self.rng.below(1 + u64::from(level as u32)) as f64) / 1000.0;
                }
                // One in 256: most states do not change.
                SeriesKind::State => {
                    if self.rng.one_in(256) {
                        *value = 1.0 - *value;
                    }
                }
                SeriesKind::Native(at) => *value = self.natives[at as usize].step(&mut self.rng),
            }
        }
    }

    /// Appends the current round in text format 0.0.4.
    pub fn render(&self, body: &mut String) {
        for (prefix, value) in self.prefixes.iter().zip(&self.values) {
            body.push_str(prefix);
            writeln!(body, "{value}").expect("writing to a string does not fail");
        }
    }
}

fn prefix(at: usize, kind: SeriesKind, common: &str) -> String {
    let head = |name: &str, kind: &str| {
        format!("# HELP {name} A metric of the fleet.\n# TYPE {name} {kind}\n")
    };
    match kind {
        SeriesKind::Counter(_) => {
            let name = format!("http_server_requests_{:02}_total", at / 14);
            let head = if at.is_multiple_of(14) {
                head(&name, "counter")
            } else {
                String::new()
            };
            let route = at % 14;
            let code = [200, 201, 404, 500][route % 4];
            format!(
                "{head}{name}{{{common},method=\"GET\",route=\"/api/v1/r{route:02}\",code=\"{code}\",version=\"1.4.2\"}} "
            )
        }
        SeriesKind::Bucket { first } => {
            let name = format!("rpc_duration_seconds_{:02}", at / BUCKETS);
            let head = if first {
                head(&name, "histogram")
            } else {
                String::new()
            };
            let le = match at % BUCKETS {
                11 => "+Inf".to_owned(),
                bucket => format!("{}", 0.005 * f64::from(1 << bucket)),
            };
            format!(
                "{head}{name}_bucket{{{common},method=\"Get\",peer=\"backend\",version=\"1.4.2\",le=\"{le}\"}} "
            )
        }
        _ => {
            let name = format!("worker_pool_saturation_{:02}_ratio", at / 10);
            let head = if at.is_multiple_of(10) {
                head(&name, "gauge")
            } else {
                String::new()
            };
            format!(
                "{head}{name}{{{common},pool=\"p{}\",shard=\"{:03}\",tier=\"hot\",version=\"1.4.2\"}} ",
                at % 3,
                at % 10
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_about_185_bytes_and_repeat() {
        let (mut one, mut two) = (Target::new(3, 0, 588), Target::new(3, 0, 588));
        let (mut first, mut second) = (String::new(), String::new());
        one.step();
        two.step();
        one.render(&mut first);
        two.render(&mut second);
        assert_eq!(first, second);
        let mean = first.len() / 588;
        assert!((180..=190).contains(&mean), "{mean} bytes a line");
        assert_eq!(
            first.lines().filter(|line| !line.starts_with('#')).count(),
            588
        );
    }
}
