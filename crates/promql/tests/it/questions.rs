//! Series and queries for the comparison with Prometheus: what the functions, operators and modifiers of the language
//! make of counters, gauges, gaps, staleness, odd values, classic and native histograms.
//!
//! **Invariant:** both follow from the seed alone.

use narthex_testkit::rng::SplitMix64;
use std::fmt::Write as _;

/// Samples of each series, fifteen seconds apart.
pub(crate) const STEPS: usize = 240;
pub(crate) const STEP_MS: i64 = 15_000;

const COUNTERS: [&str; 3] = ["requests_total", "latency_seconds_bucket", "started_total"];
const GAUGES: [&str; 5] = ["temperature", "flapping", "odd", "mixed", "sparse"];
const HISTOGRAMS: [&str; 4] = ["rpc", "queue", "sizes", "mixed"];
const MATCHERS: [&str; 8] = [
    "job=\"api\"",
    "job!=\"api\"",
    "job=~\"a.*|x\"",
    "instance=~\"[01]\"",
    "code=\"500\"",
    "code=~\"|2..\"",
    "zone!=\"\"",
    "le=\"0.5\"",
];
const GROUPS: [&str; 6] = [
    "",
    " by (job)",
    " by (job, instance)",
    " without (instance)",
    " by (code, zone)",
    " without (job, le)",
];
const RANGES: [&str; 8] = ["1m", "2m30s", "5m", "17m", "1h", "15s", "40s", "1s"];
const NUMBERS: [&str; 12] = [
    "0", "1", "-1", "0.5", "2.5", "3", "1e3", "-0.3", "Inf", "-Inf", "NaN", "time()",
];
const OF_RANGES: [&str; 31] = [
    "rate",
    "increase",
    "irate",
    "delta",
    "idelta",
    "resets",
    "changes",
    "deriv",
    "integral",
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
    "absent_over_time",
    "mad_over_time",
    "ts_of_max_over_time",
    "ts_of_min_over_time",
    "ts_of_last_over_time",
    "ts_of_first_over_time",
    // The most common ones again.
    "rate",
    "increase",
    "rate",
    "avg_over_time",
    "sum_over_time",
    "max_over_time",
];
const EXTENDED: [&str; 5] = ["rate", "increase", "delta", "resets", "changes"];
const OF_VECTORS: [&str; 44] = [
    "abs",
    "absent",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "deg",
    "exp",
    "floor",
    "histogram_avg",
    "histogram_count",
    "histogram_stddev",
    "histogram_stdvar",
    "histogram_sum",
    "hour",
    "ln",
    "log10",
    "log2",
    "minute",
    "month",
    "rad",
    "round",
    "sgn",
    "sin",
    "sinh",
    "sort",
    "sort_desc",
    "sqrt",
    "tan",
    "tanh",
    "timestamp",
    "year",
    "histogram_count",
    "histogram_sum",
    "start_timestamp",
];
const AGGREGATIONS: [&str; 8] = [
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar",
];
const ARITHMETIC: [&str; 7] = ["+", "-", "*", "/", "%", "^", "atan2"];
const COMPARISONS: [&str; 8] = ["==", "!=", ">", "<", ">=", "<=", "> bool", "!= bool"];

