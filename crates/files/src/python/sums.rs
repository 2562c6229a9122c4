//! Values of several processes under the same keys, put together as the Python client does, and their page.
//!
//! **Invariant:** the page does not depend on the order in which files are added, except where the client's does: of
//! gauges set at the same time the last counts.

use super::DbName;
use narthex_client::write_number;
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What the values of a file are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FamilyKind {
    Counter,
    Histogram,
    Summary,
    Gauge { mode: Mode, is_live: bool },
}

/// How gauges of several processes become one value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Each process has a series.
    All,
    Min,
    Max,
    Sum,
    MostRecent,
}

impl FamilyKind {
    /// Returns what a file's name begins with: `counter`, `gauge_livesum`.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "counter" => Self::Counter,
            "histogram" => Self::Histogram,
            "summary" => Self::Summary,
            _ => {
                let mode = name.strip_prefix("gauge_")?;
                let (is_live, mode) = match mode.strip_prefix("live") {
                    Some(mode) => (true, mode),
                    None => (false, mode),
                };
                let mode = match mode {
                    "all" => Mode::All,
                    "min" => Mode::Min,
                    "max" => Mode::Max,
                    "sum" => Mode::Sum,
                    "mostrecent" => Mode::MostRecent,
                    _ => return None,
                };
                Self::Gauge { mode, is_live }
            }
        })
    }

    /// Reports whether values end with their process.
    pub(super) fn is_live(self) -> bool {
        matches!(self, Self::Gauge { is_live: true, .. })
    }

    /// Reports whether a process' value never gets smaller.
    pub(super) fn only_grows(self) -> bool {
        self == Self::Counter
    }

    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Gauge { .. } => "gauge",
        }
    }
}

/// Labels, sorted by name.
type Labels = Vec<(String, String)>;

/// A key, parsed.
#[derive(Debug, PartialEq)]
pub(crate) struct Key {
    family: String,
    name: String,
    labels: Labels,
    help: String,
}

pub(crate) type SharedKey = Arc<Key>;

/// Keys that were parsed before, by their text; `None` for those that are no key.
#[derive(Debug, Default)]
pub(super) struct KeyCache(HashMap<Box<str>, Option<SharedKey>>);

/// Keys that are remembered; more are forgotten, so that a file of garbage does not stay.
const KEYS: usize = 100_000;

impl KeyCache {
    pub(super) fn get(&mut self, text: &str) -> Option<SharedKey> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() >= KEYS {
            self.0.clear();
        }
        let key = Key::parse(text).map(Arc::new);
        self.0.insert(text.into(), key.clone());
        key
    }
}

impl Key {
    /// Parses `[family, name, {label: value}, help]`; older versions have no help.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let Json::Array(parts) = serde_json::from_str(text).ok()? else {
            return None;
        };
        let part = |at: usize| parts.get(at).and_then(Json::as_str).map(str::to_owned);
        let labels = parts.get(2)?.as_object()?;
        let pairs = labels.iter().map(|(name, value)| {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), value)
        });
        let mut labels: Labels = pairs.collect();
        labels.sort_unstable();
        Some(Self {
            family: part(0)?,
            name: part(1)?,
            labels,
            help: part(3).unwrap_or_else(|| "Multiprocess metric".to_owned()),
        })
    }
}

/// A value, and when it was set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) value: f64,
    pub(crate) timestamp: f64,
}

/// All values put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(BTreeMap<String, Family>);

#[derive(Clone, Debug)]
struct Family {
    kind: FamilyKind,
    help: String,
    samples: BTreeMap<(String, Labels), Value>,
}

impl Sums {
    /// Adds a value of one file.
    pub(super) fn add(&mut self, db: &DbName<'_>, key: &Key, value: Value) {
        let family = self.0.entry(key.family.clone()).or_insert_with(|| Family {
            kind: db.kind,
            help: key.help.clone(),
            samples: BTreeMap::new(),
        });
        let mut labels = key.labels.clone();
        let mode = match db.kind {
            FamilyKind::Gauge { mode, .. } => mode,
            FamilyKind::Counter | FamilyKind::Histogram | FamilyKind::Summary => Mode::Sum,
        };
        if mode == Mode::All {
            labels.retain(|(name, _)| name != "pid");
            labels.push(("pid".to_owned(), db.pid.to_owned()));
            labels.sort_unstable();
        }
        let place = (key.name.clone(), labels);
        let Some(sum) = family.samples.get_mut(&place) else {
            family.samples.insert(place, value);
            return;
        };
        match mode {
            Mode::All => *sum = value,
            Mode::Sum => sum.value += value.value,
            Mode::Min => sum.value = sum.value.min(value.value),
            Mode::Max => sum.value = sum.value.max(value.value),
            Mode::MostRecent if value.timestamp >= sum.timestamp => *sum = value,
            Mode::MostRecent => {}
        }
    }

    /// Renders the page in the text format.
    pub(super) fn render(&self, out: &mut Vec<u8>) {
        for (name, family) in &self.0 {
            let is_total = family.kind == FamilyKind::Counter && !name.ends_with("_total");
            let suffix = if is_total { "_total" } else { "" };
            let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
            let word = family.kind.word();
            let head = format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {word}\n");
            out.extend_from_slice(head.as_bytes());
            if family.kind == FamilyKind::Histogram {
                family.render_histograms(name, out);
                continue;
            }
            for ((sample, labels), value) in &family.samples {
                line(out, sample, labels, None, value.value);
            }
        }
    }
}

