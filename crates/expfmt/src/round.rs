//! How bodies are parsed, and what one of them gave.

use narthex_model::{ColumnId, Frame};

/// How bodies are parsed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParseOptions {
    /// Whether samples keep the timestamps that the body gives them.
    pub honor_timestamps: bool,
    /// Whether series with timestamps of their own get staleness markers like all others.
    pub track_timestamps_staleness: bool,
    /// Whether native histograms are read; without, a histogram is read as a classic one.
    pub native_histograms: bool,
    /// Whether the classic series of a histogram that is native, or becomes so, are kept too.
    pub classic_histograms: bool,
    /// Whether classic histograms become native ones with custom buckets.
    pub custom_buckets: bool,
    /// Whether start times are read; lines `_created` are then no series of their own.
    pub start_times: bool,
    /// Most samples kept of one body, 0 for no limit; a body with more is refused whole.
    pub sample_limit: usize,
    /// Most buckets of a native histogram, 0 for no limit; resolution is reduced to stay below.
    pub bucket_limit: usize,
    /// Highest resolution of a native histogram, −4 to 8.
    pub max_histogram_schema: i32,
    /// Whether a body that has mostly new series instead of those before is refused, so that it can be given to
    /// another parser: its schema has only what lives.
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
            sample_limit: 0,
            bucket_limit: 0,
            max_histogram_schema: 8,
            refuse_replacement: false,
        }
    }
}

/// What a body gave.
#[derive(Debug)]
pub struct Round<'a> {
    /// The samples; its schema is the parser's, in a newer version when series came.
    pub frame: &'a mut Frame,
    /// Samples of series the body has more than once, each at a time of its own.
    pub more: &'a [MoreSample],
    /// Counts.
    pub stats: RoundStats,
}

/// A further sample of a series that the frame has already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoreSample {
    /// The series.
    pub column: ColumnId,
    /// When.
    pub time_ms: i64,
    /// The value.
    pub value: f64,
}

/// Counts of one body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RoundStats {
    /// Sample lines, or values of messages.
    pub lines: usize,
    /// Lines that came as expected: only their values were parsed.
    pub expected: usize,
    /// Lines found by the hash of their text.
    pub found: usize,
    /// Series seen for the first time.
    pub added: usize,
    /// Series that the last successful round did not have, new ones included.
    pub appeared: usize,
    /// Lines of dropped series.
    pub dropped: usize,
    /// Lines of series that there was no room for.
    pub refused: usize,
    /// Lines that repeat a series of the same body without a time of their own; the first one counts.
    pub repeated: usize,
    /// Lines that are part of something else: of a converted histogram, or a start time.
    pub consumed: usize,
    /// Native histograms made of consumed lines.
    pub converted: usize,
}

impl RoundStats {
    /// Returns the samples the body has, as `scrape_samples_scraped` counts them.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.lines - self.consumed + self.converted
    }

    /// Returns the samples left after relabelling, repeated ones included.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.samples() - self.dropped
    }
}
