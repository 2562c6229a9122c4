//! Generates queries about the generated data set that mostly have a result.

use narthex_testkit::rng::SplitMix64;

const COUNTERS: [&str; 3] = [
    "requests_total",
    "latency_seconds_count",
    "latency_seconds_bucket",
];
const GAUGES: [&str; 5] = [
    "temperature",
    "flapping",
    "odd",
    "latency_seconds_sum",
    "target_info",
];
const HISTOGRAMS: [&str; 3] = ["rpc_seconds", "queue_seconds", "sizes_bytes"];
const MATCHERS: [&str; 10] = [
    "job=\"api\"",
    "job!=\"api\"",
    "job=~\"a.*|x\"",
    "instance=~\"host-[01].*\"",
    "instance!~\".*2:80\"",
    "code=\"500\"",
    "code=~\"2..\"",
    "zone=\"north\"",
    "queue=\"q1\"",
    "le=\"0.5\"",
];
const OF_COUNTERS: [&str; 7] = [
    "rate", "increase", "irate", "delta", "resets", "changes", "idelta",
];
const OVER_TIME: [&str; 14] = [
    "sum_over_time",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "count_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "last_over_time",
    "first_over_time",
    "present_over_time",
    "mad_over_time",
    "ts_of_max_over_time",
    "deriv",
    "changes",
];
const OF_VECTORS: [&str; 12] = [
    "abs",
    "ceil",
    "floor",
    "sqrt",
    "sgn",
    "round",
    "timestamp",
    "ln",
    "absent",
    "day_of_month",
    "hour",
    "deg",
];
const OF_HISTOGRAMS: [&str; 5] = [
    "histogram_count",
    "histogram_sum",
    "histogram_avg",
    "histogram_stddev",
    "histogram_stdvar",
];
const AGGREGATIONS: [&str; 8] = [
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar",
];
const GROUPS: [&str; 6] = [
    "",
    " by (job)",
    " by (job, instance)",
    " without (instance)",
    " by (code, zone)",
    " without (job, le)",
];
const RANGES: [&str; 6] = ["1m", "2m30s", "5m", "17m", "1h", "40s"];
const ARITHMETIC: [&str; 7] = ["+", "-", "*", "/", "%", "^", "atan2"];
const COMPARISONS: [&str; 7] = ["==", "!=", ">", "<", ">=", "> bool", "!= bool"];

/// Generates queries.
pub(crate) struct Generator<'a> {
    pub(crate) rng: &'a mut SplitMix64,
}

