//! Metadata of a metric family: type, unit, help.

use std::{cmp::Ordering, fmt, sync::Arc};

crate::named! {
    /// The type of a metric family, with its name in the HTTP API and in OpenMetrics.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub enum MetricType {
        /// Not stated; also called untyped.
        #[default]
        Unknown = "unknown",
        /// Only goes up, until a reset.
        Counter = "counter",
        /// Goes up and down.
        Gauge = "gauge",
        /// Counts observations in buckets, cumulative over time.
        Histogram = "histogram",
        /// A histogram of a current state.
        GaugeHistogram = "gaugehistogram",
        /// Quantiles computed by the client.
        Summary = "summary",
        /// Labels about something, value 1.
        Info = "info",
        /// One boolean series for each state.
        StateSet = "stateset",
    }
}

impl MetricType {
    /// Returns the type's number in remote write and in files: its place in [`MetricType::ALL`].
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the type called `name`; `untyped` is the text format's word for unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "untyped" {
            return Some(Self::Unknown);
        }
        Self::ALL.into_iter().find(|of| of.as_str() == name)
    }
}

impl fmt::Display for MetricType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A metric family's name and metadata.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Family {
    /// The family's name, without `_bucket`, `_sum`, `_count` (and in OpenMetrics `_total`).
    pub name: Arc<str>,
    /// The family's type.
    pub metric_type: MetricType,
    /// The family's unit, or empty.
    pub unit: Arc<str>,
    /// The family's help text, unescaped, or empty.
    pub help: Arc<str>,
}

impl Family {
    fn key(&self) -> (&str, &str, &str, &str) {
        let metric_type = self.metric_type.as_str();
        (&self.name, metric_type, &self.unit, &self.help)
    }
}

/// Orders by name, then by the type's name, unit and help.
impl Ord for Family {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Family {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
