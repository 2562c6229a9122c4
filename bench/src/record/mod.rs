//! A scenario's measurements, independent of scenarios: printing, plotting and comparing use only this.
//!
//! **Invariant:** plain readings with keys and units; reports compute medians, ratios and spreads. A record names
//! programs and command lines, never paths of the machine, and a file's contents are checked before use.

mod json;
pub(crate) mod summary;

pub(crate) use json::{read, write};

use crate::harness::Turn;
use serde::{Deserialize, Serialize};

/// Version of the file format, incremented when an older reader would misread a record.
pub(crate) const FORMAT: u32 = 1;

/// One scenario's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// [`FORMAT`].
    pub(crate) format: u32,
    pub(crate) tool: Tool,
    /// The command line, with programs and directories reduced to their last part.
    pub(crate) command: String,
    /// When it began, in seconds since the epoch.
    pub(crate) time_s: u64,
    pub(crate) seed: u64,
    pub(crate) machine: Machine,
    /// The scenario's name, such as `storage`.
    pub(crate) scenario: String,
    /// The measurement, in one sentence without its full stop.
    pub(crate) title: String,
    pub(crate) parameters: Vec<Parameter>,
    /// The measured subjects; the others are compared with the first.
    pub(crate) subjects: Vec<Subject>,
    /// Every measurement, in the order they were made.
    pub(crate) runs: Vec<Run>,
    #[serde(default)]
    pub(crate) differences: Vec<Difference>,
    /// Notes for the reader, a sentence each: peers that are not installed, settings that differ.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) version: String,
    /// `release` or `debug`.
    pub(crate) profile: String,
}

/// The machine of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
}

/// One setting of the scenario, as the flag of that name takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A measured subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    /// Its name in reports; unique in a record.
    pub(crate) label: String,
    /// First line of its version output.
    pub(crate) version: String,
    /// Its command line with its placeholders (`{config}`, `{listen}`) unfilled.
    pub(crate) command: String,
}

/// One measurement of one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// Index of the subject.
    pub(crate) subject: usize,
    /// The scenario's condition, such as `with queries`; empty if there is only one.
    #[serde(default)]
    pub(crate) variant: String,
    /// Index of the repetition, from 0; runs of one repetition are compared with each other.
    pub(crate) repetition: usize,
    pub(crate) figures: Vec<Figure>,
    #[serde(default)]
    pub(crate) courses: Vec<Course>,
    #[serde(default)]
    pub(crate) distributions: Vec<Distribution>,
    /// Costs of measuring.
    #[serde(default)]
    pub(crate) own_costs: Vec<OwnCost>,
}

/// Which direction of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Less,
    More,
    /// It is descriptive only.
    Neither,
}

/// One number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Its name, such as `CPU a sample`; unique in its run.
    pub(crate) key: String,
    /// Its unit, such as `µs`; empty for a count.
    pub(crate) unit: String,
    pub(crate) value: f64,
    pub(crate) better: Better,
    /// Whether it is one of the few headline figures.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_headline: bool,
}

/// A figure over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Course {
    /// Its name, such as `resident memory`; the same for all subjects, which share one plot.
    pub(crate) key: String,
    pub(crate) unit: String,
    /// Seconds since the run began, ascending, and the value at that time.
    pub(crate) points: Vec<[f64; 2]>,
}

/// Distribution of a latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Distribution {
    /// The timed operation, such as `instant queries`.
    pub(crate) key: String,
    /// The unit of the values, such as `ms`.
    pub(crate) unit: String,
    /// Number of timed operations.
    pub(crate) count: u64,
    /// From due times: a server that stalls also delays the operations behind it.
    pub(crate) corrected: Vec<Quantile>,
    /// From actual start times; empty if there are no due times.
    #[serde(default)]
    pub(crate) uncorrected: Vec<Quantile>,
}

/// One line of a percentile table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quantile {
    /// From 0 to 1, inclusive.
    pub(crate) share: f64,
    /// The smallest value that this share does not exceed.
    pub(crate) value: f64,
}

/// A cost of measuring, and the limit above which a result does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnCost {
    /// Its name, such as `the fleet's CPU a sample`.
    pub(crate) key: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<Limit>,
}

