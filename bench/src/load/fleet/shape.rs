//! Shapes of a fleet: the contents of its pages, and their unfriendly properties.
//!
//! **Invariant:** the same shape, target, generation and number of rounds give the same values everywhere.

use super::native::Native;
use crate::harness::cli::choices;
use narthex_testkit::{fleet, rng::SplitMix64};

/// Maximum age of a new timestamp of a line relative to the scrape.
pub(crate) const OLDEST_STAMP_MS: u64 = 10_000;

/// Prefix of the names of native histograms.
const NATIVE: &str = "rpc_latency_seconds";
/// Native histograms of a family.
pub(super) const NATIVE_FAMILY: usize = 11;

choices! {
    /// Shape of a fleet.
    pub(crate) enum Shape {
        /// Counters, buckets and gauges, the corpus that storage figures call the fleet.
        Fleet = "fleet",
        /// Microservices: counters, gauges, whole histograms and summaries.
        Service = "service",
        /// Microservices that also have native histograms, and so answer in protobuf.
        Native = "native",
        /// One target with the states of many objects, all labels its own, most values constant.
        Objects = "objects",
        /// The fleet with a timestamp on every line, some seconds old and different from line to line.
        Stamped = "stamped",
        /// The fleet with a timestamp on every line, some seconds old and the same for some sixty lines, which a quarter of
        /// them repeat in the next round.
        Cadvisor = "cadvisor",
        /// The fleet with families, and lines in them, in another order every time.
        Shuffled = "shuffled",
        /// Very many targets with five series.
        Tiny = "tiny",
        /// The fleet with a tenth of its series absent every third round.
        Flapping = "flapping",
    }
}

impl Shape {
    /// Returns the default number of targets and of series per target.
    pub(crate) fn size(self) -> (usize, usize) {
        match self {
            Self::Objects => (1, 500_000),
            Self::Tiny => (10_000, 5),
            _ => (850, 588),
        }
    }

    /// Reports whether every line has a timestamp, not the time of the scrape.
    pub(crate) fn has_old_stamps(self) -> bool {
        matches!(self, Self::Stamped | Self::Cadvisor)
    }

    /// Returns the maximum age of a line's timestamp when scraped every `interval_ms`.
    pub(crate) fn oldest_stamp_ms(self, interval_ms: i64) -> i64 {
        match self {
            Self::Stamped => OLDEST_STAMP_MS as i64,
            Self::Cadvisor => OLDEST_STAMP_MS as i64 + interval_ms,
            _ => 0,
        }
    }

    /// Returns the families used in queries.
    pub(crate) fn families(self) -> Families {
        match self {
            Self::Objects => Families {
                counter: "kube_pod_container_status_restarts_total",
                by: "namespace",
                gauge: "kube_pod_status_ready",
                bucket: "",
                native: "",
            },
            _ => Families {
                counter: "http_server_requests_00_total",
                by: "service",
                gauge: "worker_pool_saturation",
                bucket: "rpc_duration_seconds",
                native: if self == Self::Native { NATIVE } else { "" },
            },
        }
    }
}

/// Families of a shape that queries rely on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Families {
    /// A counter every target has, of whole numbers.
    pub(crate) counter: &'static str,
    /// A label it has.
    pub(crate) by: &'static str,
    /// Prefix of gauges' names.
    pub(crate) gauge: &'static str,
    /// Prefix of histograms' names; empty if there are none.
    pub(crate) bucket: &'static str,
    /// Prefix of native histograms' names; empty if there are none.
    pub(crate) native: &'static str,
}

/// Series of one target.
#[derive(Debug)]
pub(crate) struct Series {
    prefixes: Vec<String>,
    kinds: Vec<SeriesKind>,
    values: Vec<f64>,
    natives: Vec<Native>,
    rng: SplitMix64,
}

/// How a series' value changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeriesKind {
    /// Grows by up to this much, exclusive.
    Counter(u64),
    /// Any thousandth up to 1,000.
    Gauge,
    /// Cumulated over its histogram; the flag marks its first.
    Bucket { first: bool },
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

/// The lines of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines<'a> {
    pub(crate) kinds: &'a [SeriesKind],
    pub(crate) values: &'a [f64],
    pub(crate) natives: &'a [Native],
}

