//! Exposition formats, and the choice between them.
//!
//! A series' labels are written once for lines and once for messages, when each is first needed; an exposition copies
//! them and writes digits.

mod lines;
mod messages;
mod negotiate;

pub(crate) use self::lines::{LineEncoder, write_labels};
pub(crate) use self::messages::{MessageEncoder, put_labels};

/// Value of the Content-Type header for [`Format::Text`].
pub const TEXT_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An exposition format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Prometheus' text format 0.0.4. It has neither exemplars nor native histograms nor times of creation.
    #[default]
    Text,
    /// OpenMetrics 1.0 text, with exemplars; times of creation are optional.
    OpenMetrics,
    /// Delimited messages `io.prometheus.client.MetricFamily`, with exemplars, native histograms and times of creation.
    Protobuf,
}

impl Format {
    /// Returns the value of the Content-Type header.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => TEXT_CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// What an exposition contains.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    pub(crate) format: Format,
    pub(crate) created_lines: bool,
    pub(crate) gzip: bool,
}

impl EncodeOptions {
    /// Creates the options that [`Registry::encode`](crate::Registry::encode) has.
    #[must_use]
    pub const fn new(format: Format) -> Self {
        Self {
            format,
            created_lines: false,
            gzip: false,
        }
    }

    /// Sets whether OpenMetrics text has `_created` lines; without effect on other formats.
    ///
    /// They tell a reset from a fall, but a server that does not read them as times stores each as a series, twice as
    /// many for counters.
    #[must_use]
    pub const fn created_lines(mut self, created_lines: bool) -> Self {
        self.created_lines = created_lines;
        self
    }

    /// Sets whether lines are compressed with gzip; without effect on protobuf, which has none.
    ///
    /// A line is compressed as its difference to the line before it, which costs two to three times what writing it costs.
    #[must_use]
    pub const fn gzip(mut self, gzip: bool) -> Self {
        self.gzip = gzip;
        self
    }

    /// Returns the value of the Content-Encoding header, if there has to be one.
    #[must_use]
    pub const fn content_encoding(self) -> Option<&'static str> {
        match self.format {
            Format::Text | Format::OpenMetrics if self.gzip => Some("gzip"),
            _ => None,
        }
    }
}
