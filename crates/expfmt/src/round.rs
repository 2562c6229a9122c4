//! Parse options, and the result of parsing one body.

use narthex_model::{ColumnId, Frame, LabelSet, Schema};

/// Options for parsing bodies.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParseOptions {
    /// Whether samples keep their timestamps from the body.
    pub honor_timestamps: bool,
    /// Whether series with their own timestamps get staleness markers like all others.
    pub track_timestamps_staleness: bool,
    /// Whether native histograms are read; otherwise a histogram is read as a classic one.
    pub native_histograms: bool,
    /// Whether the classic series of a native or converted histogram are kept too.
    pub classic_histograms: bool,
    /// Whether classic histograms are converted to native ones with custom buckets.
    pub custom_buckets: bool,
    /// Whether start times are read; `_created` lines are then not series of their own.
    pub start_times: bool,
    /// Whether each series gets labels with the type and unit of its family, instead of those that the body has.
    pub type_and_unit_labels: bool,
    /// Most samples kept of one body, 0 for no limit; a body with more is refused completely.
    pub sample_limit: usize,
    /// Most buckets of a native histogram, 0 for no limit; resolution is reduced to stay below.
    pub bucket_limit: usize,
    /// Highest resolution of a native histogram, −4 to 8.
    pub max_histogram_schema: i32,
    /// Whether a body of mostly new series is refused, so that it can be given to another parser: that one's schema has
    /// only live series.
    pub refuse_replacement: bool,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            honor_timestamps: true,
            track_timestamps_staleness: false,
            native_histograms: false,
            classic_histograms: false,
            custom_buckets: false,
            start_times: false,
            type_and_unit_labels: false,
            sample_limit: 0,
            bucket_limit: 0,
            max_histogram_schema: 8,
            refuse_replacement: false,
        }
    }
}

/// Result of parsing a body.
///
/// Built for reuse: parsing into it keeps its memory.
#[derive(Clone, Debug)]
pub struct Round {
    /// Samples; the frame's schema is the parser's, in a newer version if series were added.
    pub frame: Frame,
    /// Further samples of series that the body has more than once, each at its own time.
    pub more: Vec<MoreSample>,
    /// Counts.
    pub stats: RoundStats,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            frame: Frame::new(Schema::new(LabelSet::empty()), 0),
            more: Vec::new(),
            stats: RoundStats::default(),
        }
    }
}

/// An additional sample of a series that the frame already has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoreSample {
    /// The series.
    pub column: ColumnId,
    /// Time of the sample, ms.
    pub time_ms: i64,
    /// The value.
    pub value: f64,
}

/// Counts of one body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RoundStats {
    /// Sample lines, or values of messages.
    pub lines: usize,
    /// Lines as expected, of which only the values were parsed.
    pub expected: usize,
    /// Lines found by the hash of their text.
    pub found: usize,
    /// Series seen for the first time.
    pub added: usize,
    /// Series that the last successful round did not have, new ones included.
    pub appeared: usize,
    /// Lines of dropped series.
    pub dropped: usize,
    /// Lines of series that did not fit.
    pub refused: usize,
    /// Lines that repeat a series of the same body without a time of their own; the first one counts.
    pub repeated: usize,
    /// Lines that are part of a converted histogram, or a start time.
    pub consumed: usize,
    /// Native histograms made of consumed lines.
    pub converted: usize,
}

impl RoundStats {
    /// Returns the number of samples in the body, as `scrape_samples_scraped` counts them.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.lines - self.consumed + self.converted
    }

    /// Returns the number of samples left after relabelling, repeated ones included.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.samples() - self.dropped
    }
}