impl Generator<'_> {
    /// Returns an instant vector expression of at most this many levels.
    pub(crate) fn vector(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.selector();
        }
        match self.rng.below(11) {
            0 => self.selector(),
            1 | 2 => {
                let (function, range) = (self.pick(&OF_COUNTERS), self.range(&COUNTERS));
                format!("{function}({range})")
            }
            3 => {
                let (function, range) = (self.pick(&OVER_TIME), self.range(&GAUGES));
                format!("{function}({range})")
            }
            4 | 5 => self.aggregation(depth),
            6 | 7 => self.binary(depth),
            8 => self.of_histogram(),
            9 => {
                let (function, inner) = (self.pick(&OF_VECTORS), self.vector(depth - 1));
                format!("{function}({inner})")
            }
            _ => self.other(depth),
        }
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        *self.rng.pick(items)
    }

    fn braces(&mut self) -> String {
        if self.rng.one_in(2) {
            format!("{{{}}}", self.pick(&MATCHERS))
        } else {
            String::new()
        }
    }

    fn modifier(&mut self) -> &'static str {
        if self.rng.one_in(5) {
            self.pick(&[" offset 3m", " offset -2m", " @ 1700003600", " @ end()"])
        } else {
            ""
        }
    }

    fn selector(&mut self) -> String {
        let names: Vec<&str> = [&COUNTERS[..], &GAUGES[..], &HISTOGRAMS[..]].concat();
        format!("{}{}{}", self.pick(&names), self.braces(), self.modifier())
    }

    fn range(&mut self, names: &[&'static str]) -> String {
        if self.rng.one_in(6) {
            let (inner, step) = (self.pick(names), self.pick(&["30s", "1m", "47s", ""]));
            return format!("{inner}{}[{}:{step}]", self.braces(), self.pick(&RANGES));
        }
        let (name, braces) = (self.pick(names), self.braces());
        format!("{name}{braces}[{}]{}", self.pick(&RANGES), self.modifier())
    }

    fn aggregation(&mut self, depth: u32) -> String {
        let (group, inner) = (self.pick(&GROUPS), self.vector(depth - 1));
        match self.rng.below(6) {
            0 => format!("quantile{group}(0.{}, {inner})", self.rng.below(10)),
            1 => format!(
                "{}{group}({}, {inner})",
                self.pick(&["topk", "bottomk"]),
                1 + self.rng.below(3)
            ),
            2 => format!("count_values{group}(\"v\", round({inner}, 5))"),
            _ => format!("{}{group}({inner})", self.pick(&AGGREGATIONS)),
        }
    }

    fn binary(&mut self, depth: u32) -> String {
        let left = self.vector(depth - 1);
        match self.rng.below(6) {
            0 => format!("({left}) {} 2.5", self.pick(&ARITHMETIC)),
            1 => format!("({left}) {} 10", self.pick(&COMPARISONS)),
            2 => {
                let right = self.vector(depth - 1);
                let (word, on) = (
                    self.pick(&["and", "or", "unless"]),
                    self.pick(&["", " on (job)", " ignoring (code)"]),
                );
                format!("({left}) {word}{on} ({right})")
            }
            3 => {
                let op = self.pick(&ARITHMETIC);
                format!(
                    "requests_total {op} on (job, instance) group_left (version) target_info{}",
                    self.modifier()
                )
            }
            4 => {
                let right = self.vector(depth - 1);
                let op = self.pick(&ARITHMETIC);
                format!("sum by (job) ({left}) {op} on (job) sum by (job) ({right})")
            }
            _ => format!("({left}) {} ({left})", self.pick(&ARITHMETIC)),
        }
    }

    fn of_histogram(&mut self) -> String {
        let name = self.pick(&HISTOGRAMS);
        let vector = match self.rng.below(4) {
            0 => format!("{name}{}", self.braces()),
            1 => format!("rate({name}[{}])", self.pick(&RANGES)),
            2 => format!("sum{}(rate({name}[5m]))", self.pick(&GROUPS)),
            _ => format!("avg_over_time({name}[{}])", self.pick(&RANGES)),
        };
        match self.rng.below(6) {
            0 => format!("histogram_quantile(0.{}, {vector})", self.rng.below(100)),
            1 => format!("histogram_fraction(0, 1.5, {vector})"),
            2 => vector,
            3 => format!(
                "histogram_quantile(0.{}, sum by (le, job) (rate(latency_seconds_bucket[{}])))",
                self.rng.below(100),
                self.pick(&RANGES)
            ),
            _ => format!("{}({vector})", self.pick(&OF_HISTOGRAMS)),
        }
    }

    fn other(&mut self, depth: u32) -> String {
        let inner = self.vector(depth - 1);
        match self.rng.below(9) {
            0 => format!("clamp({inner}, -5, 30)"),
            1 => format!("label_replace({inner}, \"to\", \"$1\", \"instance\", \"host-(.).*\")"),
            2 => format!("label_join({inner}, \"to\", \"-\", \"job\", \"code\")"),
            3 => format!("-({inner})"),
            4 => format!("sort_desc({inner})"),
            5 => format!("quantile_over_time(0.7, {})", self.range(&GAUGES)),
            6 => format!("predict_linear({}, 600)", self.range(&GAUGES)),
            7 => format!(
                "double_exponential_smoothing({}, 0.3, 0.6)",
                self.range(&GAUGES)
            ),
            _ => format!("max_over_time(({inner})[10m:1m])"),
        }
    }
}
