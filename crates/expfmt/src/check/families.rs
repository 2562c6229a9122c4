//! Checks of a body's lines, family by family.
//!
//! **Invariant:** the parser's own grammar reads the lines; only their relations are judged here.

use super::{
    family::{Family, Sample, group_of},
    histogram,
    problem::{MOST, Problem},
};
use crate::{
    format::Format,
    number,
    text::lex::{Comment, Cursor, Dialect, Memo, Tail, exemplar},
};
use narthex_model::{LabelSet, MetricType};
use std::collections::HashSet;

/// Suffixes of the series of a family.
fn suffixes(metric_type: Option<MetricType>) -> &'static [&'static str] {
    match metric_type {
        Some(MetricType::Counter) => &["_total", "_created"],
        Some(MetricType::Summary) => &["", "_count", "_sum", "_created"],
        Some(MetricType::Histogram) => &["_count", "_sum", "_bucket", "_created"],
        Some(MetricType::GaugeHistogram) => &["_gcount", "_gsum", "_bucket"],
        Some(MetricType::Info) => &["_info"],
        _ => &[""],
    }
}

/// Reads a body's lines up to the first malformed one, and passes on each complete family.
pub(super) struct Walk<'b> {
    body: &'b [u8],
    openmetrics: bool,
    family: Option<Family>,
    pub(super) families: Vec<Family>,
    names: HashSet<String>,
    pub(super) problems: Vec<Problem>,
}

/// Lists the problems of the lines of a body.
pub(super) fn check(format: Format, body: &[u8]) -> Vec<Problem> {
    let mut walk = Walk::new(format, body);
    walk.run();
    for family in std::mem::take(&mut walk.families) {
        walk.whole(&family);
    }
    walk.problems
}

