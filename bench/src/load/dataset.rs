//! Time series as of a fleet of pods, generated from a seed: counters that restart, gauges, classic histograms.
//!
//! **Invariant:** the same configuration yields the same samples, bit for bit, every time; every value is a whole
//! number or a whole number of thousandths, so that servers must return it exactly.

use narthex_testkit::rng::SplitMix64;
use std::time::Duration;

/// Series of one pod.
pub(crate) const POD_SERIES: usize = 50;
/// Pods of one service.
const SERVICE_PODS: usize = 20;
/// A pod restarts in one of this many steps: its counters begin at 0 again.
const RESTART_ONE_IN: u64 = 400;

const CODES: [&str; 5] = ["200", "301", "404", "500", "503"];
/// Most requests of each code in one step.
const REQUESTS: [u64; 5] = [400, 20, 30, 5, 3];
const BOUNDS: [&str; 12] = [
    "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf",
];
/// A typical observation of each bucket, in thousandths.
const OBSERVED: [i64; 12] = [3, 8, 18, 40, 80, 170, 400, 800, 1_700, 4_000, 8_000, 20_000];

/// Parameters of a dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DatasetConfig {
    /// A multiple of [`POD_SERIES`].
    pub(crate) series: usize,
    pub(crate) duration: Duration,
    pub(crate) interval: Duration,
    pub(crate) seed: u64,
    /// No sample is later than this.
    pub(crate) end_ms: i64,
    /// `None` if no pod is ever replaced.
    pub(crate) churn: Option<Churn>,
}

/// How pods are replaced by others of the same service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Churn {
    /// Share of the pods.
    pub(crate) share: f64,
    /// Steps between replacements.
    pub(crate) every: u64,
}

impl DatasetConfig {
    /// Returns the number of samples of each series.
    pub(crate) fn steps(&self) -> u64 {
        let steps = self.duration.as_millis() / self.interval.as_millis().max(1);
        u64::try_from(steps).unwrap_or(u64::MAX)
    }

    pub(crate) fn samples(&self) -> u64 {
        self.steps() * self.series as u64
    }

    fn interval_ms(&self) -> i64 {
        i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns a time that no sample precedes.
    pub(crate) fn start_ms(&self) -> i64 {
        self.end_ms - self.steps().cast_signed() * self.interval_ms()
    }

    /// Returns the time of a pod's sample of `step`; pods are spread over the interval as a scraper spreads targets. No
    /// sample is at a whole interval, where it depends on a server's version whether a range includes it.
    pub(crate) fn time_ms(&self, pod: usize, step: u64) -> i64 {
        let interval = self.interval_ms();
        let offset = 1 + (pod as i64 * 7_919) % (interval - 1).max(1);
        self.start_ms() + step.cast_signed() * interval + offset
    }

    /// Reports whether a pod is replaced before its sample of `step`.
    pub(crate) fn is_replaced(&self, pod: usize, step: u64) -> bool {
        let Some(Churn { share, every }) = self.churn else {
            return false;
        };
        let place = (pod as u64) << 32 | step;
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place;
        step > 0 && step.is_multiple_of(every) && SplitMix64::new(seed).unit_f64() < share
    }

    pub(crate) fn pods(&self) -> usize {
        self.series / POD_SERIES
    }
}

/// A pod and its current values.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    rng: SplitMix64,
    /// Whole numbers, or thousandths where [`FAMILIES`] says so.
    units: [i64; POD_SERIES],
}

/// How many units make 1, if a unit is that part of it.
const WHOLE: f64 = 1.0;
const THOUSANDTH: f64 = 1_000.0;

/// Names of a pod's series in their order, each with their number and how many units make 1; those before [`MEMORY`] are
/// counters, 0 after a restart.
const FAMILIES: [(&str, usize, f64); 13] = [
    ("http_requests_total", 10, WHOLE),
    ("http_request_duration_seconds_bucket", 12, WHOLE),
    ("http_request_duration_seconds_sum", 1, THOUSANDTH),
    ("http_request_duration_seconds_count", 1, WHOLE),
    ("container_cpu_usage_seconds_total", 8, THOUSANDTH),
    ("container_memory_usage_bytes", 2, WHOLE),
    ("queue_length", 10, WHOLE),
    ("process_open_fds", 1, WHOLE),
    ("go_goroutines", 1, WHOLE),
    ("pod_info", 1, WHOLE),
    ("pod_ready", 1, WHOLE),
    ("sensor_temperature_celsius", 1, THOUSANDTH),
    ("sensor_fan_rpm", 1, WHOLE),
];
const BUCKETS: usize = 10;
const SUM: usize = 22;
const CPU: usize = 24;
const MEMORY: usize = 32;
const QUEUES: usize = 34;
const REST: usize = 44;