/// Writes the `load` command.
pub(crate) fn series(rng: &mut SplitMix64) -> String {
    let mut text = String::from("load 15s\n");
    for job in ["api", "db"] {
        for instance in 0..3 {
            let target = format!("instance=\"{instance}\",job=\"{job}\"");
            for code in ["200", "404", "500"] {
                let labels = format!("requests_total{{code=\"{code}\", {target}}}");
                line(&mut text, &labels, counter(rng));
            }
            for zone in ["north", "south"] {
                let labels = format!("temperature{{{target}, zone=\"{zone}\"}}");
                line(&mut text, &labels, gauge(rng));
            }
            started(&mut text, &target, rng);
            line(&mut text, &format!("flapping{{{target}}}"), flapping(rng));
            line(&mut text, &format!("mixed{{{target}}}"), mixed(rng));
            line(&mut text, &format!("rpc{{{target}}}"), native(rng, ""));
            classic(&mut text, &target, rng);
            let version = if rng.one_in(2) { "1" } else { "2" };
            let info =
                format!("target_info{{{target}, version=\"{version}\", region=\"r{instance}\"}}");
            line(
                &mut text,
                &info,
                flapping(rng).iter().map(|v| {
                    if v == "stale" || v == "_" {
                        v.clone()
                    } else {
                        "1".to_owned()
                    }
                }),
            );
        }
        let labels = format!("build_info{{instance=\"0\", job=\"{job}\", built=\"{job}-1\"}}");
        line(&mut text, &labels, vec!["1".to_owned(); STEPS]);
    }
    for queue in 0..2 {
        line(
            &mut text,
            &format!("queue{{queue=\"q{queue}\"}}"),
            native(rng, " counter_reset_hint:gauge"),
        );
        line(
            &mut text,
            &format!("sizes{{queue=\"q{queue}\"}}"),
            custom(rng),
        );
    }
    line(&mut text, "odd", odd(rng));
    line(&mut text, "odd{zone=\"south\"}", odd(rng));
    let sparse = (0..STEPS).map(|at| {
        if at % 37 == 5 {
            at.to_string()
        } else {
            "_".to_owned()
        }
    });
    line(&mut text, "sparse", sparse);
    text
}

fn line(text: &mut String, labels: &str, values: impl IntoIterator<Item = String>) {
    let values: Vec<String> = values.into_iter().collect();
    writeln!(text, "  {labels} {}", values.join(" ")).unwrap();
}

fn counter(rng: &mut SplitMix64) -> Vec<String> {
    let mut value = 0;
    let mut next = || {
        value = if rng.one_in(60) {
            rng.below(5)
        } else {
            value + rng.below(20)
        };
        if rng.one_in(30) {
            "_".to_owned()
        } else {
            value.to_string()
        }
    };
    (0..STEPS).map(|_| next()).collect()
}

/// Writes a counter whose samples tell when it began.
fn started(text: &mut String, target: &str, rng: &mut SplitMix64) {
    let (mut values, mut starts) = (Vec::new(), Vec::new());
    let (mut value, mut since) = (0, 0);
    for _ in 0..STEPS {
        since += 15;
        if rng.one_in(50) {
            (value, since) = (0, rng.below(15));
        }
        value += rng.below(9);
        if rng.one_in(20) {
            values.push("_".to_owned());
            starts.push("_".to_owned());
        } else {
            values.push(value.to_string());
            starts.push(format!("-{since}s"));
        }
    }
    let labels = format!("started_total{{{target}}}");
    writeln!(text, "  {labels}@st {}", starts.join(" ")).unwrap();
    line(text, &labels, values);
}

fn gauge(rng: &mut SplitMix64) -> Vec<String> {
    let gap = rng.index(STEPS);
    let mut next = |at| {
        if (gap..gap + 25).contains(&at) {
            "_".to_owned()
        } else {
            (rng.below(60_000) as f64 / 1000.0 - 20.0).to_string()
        }
    };
    (0..STEPS).map(&mut next).collect()
}

fn flapping(rng: &mut SplitMix64) -> Vec<String> {
    let mut alive = true;
    let mut next = || {
        let was = alive;
        alive ^= rng.one_in(25);
        match (was, alive) {
            (_, true) => rng.unit_f64().to_string(),
            (true, false) => "stale".to_owned(),
            (false, false) => "_".to_owned(),
        }
    };
    (0..STEPS).map(|_| next()).collect()
}

/// Floats, histograms and floats again.
fn mixed(rng: &mut SplitMix64) -> Vec<String> {
    let histograms = native(rng, "");
    let from = rng.index(STEPS / 2);
    let of_histograms = from..from + STEPS / 3;
    let floats = gauge(rng).into_iter().zip(histograms).enumerate();
    floats
        .map(|(at, (float, histogram))| {
            if of_histograms.contains(&at) {
                histogram
            } else {
                float
            }
        })
        .collect()
}

