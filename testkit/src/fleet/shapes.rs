//! Targets of other shapes than the fleet's.
//!
//! **Invariant:** a page has exactly as many series as asked for, and whole families as far as they fit.

use super::{SeriesKind, Target};
use crate::rng::SplitMix64;

/// Prefix of the names of native histograms.
pub const NATIVE_FAMILIES: &str = "rpc_latency_seconds";
/// Native histograms of a family.
pub const NATIVE_A_FAMILY: usize = 11;

impl Target {
    /// Returns a microservice: of a hundred series 40 are counters, 20 gauges, 25 belong to histograms and 15 to summaries.
    #[must_use]
    pub fn service(index: usize, generation: usize, series: usize) -> Self {
        let (mut own, common) = Self::pod(index, generation, series);
        own.add_counters(series * 2 / 5, &common);
        own.add_gauges(series / 5, &common);
        own.add_histograms(series / 4 / 14, &common);
        // The remainder of the histograms' share goes to summaries.
        own.add_summaries(series - own.values.len(), &common);
        own
    }

    /// Returns a microservice with native histograms: of a hundred series 20 are gauges, 14 belong to a classic histogram, 11 are native histograms and 15 belong to
    /// summaries; the rest are counters. Only complete histograms and summaries, as the format has no others.
    #[must_use]
    pub fn native(index: usize, generation: usize, series: usize) -> Self {
        let (mut own, common) = Self::pod(index, generation, series);
        let share = |percent: usize| series * percent / 100;
        let (gauges, classic, native) = (share(20), share(14) / 14, share(11));
        let summaries = share(15) / 5 * 5;
        let counters = series - gauges - classic * 14 - native - summaries;
        own.add_counters(counters, &common);
        own.add_gauges(gauges, &common);
        own.add_histograms(classic, &common);
        own.add_natives(native, &common);
        own.add_summaries(summaries, &common);
        own
    }

    fn add_counters(&mut self, count: usize, common: &str) {
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

    fn add_gauges(&mut self, count: usize, common: &str) {
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
    fn add_histograms(&mut self, count: usize, common: &str) {
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
    fn add_natives(&mut self, count: usize, common: &str) {
        for at in 0..count {
            let name = format!("{NATIVE_FAMILIES}_{:02}", at / NATIVE_A_FAMILY);
            let method = at % NATIVE_A_FAMILY;
            let head = comments(method == 0, &name, "histogram");
            self.push(
                SeriesKind::Native(at as u32),
                format!("{head}{name}{{{common},method=\"M{method:02}\",version=\"1.4.2\"}} "),
            );
        }
    }

    /// Adds summaries of three quantiles, count and sum each, the last as far as there are series; four form a family.
    fn add_summaries(&mut self, series: usize, common: &str) {
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

    /// Returns the states of many objects: families in turn, each with all its objects, as kube-state-metrics writes them.
    #[must_use]
    pub fn objects(index: usize, generation: usize, series: usize) -> Self {
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
}

/// Returns a family's comments before its first line, and an empty string before others.
fn comments(is_first: bool, name: &str, kind: &str) -> String {
    if !is_first {
        return String::new();
    }
    format!("# HELP {name} A metric of the service.\n# TYPE {name} {kind}\n")
}