/// Limit of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limit {
    /// Inclusive.
    pub(crate) at_most: f64,
    /// Above it the run is refused and left out if `true`; otherwise there is a warning.
    pub(crate) refuses: bool,
}

/// Differences between subjects' answers, as a table of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    /// Title, such as `families on one side only`.
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    /// Rows with as many texts as there are columns.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Whether a run counts, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Sound,
    /// A limit that only warns was exceeded.
    Noisy,
    /// The generator was the bottleneck.
    Refused,
}

impl Figure {
    /// Returns a figure where less is better.
    pub(crate) fn cost(key: impl Into<String>, unit: &str, value: f64) -> Self {
        Self::new(key, unit, value, Better::Less)
    }

    /// Returns a figure where more is better.
    pub(crate) fn gain(key: impl Into<String>, unit: &str, value: f64) -> Self {
        Self::new(key, unit, value, Better::More)
    }

    /// Returns a cost in megabytes.
    pub(crate) fn megabytes(key: impl Into<String>, bytes: u64) -> Self {
        Self::cost(key, "MB", bytes as f64 / 1e6)
    }

    /// Returns a figure that is descriptive only.
    pub(crate) fn fact(key: impl Into<String>, unit: &str, value: f64) -> Self {
        Self::new(key, unit, value, Better::Neither)
    }

    fn new(key: impl Into<String>, unit: &str, value: f64, better: Better) -> Self {
        Self {
            key: key.into(),
            unit: unit.to_owned(),
            value,
            better,
            is_headline: false,
        }
    }

    /// Marks it as a headline figure.
    pub(crate) fn headline(mut self) -> Self {
        self.is_headline = true;
        self
    }
}

impl Difference {
    /// Returns a table without rows.
    pub(crate) fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
        }
    }
}

impl Course {
    /// Returns a figure over time.
    pub(crate) fn new(key: &str, unit: &str, points: impl Iterator<Item = [f64; 2]>) -> Self {
        Self {
            key: key.to_owned(),
            unit: unit.to_owned(),
            points: points.collect(),
        }
    }
}

impl OwnCost {
    /// Returns a cost that is only reported.
    pub(crate) fn new(key: &str, unit: &str, value: f64) -> Self {
        Self {
            key: key.to_owned(),
            unit: unit.to_owned(),
            value,
            limit: None,
        }
    }

    /// Refuses the run when the cost is above `at_most`.
    pub(crate) fn refuse_above(self, at_most: f64) -> Self {
        self.above(at_most, true)
    }

    /// Warns when the cost is above `at_most`.
    pub(crate) fn warn_above(self, at_most: f64) -> Self {
        self.above(at_most, false)
    }

    fn above(mut self, at_most: f64, refuses: bool) -> Self {
        self.limit = Some(Limit { at_most, refuses });
        self
    }

    /// Returns the cost's verdict on its run.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.limit {
            Some(limit) if self.value > limit.at_most && limit.refuses => Verdict::Refused,
            Some(limit) if self.value > limit.at_most => Verdict::Noisy,
            _ => Verdict::Sound,
        }
    }
}

impl Run {
    /// Returns a run of the first subject, to which courses, distributions and costs may be added.
    pub(crate) fn new(variant: impl Into<String>, figures: Vec<Figure>) -> Self {
        Self {
            subject: 0,
            variant: variant.into(),
            repetition: 0,
            figures,
            courses: Vec::new(),
            distributions: Vec::new(),
            own_costs: Vec::new(),
        }
    }

    /// Sets the run's subject, variant and repetition.
    pub(crate) fn for_turn(self, turn: Turn) -> Self {
        Self {
            subject: turn.subject,
            repetition: turn.repetition,
            ..self
        }
    }

    /// Returns the combined verdict of all costs.
    pub(crate) fn verdict(&self) -> Verdict {
        let verdicts = self.own_costs.iter().map(OwnCost::verdict);
        verdicts.max().unwrap_or(Verdict::Sound)
    }

    /// Returns the figure of that key.
    pub(crate) fn figure(&self, key: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.key == key)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
pub(crate) mod tests;