impl Family {
    /// Renders histograms, whose buckets are not cumulative in files and whose count is not there.
    fn render_histograms(&self, family: &str, out: &mut Vec<u8>) {
        let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for ((_, labels), value) in &self.samples {
            let bound = labels.iter().find(|(name, _)| name == "le");
            if let Some(bound) = bound.and_then(|(_, le)| bound_of(le)) {
                let rest = labels.iter().filter(|(name, _)| name != "le").cloned();
                buckets
                    .entry(rest.collect())
                    .or_default()
                    .push((bound, value.value));
            }
        }
        for ((sample, labels), value) in &self.samples {
            let is_count = sample.strip_prefix(family) == Some("_count");
            if !is_count && labels.iter().all(|(name, _)| name != "le") {
                line(out, sample, labels, None, value.value);
            }
        }
        for (labels, mut buckets) in buckets {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut sum = 0.0;
            for (bound, count) in buckets {
                sum += count;
                line(out, &format!("{family}_bucket"), &labels, Some(bound), sum);
            }
            line(out, &format!("{family}_count"), &labels, None, sum);
        }
    }
}

fn bound_of(text: &str) -> Option<f64> {
    text.trim_start_matches('+').parse().ok()
}

fn line(out: &mut Vec<u8>, name: &str, labels: &Labels, bound: Option<f64>, value: f64) {
    out.extend_from_slice(name.as_bytes());
    let mut before = b'{';
    for (label, value) in labels {
        out.push(before);
        before = b',';
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        out.extend_from_slice(format!("{label}=\"{value}\"").as_bytes());
    }
    if let Some(bound) = bound {
        out.push(before);
        before = b',';
        out.extend_from_slice(b"le=\"");
        write_number(out, bound);
        out.push(b'"');
    }
    if before == b',' {
        out.push(b'}');
    }
    out.push(b' ');
    write_number(out, value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key, value and timestamp of each entry of a file.
    type Entries<'a> = &'a [(&'a str, f64, f64)];

    fn page(files: &[(&str, Entries<'_>)]) -> String {
        let mut sums = Sums::default();
        for (name, entries) in files {
            let db = DbName::parse(name).unwrap();
            for (key, value, timestamp) in *entries {
                let (value, timestamp) = (*value, *timestamp);
                sums.add(&db, &Key::parse(key).unwrap(), Value { value, timestamp });
            }
        }
        let mut out = Vec::new();
        sums.render(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn counters_and_summaries_are_summed() {
        let c = r#"["c", "c_total", {"k": "a\"\n"}, "Help."]"#;
        let s = r#"["s", "s_sum", {}]"#;
        assert_eq!(
            page(&[
                ("counter_1.db", &[(c, 1.0, 0.0)]),
                ("counter_2.db", &[(c, 2.5, 0.0)]),
                ("summary_1.db", &[(s, 3.0, 0.0)]),
                ("summary_2.db", &[(s, 4.0, 0.0)]),
            ]),
            "# HELP c_total Help.\n# TYPE c_total counter\nc_total{k=\"a\\\"\\n\"} 3.5\n\
             # HELP s Multiprocess metric\n# TYPE s summary\ns_sum 7\n"
        );
    }

    #[test]
    fn gauges_are_what_their_mode_says() {
        for (mode, expected) in [
            ("all", "g{pid=\"1\"} 5\ng{pid=\"2\"} 3\n"),
            ("liveall", "g{pid=\"1\"} 5\ng{pid=\"2\"} 3\n"),
            ("min", "g 3\n"),
            ("max", "g 5\n"),
            ("livesum", "g 8\n"),
            ("mostrecent", "g 5\n"),
        ] {
            let g = r#"["g", "g", {}, ""]"#;
            let names = [format!("gauge_{mode}_1.db"), format!("gauge_{mode}_2.db")];
            let text = page(&[(&names[0], &[(g, 5.0, 2.0)]), (&names[1], &[(g, 3.0, 1.0)])]);
            assert!(text.ends_with(expected), "{mode}: {text}");
        }
    }

    #[test]
    fn buckets_are_made_cumulative() {
        let bucket = |le: &str| format!(r#"["h", "h_bucket", {{"le": "{le}", "k": "1"}}, "H"]"#);
        let (one, ten, inf) = (bucket("1.0"), bucket("10.0"), bucket("+Inf"));
        let sum = r#"["h", "h_sum", {"k": "1"}, "H"]"#;
        let entries: Entries<'_> = &[
            (sum, 4.0, 0.0),
            (&ten, 2.0, 0.0),
            (&inf, 1.0, 0.0),
            (&one, 3.0, 0.0),
        ];
        assert_eq!(
            page(&[("histogram_1.db", entries), ("histogram_2.db", entries)]),
            "# HELP h H\n# TYPE h histogram\nh_sum{k=\"1\"} 8\nh_bucket{k=\"1\",le=\"1\"} 6\n\
             h_bucket{k=\"1\",le=\"10\"} 10\nh_bucket{k=\"1\",le=\"+Inf\"} 12\nh_count{k=\"1\"} 12\n"
        );
    }

    #[test]
    fn other_files_and_keys_are_left_out() {
        for name in [
            "counter_.db",
            "counter.db",
            "gauge_7.db",
            "gauge_mean_7.db",
            "x_1.db",
            "counter_1.db.tmp",
        ] {
            assert!(DbName::parse(name).is_none(), "{name}");
        }
        for key in [
            "",
            "[]",
            "{}",
            "[1,2,3]",
            "[\"a\",\"b\"]",
            "[\"a\",\"b\",[]]",
        ] {
            assert_eq!(Key::parse(key), None, "{key}");
        }
        let key = Key::parse(r#"["a", "b", {"z": 1, "y": "2"}]"#).unwrap();
        assert_eq!(
            key.labels,
            [
                ("y".to_owned(), "2".to_owned()),
                ("z".to_owned(), "1".to_owned())
            ]
        );
    }
}
