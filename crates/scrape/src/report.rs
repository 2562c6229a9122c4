//! The synthetic series of a scrape: `up` and the like.
//!
//! **Invariant:** they are the first columns of the target's schema, in the order of `COLUMNS`, and every round has
//! all of them.

use narthex_model::{ColumnId, Family, Frame, LabelSet, METRIC_NAME, MetricType};

/// Name and help of each series; those from `EXTRA_FROM` on are stored on request.
const COLUMNS: [(&str, &str); 8] = [
    ("up", "Whether the last scrape of the target succeeded."),
    ("scrape_duration_seconds", "How long the scrape took."),
    ("scrape_samples_scraped", "Samples the target exposed."),
    (
        "scrape_samples_post_metric_relabeling",
        "Samples left after metric relabelling.",
    ),
    (
        "scrape_series_added",
        "Series the scrape before did not have.",
    ),
    ("scrape_timeout_seconds", "The target's scrape timeout."),
    (
        "scrape_sample_limit",
        "The target's sample limit, 0 for none.",
    ),
    (
        "scrape_body_size_bytes",
        "Decompressed size of the body, -1 beyond the limit.",
    ),
];
const EXTRA_FROM: usize = 5;

/// Values of a scrape's synthetic series.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) up: bool,
    pub(crate) duration_seconds: f64,
    pub(crate) samples: usize,
    pub(crate) samples_kept: usize,
    pub(crate) series_added: usize,
    pub(crate) timeout_seconds: f64,
    pub(crate) sample_limit: usize,
    /// Decompressed; negative if the body was rejected for its size.
    pub(crate) body_bytes: i64,
}

/// Returns the number of synthetic columns.
pub(crate) fn count(extra: bool) -> usize {
    if extra { COLUMNS.len() } else { EXTRA_FROM }
}

/// Returns the local sets and families of the synthetic columns.
pub(crate) fn columns(extra: bool) -> Vec<(LabelSet, Family)> {
    let count = count(extra);
    let column = |(name, help): &(&str, &str)| {
        let family = Family {
            name: (*name).into(),
            metric_type: MetricType::Gauge,
            help: (*help).into(),
            ..Family::default()
        };
        (LabelSet::new([(METRIC_NAME, *name)]), family)
    };
    COLUMNS[..count].iter().map(column).collect()
}

impl Report {
    /// Sets the synthetic columns of a round.
    pub(crate) fn set(&self, frame: &mut Frame, extra: bool) {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let values = [
            f64::from(u8::from(self.up)),
            self.duration_seconds,
            self.samples as f64,
            self.samples_kept as f64,
            self.series_added as f64,
            self.timeout_seconds,
            self.sample_limit as f64,
            self.body_bytes as f64,
        ];
        let count = count(extra);
        for (column, value) in (0u32..).zip(&values[..count]) {
            frame.set(ColumnId(column), *value);
        }
    }
}