impl Series {
    /// Returns target `index` of a shape with `series` series; another generation has another pod.
    pub(crate) fn new(shape: Shape, index: usize, generation: usize, series: usize) -> Self {
        match shape {
            Shape::Service => Self::service(index, generation, series),
            Shape::Native => Self::native(index, generation, series),
            Shape::Objects => Self::objects(index, generation, series),
            _ => Self::fleet(index, generation, series),
        }
    }

    /// Returns each line's text up to its value, including preceding comments.
    pub(crate) fn prefixes(&self) -> &[String] {
        &self.prefixes
    }

    /// Returns the values of the current round, in line order.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the number of native histograms.
    pub(crate) fn native_count(&self) -> usize {
        self.natives.len()
    }

    /// Returns the lines of the current round.
    pub(super) fn lines(&self) -> Lines<'_> {
        Lines {
            kinds: &self.kinds,
            values: &self.values,
            natives: &self.natives,
        }
    }

    /// Returns a target of the fleet that storage figures are about: the same lines and values as testkit's.
    fn fleet(index: usize, generation: usize, series: usize) -> Self {
        let (mut all, _) = Self::pod(index, generation, series);
        for prefix in fleet::Target::new(index, generation, series).prefixes() {
            let kind = match prefix {
                _ if prefix.contains("_bucket{") => SeriesKind::Bucket {
                    first: prefix.starts_with('#'),
                },
                _ if prefix.contains("_ratio{") => SeriesKind::Gauge,
                _ => SeriesKind::Counter(16),
            };
            all.push(kind, prefix.clone());
        }
        all
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

    /// Of a hundred series 40 are counters, 20 gauges, 25 belong to histograms and 15 to summaries.
    fn service(index: usize, generation: usize, series: usize) -> Self {
        let (mut own, common) = Self::pod(index, generation, series);
        own.counters(series * 2 / 5, &common);
        own.gauges(series / 5, &common);
        own.histograms(series / 4 / 14, &common);
        // The remainder of the histograms' share goes to summaries.
        own.summaries(series - own.values.len(), &common);
        own
    }

    /// Of a hundred series 20 are gauges, 14 belong to a classic histogram, 11 are native histograms and 15 belong to
    /// summaries; the rest are counters. Only complete histograms and summaries, as the format has no others.
    fn native(index: usize, generation: usize, series: usize) -> Self {
        let (mut own, common) = Self::pod(index, generation, series);
        let share = |percent: usize| series * percent / 100;
        let (gauges, classic, native) = (share(20), share(14) / 14, share(11));
        let summaries = share(15) / 5 * 5;
        let counters = series - gauges - classic * 14 - native - summaries;
        own.counters(counters, &common);
        own.gauges(gauges, &common);
        own.histograms(classic, &common);
        own.natives(native, &common);
        own.summaries(summaries, &common);
        own
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

    fn counters(&mut self, count: usize, common: &str) {
        for at in 0..count {
            let name = format!("http_server_requests_{:02}_total", at / 14);
            let head = comments(at % 14 == 0, &name, "counter");
            let route = at % 14;
            let code = [200, 201, 404, 500][route % 4];
            self.push(SeriesKind::Counter(16), format!(
                "{head}{name}{{{common},method=\"GET\",route=\"/api/v1/r{route:02}\",code=\"{code}\",version=\"1.4.2\"}} "
            ));
        }
    }

    fn gauges(&mut self, count: usize, common: &str) {
        for at in 0..count {
            let name = format!("worker_pool_saturation_{:02}_ratio", at / 10);
            let head = comments(at % 10 == 0, &name, "gauge");
            let (pool, shard) = (at % 3, at % 10);
            self.push(
                SeriesKind::Gauge,
                format!(
                    "{head}{name}{{{common},pool=\"p{pool}\",shard=\"{shard:03}\",tier=\"hot\"}} "
                ),
            );
        }
    }

    /// Adds histograms of twelve buckets, count and sum each; three histograms form a family.
    fn histograms(&mut self, count: usize, common: &str) {
        for at in 0..count {
            let name = format!("rpc_duration_seconds_{:02}", at / 3);
            let method = at % 3;
            let labels =
                format!("{common},method=\"M{method}\",peer=\"backend\",version=\"1.4.2\"");
            for bucket in 0..12 {
                let le = match bucket {
                    11 => "+Inf".to_owned(),
                    _ => (0.005 * f64::from(1 << bucket)).to_string(),
                };
                let first = bucket == 0;
                let head = comments(first && method == 0, &name, "histogram");
                self.push(
                    SeriesKind::Bucket { first },
                    format!("{head}{name}_bucket{{{labels},le=\"{le}\"}} "),
                );
            }
            self.push(SeriesKind::Count, format!("{name}_count{{{labels}}} "));
            self.push(SeriesKind::Sum, format!("{name}_sum{{{labels}}} "));
        }
    }

    /// Adds native histograms; methods form a family.
    fn natives(&mut self, count: usize, common: &str) {
        for at in 0..count {
            let name = format!("{NATIVE}_{:02}", at / NATIVE_FAMILY);
            let method = at % NATIVE_FAMILY;
            let head = comments(method == 0, &name, "histogram");
            self.push(
                SeriesKind::Native(at as u32),
                format!("{head}{name}{{{common},method=\"M{method:02}\",version=\"1.4.2\"}} "),
            );
        }
    }

    /// Adds summaries of three quantiles, count and sum each, the last as far as there are series; four form a family.
    fn summaries(&mut self, series: usize, common: &str) {
        for at in 0..series {
            let (summary, part) = (at / 5, at % 5);
            let name = format!("cache_fetch_seconds_{:02}", summary / 4);
            let labels = format!("{common},cache=\"c{}\",version=\"1.4.2\"", summary % 4);
            let head = comments(at % 20 == 0, &name, "summary");
            match ["0.5", "0.9", "0.99"].get(part) {
                Some(quantile) => self.push(
                    SeriesKind::Quantile(10 << part),
                    format!("{head}{name}{{{labels},quantile=\"{quantile}\"}} "),
                ),
                None if part == 3 => {
                    self.push(
                        SeriesKind::Counter(20),
                        format!("{name}_count{{{labels}}} "),
                    );
                }
                None => self.push(SeriesKind::Sum, format!("{name}_sum{{{labels}}} ")),
            }
        }
    }

    /// Returns families in turn, each with all its objects, as kube-state-metrics writes them.
    fn objects(index: usize, generation: usize, series: usize) -> Self {
        const FAMILIES: [(&str, &str, &str); 8] = [
            ("kube_pod_container_status_restarts_total", "counter", ""),
            (
                "kube_pod_info",
                "gauge",
                ",host_ip=\"10.0.0.7\",created_by_kind=\"ReplicaSet\",created_by_name=\"app-6d4b\"",
            ),
            ("kube_pod_status_phase", "gauge", ",phase=\"Running\""),
            ("kube_pod_status_ready", "gauge", ",condition=\"true\""),
            (
                "kube_pod_container_status_ready",
                "gauge",
                ",image_spec=\"registry.example/app:1.4.2\"",
            ),
            (
                "kube_pod_container_resource_requests",
                "gauge",
                ",resource=\"memory\",unit=\"byte\"",
            ),
            (
                "kube_pod_container_resource_limits",
                "gauge",
                ",resource=\"cpu\",unit=\"core\"",
            ),
            (
                "kube_pod_labels",
                "gauge",
                ",label_app=\"app\",label_tier=\"backend\",label_release=\"stable\"",
            ),
        ];
        let rng = SplitMix64::new((index as u64) << 32 | generation as u64);
        let mut own = Self::empty(rng, series);
        let pods = series.div_ceil(FAMILIES.len());
        for (name, kind, labels) in FAMILIES {
            for pod in 0..pods.min(series - own.values.len()) {
                let head = if pod == 0 {
                    format!("# HELP {name} A state of an object.\n# TYPE {name} {kind}\n")
                } else {
                    String::new()
                };
                let mut id = SplitMix64::new(pod as u64);
                let (uid, node) = (id.next_u64(), id.below(97));
                let counts = if kind == "counter" {
                    SeriesKind::Counter(2)
                } else {
                    SeriesKind::State
                };
                own.push(counts, format!(
                    "{head}{name}{{namespace=\"team-{:02}\",pod=\"app-{pod:06}-{:05x}\",uid=\"{uid:016x}\",container=\"main\",node=\"n{node:03}.internal\"{labels}}} ",
                    pod % 40,
                    uid >> 44
                ));
            }
        }
        own
    }

    /// Advances all values by one round.
    pub(crate) fn step(&mut self) {
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
}

/// Returns a family's comments before its first line, and an empty string before others.
fn comments(is_first: bool, name: &str, kind: &str) -> String {
    if !is_first {
        return String::new();
    }
    format!("# HELP {name} A metric of the service.\n# TYPE {name} {kind}\n")
}

#[cfg(test)]
mod tests;