impl Pod {
    /// Returns a pod before its first step.
    pub(crate) fn new(seed: u64, pod: usize) -> Self {
        let mut rng = SplitMix64::new(seed.wrapping_mul(0x9e37_79b9) ^ (pod as u64) << 20);
        let mut units = [0; POD_SERIES];
        for unit in &mut units[..CPU + 8] {
            // It has been running for a while.
            *unit = rng.below(50_000).cast_signed();
        }
        for bucket in 1..BOUNDS.len() {
            units[BUCKETS + bucket] += units[BUCKETS + bucket - 1];
        }
        units[SUM + 1] = units[BUCKETS + BOUNDS.len() - 1];
        for unit in &mut units[MEMORY..QUEUES] {
            *unit = (100 + rng.below(400)).cast_signed() << 20;
        }
        // File descriptors, goroutines, info, ready, thousandths of a degree, fan speed.
        units[REST..].copy_from_slice(&[40, 120, 1, 1, 45_000, 2_400]);
        Self { rng, units }
    }

    /// Begins again as another pod in the same place.
    pub(crate) fn replace(&mut self) {
        self.units[..MEMORY].fill(0);
    }

    /// Advances by one step.
    pub(crate) fn step(&mut self) {
        let Self { rng, units } = self;
        if rng.one_in(RESTART_ONE_IN) {
            units[..MEMORY].fill(0);
        }
        for (at, unit) in units[..BUCKETS].iter_mut().enumerate() {
            *unit += rng.below(REQUESTS[at % CODES.len()]).cast_signed();
        }
        for _ in 0..rng.below(12) {
            // Two draws, so that the middle buckets are hit most.
            let bucket = (rng.index(7) + rng.index(6)).min(BOUNDS.len() - 1);
            for cumulative in &mut units[BUCKETS + bucket..SUM] {
                *cumulative += 1;
            }
            units[SUM] += OBSERVED[bucket];
            units[SUM + 1] += 1;
        }
        for unit in &mut units[CPU..MEMORY] {
            *unit += rng.below(30_000).cast_signed();
        }
        for unit in &mut units[MEMORY..QUEUES] {
            *unit = wander(rng, *unit, 1 << 20, 64 << 20, 900 << 20);
        }
        for unit in &mut units[QUEUES..REST] {
            // A queue changes now and then.
            if rng.one_in(3) {
                *unit = rng.below(100).cast_signed();
            }
        }
        let rest = &mut units[REST..];
        rest[0] = wander(rng, rest[0], 3, 10, 1_000);
        rest[1] = wander(rng, rest[1], 20, 20, 5_000);
        rest[3] = i64::from(!rng.one_in(100));
        rest[4] = wander(rng, rest[4], 500, 20_000, 95_000);
        rest[5] = wander(rng, rest[5], 100, 600, 6_000);
    }

    /// Returns the value of one of its series.
    pub(crate) fn value(&self, series: usize) -> f64 {
        self.units[series] as f64 / family(series).2
    }
}

fn wander(rng: &mut SplitMix64, value: i64, most: i64, least: i64, largest: i64) -> i64 {
    let by = rng.below(2 * most.unsigned_abs() + 1).cast_signed() - most;
    (value + by).clamp(least, largest)
}

/// Returns the family of one of a pod's series, its index within it, and how many units make 1.
fn family(series: usize) -> (&'static str, usize, f64) {
    let mut first = 0;
    for (name, count, units) in FAMILIES {
        if series < first + count {
            return (name, series - first, units);
        }
        first += count;
    }
    unreachable!("families add up to POD_SERIES, which is the array's length")
}

/// Returns the labels of one of a pod's series, sorted by name; `life` counts how often it was replaced.
pub(crate) fn labels(pod: usize, life: u64, series: usize) -> Vec<(&'static str, String)> {
    let port = 8080 + life;
    let suffix = match life {
        0 => String::new(),
        _ => format!("-{life}"),
    };
    let service = pod / SERVICE_PODS;
    let (name, place, _) = family(series);
    let mut labels = vec![
        ("__name__", name.to_owned()),
        ("cluster", "prod".to_owned()),
        (
            "instance",
            format!("10.{}.{}.{}:{port}", pod >> 16, (pod >> 8) & 255, pod & 255),
        ),
        ("job", "app".to_owned()),
        ("namespace", format!("ns-{:02}", service % 20)),
        ("node", format!("node-{:03}", pod % 331)),
        (
            "pod",
            format!("svc-{service:04}-{}{suffix}", pod % SERVICE_PODS),
        ),
        ("service", format!("svc-{service:04}")),
    ];
    let mut add = |name, value: String| labels.push((name, value));
    match name {
        "http_requests_total" => {
            add("code", CODES[place % CODES.len()].to_owned());
            let method = ["GET", "POST"][place / CODES.len()];
            add("method", method.to_owned());
        }
        "http_request_duration_seconds_bucket" => add("le", BOUNDS[place].to_owned()),
        "container_cpu_usage_seconds_total" => add("cpu", format!("cpu{place:02}")),
        "container_memory_usage_bytes" => add("container", ["app", "sidecar"][place].to_owned()),
        "queue_length" => add("queue", format!("q{place}")),
        "pod_info" => {
            add("image", format!("registry.example/svc-{service:04}"));
            add("version", format!("v1.{}.{}", service % 7, pod % 3));
        }
        "sensor_temperature_celsius" | "sensor_fan_rpm" => add("sensor", "board".to_owned()),
        _ => {}
    }
    labels.sort_by(|a, b| a.0.cmp(b.0));
    labels
}

#[cfg(test)]
mod tests;