fn odd(rng: &mut SplitMix64) -> Vec<String> {
    let odd = [
        "NaN", "Inf", "-Inf", "-0", "1e300", "5e-324", "1", "2", "stale", "_",
    ];
    (0..STEPS).map(|_| (*rng.pick(&odd)).to_owned()).collect()
}

fn classic(text: &mut String, target: &str, rng: &mut SplitMix64) {
    let mut counts = vec![[0_u64; 5]];
    for _ in 1..STEPS {
        let mut next = if rng.one_in(70) {
            [0; 5]
        } else {
            *counts.last().unwrap()
        };
        let first = rng.index(5);
        next[first..]
            .iter_mut()
            .for_each(|count| *count += 1 + rng.below(3));
        counts.push(next);
    }
    for (at, le) in ["0.1", "0.5", "1", "5", "+Inf"].iter().enumerate() {
        let labels = format!("latency_seconds_bucket{{{target}, le=\"{le}\"}}");
        line(text, &labels, counts.iter().map(|row| row[at].to_string()));
    }
}

fn native(rng: &mut SplitMix64, more: &str) -> Vec<String> {
    let (mut buckets, mut below, mut zero, mut sum) = ([0; 6], 0, 0, 0.0);
    let mut schema = 1;
    let mut next = || {
        if rng.one_in(60) {
            // A restart of the process, perhaps with another resolution.
            (buckets, below, zero, sum) = ([0; 6], 0, 0, 0.0);
            schema = *rng.pick(&[0, 1, 2]);
        }
        buckets.iter_mut().for_each(|count| *count += rng.below(5));
        (below, zero) = (below + rng.below(2), zero + rng.below(3));
        sum += rng.below(40) as f64 * 0.7;
        if rng.one_in(25) {
            return "_".to_owned();
        }
        let count = buckets.iter().sum::<u64>() + below + zero;
        let [a, b, c, d, e, f] = buckets;
        format!(
            "{{{{schema:{schema} count:{count} sum:{sum} z_bucket:{zero} z_bucket_w:0.001{more} \
             offset:-2 buckets:[{a} {b} {c} {d} {e} {f}] n_buckets:[{below}]}}}}"
        )
    };
    (0..STEPS).map(|_| next()).collect()
}

fn custom(rng: &mut SplitMix64) -> Vec<String> {
    let mut buckets = [0_u64; 4];
    let mut next = || {
        buckets.iter_mut().for_each(|count| *count += rng.below(3));
        let count = buckets.iter().sum::<u64>();
        let [a, b, c, d] = buckets;
        format!(
            "{{{{schema:-53 count:{count} sum:{} custom_values:[10 100 1000] buckets:[{a} {b} {c} {d}]}}}}",
            count as f64 * 55.5
        )
    };
    (0..STEPS).map(|_| next()).collect()
}

/// Generates queries.
pub(crate) struct Questions<'a> {
    pub(crate) rng: &'a mut SplitMix64,
}

