//! Generates queries from the grammar.

use narthex_testkit::rng::SplitMix64;
use std::fmt::Write as _;

const METRICS: [&str; 8] = [
    "up",
    "cpu_total",
    "mem",
    "lat_bucket",
    "h",
    "nh",
    "gone",
    "\"ü.x\"",
];
const LABELS: [&str; 5] = ["job", "le", "cpu", "__name__", "\"ä b\""];
const DURATIONS: [&str; 8] = [
    "1m",
    "5m",
    "90s",
    "1h",
    "300",
    "2m*2",
    "step()+1m",
    "max_of(1m,30s)",
];
const OPERATORS: [&str; 19] = [
    "+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "and", "or", "unless",
    "== bool", "</", ">/",
];
const AGGREGATIONS: [&str; 9] = [
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "sum",
];
const OVER: [&str; 24] = [
    "rate",
    "increase",
    "delta",
    "irate",
    "idelta",
    "deriv",
    "resets",
    "changes",
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
    "ts_of_last_over_time",
    "ts_of_min_over_time",
    "ts_of_first_over_time",
];
const OF_VECTOR: [&str; 22] = [
    "abs",
    "ceil",
    "floor",
    "exp",
    "ln",
    "sqrt",
    "sgn",
    "sort",
    "sort_desc",
    "absent",
    "timestamp",
    "histogram_count",
    "histogram_sum",
    "histogram_avg",
    "histogram_stddev",
    "hour",
    "minute",
    "month",
    "year",
    "day_of_week",
    "days_in_month",
    "deg",
];
const NUMBERS: [&str; 9] = ["0", "1", "0.5", "-3", "1e3", "0x1f", "Inf", "NaN", "1h"];

/// A generator of queries of at most `depth` levels.
pub(crate) struct Generator<'a> {
    pub(crate) rng: &'a mut SplitMix64,
}