impl<'b> Walk<'b> {
    pub(super) fn new(format: Format, body: &'b [u8]) -> Self {
        Self {
            body,
            openmetrics: format == Format::OpenMetrics,
            family: None,
            families: Vec::new(),
            names: HashSet::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn run(&mut self) {
        let dialect = if self.openmetrics {
            Dialect::OpenMetrics
        } else {
            Dialect::Text
        };
        let mut cursor = Cursor::new(self.body, 0, dialect);
        let mut memo = Memo::default();
        while let Some(byte) = cursor.peek() {
            let start = cursor.at;
            match byte {
                b'#' => {
                    cursor.at += 1;
                    match cursor.comment() {
                        Ok(comment) => self.comment(start, comment),
                        Err(_) => break,
                    }
                }
                b'\n' | b' ' | b'\t' if !self.openmetrics => cursor.at += 1,
                _ => {
                    let Ok(labels) = cursor.series(&mut memo) else {
                        break;
                    };
                    let text = &self.body[start..cursor.at];
                    cursor.skip_to_value();
                    let Ok(tail) = cursor.tail() else { break };
                    if self.openmetrics && text.ends_with(b",}") {
                        self.problem(start, "a comma behind the last label");
                    }
                    self.sample(start, labels, &tail);
                    cursor.at = tail.end;
                }
            }
        }
        self.end_family();
    }

    fn problem(&mut self, offset: usize, message: impl Into<String>) {
        if self.problems.len() < MOST {
            let problem = Problem::at(self.body, offset, message);
            self.problems.push(problem);
        }
    }

    fn end_family(&mut self) {
        self.families.extend(self.family.take());
    }

    fn begin_family(&mut self, name: &str, metric_type: Option<MetricType>, offset: usize) {
        self.end_family();
        self.family = Some(Family {
            name: name.to_owned(),
            metric_type,
            offset,
            ..Family::default()
        });
    }

    fn comment(&mut self, at: usize, comment: Comment<'_>) {
        let (name, keyword) = match &comment {
            Comment::Help(name, _) => (name.to_string(), "HELP"),
            Comment::Type(name, _) => (name.to_string(), "TYPE"),
            Comment::Unit(name, _) => (name.to_string(), "UNIT"),
            Comment::Eof | Comment::Other => return,
        };
        let same = self
            .family
            .as_ref()
            .is_some_and(|family| family.name == name);
        if !same {
            self.begin_family(&name, None, at);
        }
        let Some(family) = &mut self.family else {
            return;
        };
        let mut complaint = None;
        if !family.samples.is_empty() {
            complaint = Some(format!("{keyword} of {name:?} behind its samples"));
        }
        let twice = match comment {
            Comment::Help(_, help) => family.help.replace(help).is_some(),
            Comment::Type(_, metric_type) => family.metric_type.replace(metric_type).is_some(),
            Comment::Unit(_, unit) => family.unit.replace(unit).is_some(),
            Comment::Eof | Comment::Other => false,
        };
        if twice && complaint.is_none() {
            complaint = Some(format!("a second {keyword} of {name:?}"));
        }
        if let Some(complaint) = complaint {
            self.problem(at, complaint);
        }
    }

    fn sample(&mut self, offset: usize, labels: LabelSet, tail: &Tail) {
        let name = labels.metric_name().to_owned();
        let openmetrics = self.openmetrics;
        let belongs = self.family.as_ref().is_some_and(|family| {
            let suffix = name.strip_prefix(family.name.as_str());
            // In the text format a counter's family has the name of its series.
            let allowed = suffixes(family.metric_type.filter(|kind| {
                openmetrics || matches!(kind, MetricType::Summary | MetricType::Histogram)
            }));
            suffix.is_some_and(|suffix| allowed.contains(&suffix))
        });
        if !belongs {
            self.begin_family(&name, Some(MetricType::Unknown), offset);
        }
        if openmetrics && let Some(mut family) = self.family.take() {
            self.judge(&mut family, offset, &labels, tail);
            self.family = Some(family);
        }
        if let Some(family) = &mut self.family {
            family.samples.push(Sample {
                offset,
                labels,
                value: tail.value,
                time_ms: tail.time_ms,
            });
        }
    }

    /// Checks one OpenMetrics sample.
    fn judge(&mut self, family: &mut Family, offset: usize, labels: &LabelSet, tail: &Tail) {
        let metric_type = family.metric_type.unwrap_or_default();
        let suffix = labels
            .metric_name()
            .strip_prefix(family.name.as_str())
            .unwrap_or_default()
            .to_owned();
        for complaint in wrong_with_value(&family.name, metric_type, &suffix, labels, tail.value) {
            self.problem(offset, complaint);
        }
        let group = group_of(&family.name, metric_type, &suffix, labels);
        if let Some((last, last_ms)) = &family.group {
            let complaint = if *last == group {
                match (last_ms, tail.time_ms) {
                    (Some(_), None) | (None, Some(_)) => {
                        Some("some samples of a metric have times and others not")
                    }
                    (Some(last_ms), Some(time_ms))
                        if *last_ms > time_ms && metric_type != MetricType::Info =>
                    {
                        Some("times of a metric go backwards")
                    }
                    _ => None,
                }
            } else if family.groups.contains(&group) {
                Some("samples of one metric do not stand together")
            } else {
                None
            };
            if let Some(complaint) = complaint {
                self.problem(offset, complaint);
            }
        }
        family.groups.insert(group.clone());
        family.group = Some((group, tail.time_ms));
        if let Some(span) = &tail.exemplar {
            self.judge_exemplar(offset, metric_type, &suffix, span.clone());
        }
    }

    fn judge_exemplar(
        &mut self,
        offset: usize,
        metric_type: MetricType,
        suffix: &str,
        span: std::ops::Range<usize>,
    ) {
        /// Most characters of all names and values together.
        const LONGEST: usize = 128;
        let allowed = match metric_type {
            MetricType::Counter => suffix == "_total",
            MetricType::Histogram | MetricType::GaugeHistogram => suffix == "_bucket",
            _ => false,
        };
        if !allowed {
            self.problem(offset, "an exemplar on a sample that may have none");
        }
        // The parser has already found malformed ones.
        let Ok(exemplar) = exemplar(self.body, span.clone()) else {
            return;
        };
        let labels = exemplar.labels.iter();
        let characters: usize = labels
            .map(|label| label.name().chars().count() + label.value().chars().count())
            .sum();
        if characters > LONGEST {
            self.problem(
                span.start,
                format!("an exemplar's labels have {characters} characters, more than {LONGEST}"),
            );
        }
        if self.body[span].windows(2).any(|two| two == b",}") {
            self.problem(offset, "a comma behind the last label");
        }
    }

    /// Checks a complete family.
    fn whole(&mut self, family: &Family) {
        if !self.openmetrics {
            if !self.names.insert(family.name.clone()) && family.help.is_some() {
                self.problem(
                    family.offset,
                    format!("{:?} has been described before", family.name),
                );
            }
            return;
        }
        let mut names: Vec<String> = suffixes(family.metric_type)
            .iter()
            .map(|suffix| format!("{}{suffix}", family.name))
            .collect();
        names.push(family.name.clone());
        names.sort();
        names.dedup();
        if let Some(name) = names.iter().find(|name| self.names.contains(*name)) {
            let complaint = format!("{name:?} belongs to another family already");
            self.problem(family.offset, complaint);
        }
        self.names.extend(names);
        let unit = family.unit.as_deref().unwrap_or_default();
        let unitless = matches!(
            family.metric_type,
            Some(MetricType::Info | MetricType::StateSet)
        );
        if !unit.is_empty() && unitless {
            self.problem(family.offset, "a unit for a type that has none");
        }
        if matches!(
            family.metric_type,
            Some(MetricType::Histogram | MetricType::GaugeHistogram)
        ) {
            let found = histogram::check(family);
            for (offset, complaint) in found {
                self.problem(offset, complaint);
            }
        }
    }
}

/// Lists the problems of a sample's labels and value for its type.
fn wrong_with_value(
    family: &str,
    metric_type: MetricType,
    suffix: &str,
    labels: &LabelSet,
    value: f64,
) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let bound = |name| {
        labels
            .get(name)
            .map(|text| (text, number::read(text.as_bytes())))
    };
    match (metric_type, suffix) {
        (MetricType::StateSet, _) => {
            if labels.label(family).is_none() {
                wrong.push("a state without the label that names it");
            }
            if value != 0.0 && value != 1.0 {
                wrong.push("a state that is neither 0 nor 1");
            }
        }
        (MetricType::Info, _) if value != 1.0 => wrong.push("an info whose value is not 1"),
        (MetricType::Summary, "") => {
            if !matches!(bound("quantile"), Some((_, Some(0.0..=1.0)))) {
                wrong.push("a quantile label that is not between 0 and 1");
            }
            if value < 0.0 {
                wrong.push("a quantile below zero");
            }
        }
        (MetricType::Histogram | MetricType::GaugeHistogram, "_bucket") => {
            let fits = match bound("le") {
                Some((text, Some(f64::INFINITY))) => text == "+Inf",
                Some((_, Some(bound))) => !bound.is_nan(),
                _ => false,
            };
            if !fits {
                wrong.push("a bucket whose le label is no bound");
            }
        }
        _ => {}
    }
    let counts = ["_total", "_sum", "_count", "_bucket", "_gcount"].contains(&suffix);
    if value.is_nan() && (counts || suffix == "_gsum") {
        wrong.push("a count or sum that is not a number");
    }
    if value < 0.0 && counts {
        wrong.push("a count or sum below zero");
    }
    wrong
}
