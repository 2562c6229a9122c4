//! A fleet of microservice-like targets: the corpus that storage and parsing figures name "the fleet".
//!
//! A target reports `series` series of about 185 bytes a line, 10 to 12 labels each with job and instance. Half are
//! counters (+0..15 a round), a quarter bucket counters (+0..3 each, cumulated over the buckets of a histogram), a
//! quarter gauges (uniform, three decimals). The floor of its information is 0.875 bytes a sample.
//!
//! **Invariant:** the same index, generation, width and number of rounds give the same bytes everywhere.

use crate::rng::SplitMix64;
use std::fmt::Write;

/// Buckets of each histogram.
const BUCKETS: usize = 12;

/// One target of the fleet.
#[derive(Debug)]
pub struct Target {
    prefixes: Vec<String>,
    kinds: Vec<SeriesKind>,
    values: Vec<f64>,
    rng: SplitMix64,
}

#[derive(Clone, Copy, Debug)]
enum SeriesKind {
    Counter,
    /// A bucket; the flag marks the first of its histogram, where cumulation starts.
    Bucket {
        first: bool,
    },
    Gauge,
}

impl Target {
    /// Returns target `index` with `series` series; another `generation` has another pod and so other series.
    #[must_use]
    pub fn new(index: usize, generation: usize, series: usize) -> Self {
        let mut rng = SplitMix64::new((index as u64) << 32 | generation as u64);
        let service = index % 50;
        let pod = format!("{:08x}", rng.next_u64() as u32);
        let node = format!("n{:03}.internal", index % 97);
        let common = format!(
            "cluster=\"prod\",namespace=\"team-{:02}\",service=\"svc-{service:02}\",pod=\"{pod}\",node=\"{node}\"",
            service % 12
        );
        let kind = |at: usize| match at * 4 / series.max(1) {
            0 | 1 => SeriesKind::Counter,
            2 => SeriesKind::Bucket {
                first: at.is_multiple_of(BUCKETS),
            },
            _ => SeriesKind::Gauge,
        };
        let kinds: Vec<SeriesKind> = (0..series).map(kind).collect();
        let prefixes = kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| prefix(at, *kind, &common))
            .collect();
        let values = kinds
            .iter()
            .map(|kind| {
                if matches!(kind, SeriesKind::Gauge) {
                    0.5
                } else {
                    1000.0
                }
            })
            .collect();
        Self {
            prefixes,
            kinds,
            values,
            rng,
        }
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

    /// Returns each line's text up to its value.
    #[must_use]
    pub fn prefixes(&self) -> &[String] {
        &self.prefixes
    }

    /// Advances all values by one round.
    pub fn step(&mut self) {
        let mut cumulated = 0;
        for (value, kind) in self.values.iter_mut().zip(&self.kinds) {
            match kind {
                SeriesKind::Counter => *value += self.rng.below(16) as f64,
                SeriesKind::Bucket { first } => {
                    cumulated = if *first { 0 } else { cumulated } + self.rng.below(4);
                    *value += cumulated as f64;
                }
                SeriesKind::Gauge => *value = self.rng.below(1_000_000) as f64 / 1000.0,
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
        SeriesKind::Counter => {
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
        SeriesKind::Gauge => {
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