impl Generator<'_> {
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.rng.index(items.len())]
    }

    pub(crate) fn vector(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.selector();
        }
        match self.rng.below(9) {
            0 => self.selector(),
            1 | 2 => self.aggregation(depth - 1),
            3 => self.binary(depth - 1),
            4 => format!("{}({})", self.pick(&OF_VECTOR), self.vector(depth - 1)),
            5 => format!("{}({})", self.pick(&OVER), self.matrix(depth - 1)),
            6 => self.with_parameter(depth - 1),
            7 => format!("-{}", self.vector(depth - 1)),
            _ => format!("({})", self.vector(depth - 1)),
        }
    }

    fn scalar(&mut self, depth: u32) -> String {
        match self.rng.below(6) {
            0 if depth > 0 => format!("scalar({})", self.vector(depth - 1)),
            1 => "time()".to_owned(),
            2 => format!("{} + {}", self.pick(&NUMBERS), self.pick(&NUMBERS)),
            _ => self.pick(&NUMBERS).to_owned(),
        }
    }

    fn matrix(&mut self, depth: u32) -> String {
        let range = self.pick(&DURATIONS);
        if depth == 0 || self.rng.one_in(2) {
            let selector = self.bare_selector();
            let extension = self.pick(&["", "", "", " anchored", " smoothed"]);
            return format!("{selector}[{range}]{extension}{}", self.modifiers());
        }
        let step = self.pick(&["", "1m", "30s", "7s"]);
        format!(
            "({})[{range}:{step}]{}",
            self.vector(depth - 1),
            self.modifiers()
        )
    }

    fn selector(&mut self) -> String {
        format!("{}{}", self.bare_selector(), self.modifiers())
    }

    fn bare_selector(&mut self) -> String {
        let name = self.pick(&METRICS);
        let mut text = String::new();
        if name.starts_with('"') {
            write!(text, "{{{name}").unwrap();
        } else {
            write!(text, "{name}{{").unwrap();
        }
        if self.rng.one_in(3) {
            if text.len() > 1 && !text.ends_with('{') {
                text.push(',');
            }
            let label = self.pick(&["job", "le", "cpu", "\"ä b\""]);
            let operator = self.pick(&["=", "!=", "=~", "!~"]);
            let value = self.pick(&["\"a\"", "'a|b'", "\"\"", "`.+`", "\"\\u00e4\\n\""]);
            write!(text, "{label} {operator}{value}").unwrap();
        }
        text.push('}');
        text
    }

    fn modifiers(&mut self) -> String {
        match self.rng.below(8) {
            0 => format!(
                " offset {}",
                self.pick(&["1m", "-1m", "(1m+30s)", "-step()"])
            ),
            1 => format!(" @ {}", self.pick(&["start()", "end()", "600", "-1.5"])),
            2 => " offset 1m @ 1200".to_owned(),
            _ => String::new(),
        }
    }

    fn labels(&mut self) -> String {
        let count = self.rng.index(3);
        let names: Vec<&str> = (0..count).map(|_| self.pick(&LABELS)).collect();
        names.join(", ")
    }

    fn aggregation(&mut self, depth: u32) -> String {
        let grouping = match self.rng.below(3) {
            0 => String::new(),
            1 => format!(" by ({})", self.labels()),
            _ => format!(" without ({})", self.labels()),
        };
        let inner = self.vector(depth);
        match self.rng.below(6) {
            0 => format!("quantile{grouping}({}, {inner})", self.scalar(depth)),
            1 => {
                let op = self.pick(&["topk", "bottomk", "limitk", "limit_ratio"]);
                format!(
                    "{op}({}, {inner}){grouping}",
                    self.pick(&["1", "2", "0.5", "-0.5"])
                )
            }
            2 => format!("count_values(\"v\", {inner}){grouping}"),
            _ => format!("{}{grouping}({inner})", self.pick(&AGGREGATIONS)),
        }
    }

    fn binary(&mut self, depth: u32) -> String {
        let operator = self.pick(&OPERATORS);
        match self.rng.below(3) {
            0 if !matches!(operator, "and" | "or" | "unless") => {
                format!("{} {operator} {}", self.scalar(depth), self.vector(depth))
            }
            1 if !matches!(operator, "and" | "or" | "unless") => {
                format!("{} {operator} {}", self.vector(depth), self.scalar(depth))
            }
            _ => {
                let word = self.pick(&["on", "ignoring"]);
                let mut matching = match self.rng.below(2) {
                    0 => String::new(),
                    _ => format!(" {word}({})", self.labels()),
                };
                if !matching.is_empty() && !matches!(operator, "and" | "or" | "unless") {
                    matching +=
                        self.pick(&["", "", " group_left", " group_right(job)", " fill(0)"]);
                }
                let (l, r) = (self.vector(depth), self.vector(depth));
                format!("{l} {operator}{matching} {r}")
            }
        }
    }

    fn with_parameter(&mut self, depth: u32) -> String {
        let (vector, scalar) = (self.vector(depth), self.scalar(depth));
        match self.rng.below(12) {
            0 => format!("histogram_quantile({scalar}, {vector})"),
            1 => format!("histogram_fraction(0, {scalar}, {vector})"),
            2 => format!("round({vector}, {scalar})"),
            3 => format!("clamp({vector}, {scalar}, 3)"),
            4 => format!("label_replace({vector}, \"job\", \"$1x\", \"cpu\", \"(.*)\")"),
            5 => format!("label_join({vector}, \"job\", \"-\", \"cpu\", \"le\")"),
            6 => format!("vector({scalar})"),
            7 => format!("quantile_over_time({scalar}, {})", self.matrix(depth)),
            8 => format!("predict_linear({}, {scalar})", self.matrix(depth)),
            9 => format!(
                "double_exponential_smoothing({}, 0.5, 0.5)",
                self.matrix(depth)
            ),
            10 => format!("info({vector})"),
            _ => format!("histogram_quantiles({vector}, \"q\", 0.5, {scalar})"),
        }
    }
}