impl Questions<'_> {
    /// Returns an instant vector expression of at most this many levels.
    pub(crate) fn vector(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.selector();
        }
        match self.rng.below(13) {
            0 => self.selector(),
            1..=3 => self.of_range(depth),
            4 | 5 => self.aggregation(depth),
            6..=8 => self.binary(depth),
            9 => self.of_histograms(depth),
            10 | 11 => self.other(depth),
            _ => {
                let (function, inner) = (self.pick(&OF_VECTORS), self.vector(depth - 1));
                format!("{function}({inner})")
            }
        }
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        *self.rng.pick(items)
    }

    fn name(&mut self) -> &'static str {
        let all: Vec<&'static str> =
            [&COUNTERS[..], &GAUGES, &HISTOGRAMS, &["target_info"]].concat();
        self.pick(&all)
    }

    fn braces(&mut self) -> String {
        match self.rng.below(4) {
            0 | 1 => format!("{{{}}}", self.pick(&MATCHERS)),
            _ => String::new(),
        }
    }

    fn modifier(&mut self) -> &'static str {
        match self.rng.below(6) {
            0 => self.pick(&[
                " offset 3m",
                " offset -2m",
                " @ 1800",
                " @ end()",
                " @ start() offset 5m",
                " offset (1m + 7s)",
                " offset step()",
            ]),
            _ => "",
        }
    }

    fn selector(&mut self) -> String {
        let (name, braces) = (self.name(), self.braces());
        let smoothed = if self.rng.one_in(12) && !HISTOGRAMS.contains(&name) {
            " smoothed"
        } else {
            ""
        };
        format!("{name}{braces}{smoothed}{}", self.modifier())
    }

    fn range(&mut self, depth: u32) -> String {
        let range = self.pick(&RANGES);
        if self.rng.one_in(6) {
            let step = self.pick(&["30s", "1m", "47s", ""]);
            return format!(
                "({})[{range}:{step}]{}",
                self.vector(depth - 1),
                self.modifier()
            );
        }
        let (name, braces) = (self.name(), self.braces());
        let range = match self.rng.below(10) {
            0 => "step() * 2",
            1 => "max_of(1m, range() / 4)",
            _ => range,
        };
        format!("{name}{braces}[{range}]{}", self.modifier())
    }

    fn of_range(&mut self, depth: u32) -> String {
        match self.rng.below(10) {
            0 | 1 => {
                let (function, kind) = (self.pick(&EXTENDED), self.pick(&["anchored", "smoothed"]));
                let kind = if matches!(function, "resets" | "changes") {
                    "anchored"
                } else {
                    kind
                };
                let (name, braces, range) = (self.name(), self.braces(), self.pick(&RANGES));
                format!(
                    "{function}({name}{braces}[{range}] {kind}{})",
                    self.modifier()
                )
            }
            2 => {
                let (q, range) = (self.pick(&NUMBERS), self.range(depth));
                format!("quantile_over_time({q}, {range})")
            }
            3 => format!(
                "predict_linear({}, {})",
                self.range(depth),
                self.pick(&["600", "-60", "time()"])
            ),
            4 => format!(
                "double_exponential_smoothing({}, 0.3, 0.6)",
                self.range(depth)
            ),
            _ => {
                let (function, range) = (self.pick(&OF_RANGES), self.range(depth));
                format!("{function}({range})")
            }
        }
    }

    fn aggregation(&mut self, depth: u32) -> String {
        let (group, inner) = (self.pick(&GROUPS), self.vector(depth - 1));
        match self.rng.below(7) {
            0 => format!("quantile{group}({}, {inner})", self.pick(&NUMBERS)),
            // Of equal values, which series is the first follows from the store: these have none.
            1 => format!(
                "{}{group}({}, temperature{})",
                self.pick(&["topk", "bottomk"]),
                self.rng.below(4),
                self.braces()
            ),
            2 => format!("count_values{group}(\"v\", {inner})"),
            _ => format!("{}{group}({inner})", self.pick(&AGGREGATIONS)),
        }
    }

    fn binary(&mut self, depth: u32) -> String {
        let left = self.vector(depth - 1);
        let op = self.pick(&ARITHMETIC);
        match self.rng.below(9) {
            0 => format!("({left}) {op} {}", self.pick(&NUMBERS)),
            1 => format!("{} {op} ({left})", self.pick(&NUMBERS)),
            2 => format!(
                "({left}) {} {}",
                self.pick(&COMPARISONS),
                self.pick(&NUMBERS)
            ),
            3 => {
                let right = self.vector(depth - 1);
                let (word, on) = (
                    self.pick(&["and", "or", "unless"]),
                    self.pick(&["", " on (job)", " ignoring (code)"]),
                );
                format!("({left}) {word}{on} ({right})")
            }
            4 => {
                let fill = self.fill();
                let many = self.pick(&[
                    "requests_total",
                    "temperature",
                    "latency_seconds_bucket",
                    "mixed",
                ]);
                let side = self.pick(&["group_left (version)", "group_left ()", "group_left"]);
                format!(
                    "{many}{} {op} on (job, instance) {side}{fill} target_info{}",
                    self.braces(),
                    self.modifier()
                )
            }
            5 => {
                let (right, fill) = (self.vector(depth - 1), self.fill());
                format!("sum by (job) ({left}) {op} on (job){fill} sum by (job) ({right})")
            }
            6 => {
                let (right, fill) = (self.vector(depth - 1), self.fill());
                let compare = self.pick(&COMPARISONS);
                format!(
                    "max by (job, instance) ({left}) {compare}{fill} min by (job, instance) ({right})"
                )
            }
            7 => {
                let fill = self.fill();
                format!(
                    "target_info{} {op} on (job, instance) group_right (region){fill} ({left})",
                    self.braces()
                )
            }
            _ => format!("({left}) {op} ({left})"),
        }
    }

    fn fill(&mut self) -> &'static str {
        self.pick(&[
            "",
            "",
            " fill (0)",
            " fill_left (1)",
            " fill_right (-2)",
            " fill_left (3) fill_right (4)",
            " fill (NaN)",
        ])
    }

    fn of_histograms(&mut self, depth: u32) -> String {
        let name = self.pick(&HISTOGRAMS);
        let vector = match self.rng.below(5) {
            0 => format!("{name}{}", self.braces()),
            1 => format!("rate({name}[{}])", self.pick(&RANGES)),
            2 => format!("sum{}(rate({name}[5m]))", self.pick(&GROUPS)),
            3 => self.vector(depth - 1),
            _ => {
                let groups = self.pick(&["le", "le, job", "le, job, instance"]);
                format!(
                    "sum by ({groups}) (rate(latency_seconds_bucket[{}]))",
                    self.pick(&RANGES)
                )
            }
        };
        match self.rng.below(7) {
            0 | 1 => format!(
                "histogram_quantile({}, {vector})",
                self.pick(&["0.9", "0.5", "0", "1", "0.01", "-1", "2", "NaN"])
            ),
            2 => format!(
                "histogram_fraction({}, {}, {vector})",
                self.pick(&NUMBERS),
                self.pick(&NUMBERS)
            ),
            3 => format!("histogram_quantiles({vector}, \"q\", 0.1, 0.9)"),
            4 => format!(
                "({vector}) {} {}",
                self.pick(&["</", ">/"]),
                self.pick(&NUMBERS)
            ),
            _ => format!(
                "{}({vector})",
                self.pick(&["histogram_avg", "histogram_stddev", "histogram_count"])
            ),
        }
    }

    fn other(&mut self, depth: u32) -> String {
        let inner = self.vector(depth - 1);
        match self.rng.below(12) {
            0 => format!(
                "clamp({inner}, {}, {})",
                self.pick(&NUMBERS),
                self.pick(&NUMBERS)
            ),
            1 => format!("label_replace({inner}, \"to\", \"$1\", \"instance\", \"(.).*\")"),
            2 => format!("label_join({inner}, \"to\", \"-\", \"job\", \"code\")"),
            3 => format!("-({inner})"),
            4 => format!("sort_by_label({inner}, \"job\", \"instance\")"),
            5 => format!("scalar({inner}) + {}", self.pick(&NUMBERS)),
            6 => format!(
                "round({inner}, {})",
                self.pick(&["0.1", "5", "time() / 1e3", "0"])
            ),
            7 | 8 => {
                let chosen = self.pick(&[
                    "",
                    ", {version=\"1\"}",
                    ", {region=~\"r[01]\"}",
                    ", {__name__=~\".+_info\"}",
                    ", {__name__=\"build_info\", built!=\"\"}",
                    ", {version=~\".*\"}",
                ]);
                format!("info({inner}{chosen})")
            }
            9 => format!("absent({inner})"),
            10 => format!("vector({})", self.pick(&NUMBERS)),
            _ => format!("max_over_time(({inner})[10m:1m])"),
        }
    }
}
