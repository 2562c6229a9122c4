//! The names of `--enable-feature`.
//!
//! **Invariant:** every name that Prometheus 3.16 knows is listed, with what it does here.

/// What a feature's name does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Support {
    /// Switches the feature on.
    Honoured,
    /// The feature is always there.
    Always,
    /// Nothing, for this reason.
    WithoutEffect(&'static str),
    /// The feature is not there; the text says what is instead.
    Missing(&'static str),
}

/// Feature that reloads the configuration when its files change.
pub(crate) const AUTO_RELOAD: &str = "auto-reload-config";
/// Feature that has rules of a group evaluated at once.
pub(crate) const CONCURRENT_RULES: &str = "concurrent-rule-eval";
/// Feature that adds series about each scrape.
pub(crate) const EXTRA_SCRAPE_METRICS: &str = "extra-scrape-metrics";
/// Feature that drops metric names at the end of a query.
pub(crate) const DELAYED_NAME_REMOVAL: &str = "promql-delayed-name-removal";
/// Feature that makes `stats=all` show each step.
pub(crate) const PER_STEP_STATS: &str = "promql-per-step-stats";
/// Feature that limits and estimates what queries cost.
pub(crate) const QUERY_COST: &str = "query-cost";
/// Feature that adds the calls for searching names.
pub(crate) const SEARCH: &str = "search-api";
/// Feature that stores when scraped counters began.
pub(crate) const START_STORAGE: &str = "st-storage";
/// Feature that stores zeros where scraped counters began.
pub(crate) const START_ZEROS: &str = "created-timestamp-zero-ingestion";
/// Feature that stores the types and units of series as labels.
pub(crate) const TYPE_AND_UNIT_LABELS: &str = "type-and-unit-labels";
/// Feature that takes letters of any script and dots in names without quotes.
pub(crate) const UNQUOTED_UTF8_NAMES: &str = "promql-unquoted-utf8-names";
/// Feature that has rates use start times of counters.
pub(crate) const USE_START_TIMESTAMPS: &str = "use-start-timestamps";

/// Feature that asks targets for zstd.
pub(crate) const ZSTD_SCRAPE: &str = "zstd-scrape";

const NO_OTLP: Support = Support::Missing("OTLP is not received");
const OWN_FORMAT: Support = Support::WithoutEffect("storage has chunks of its own");

/// All names, sorted.
pub(crate) const FEATURES: [(&str, Support); 32] = [
    (AUTO_RELOAD, Support::Honoured),
    (CONCURRENT_RULES, Support::Honoured),
    (START_ZEROS, Support::Honoured),
    (
        "delayed-compaction",
        Support::WithoutEffect("blocks are written a little at a time"),
    ),
    ("exemplar-storage", Support::Always),
    (EXTRA_SCRAPE_METRICS, Support::Honoured),
    ("fast-startup", Support::Always),
    ("histograms-st-encoding", OWN_FORMAT),
    (
        "memory-snapshot-on-shutdown",
        Support::WithoutEffect("the log is replayed by copying"),
    ),
    ("metadata-wal-records", Support::Always),
    ("native-histograms", Support::Always),
    ("old-ui", Support::WithoutEffect("there is one page")),
    ("ooo-native-histograms", Support::Always),
    (
        "openmetrics2",
        Support::Missing("OpenMetrics 2.0 is passed over"),
    ),
    ("otlp-deltatocumulative", NO_OTLP),
    ("otlp-native-delta-ingestion", NO_OTLP),
    ("promql-binop-fill-modifiers", Support::Always),
    (DELAYED_NAME_REMOVAL, Support::Honoured),
    ("promql-duration-expr", Support::Always),
    ("promql-experimental-functions", Support::Always),
    ("promql-extended-range-selectors", Support::Always),
    (PER_STEP_STATS, Support::Honoured),
    (UNQUOTED_UTF8_NAMES, Support::Honoured),
    (QUERY_COST, Support::Honoured),
    (SEARCH, Support::Honoured),
    (START_STORAGE, Support::Honoured),
    (
        "st-synthesis",
        Support::Missing("start times are not made up"),
    ),
    (TYPE_AND_UNIT_LABELS, Support::Honoured),
    (USE_START_TIMESTAMPS, Support::Honoured),
    (
        "use-uncached-io",
        Support::WithoutEffect("blocks are written once, in small files"),
    ),
    ("xor2-encoding", OWN_FORMAT),
    (ZSTD_SCRAPE, Support::Honoured),
];

/// Returns what a name does; `None` if it is unknown.
pub(crate) fn support(name: &str) -> Option<Support> {
    let found = FEATURES.iter().find(|(known, _)| *known == name);
    found.map(|(_, support)| *support)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_documented() {
        let names = FEATURES.map(|(name, _)| name);
        assert!(names.is_sorted(), "{names:?}");
        let documented = include_str!("../../../../docs/conformance.md");
        for (name, support) in FEATURES {
            let does = match support {
                Support::Honoured => "as there",
                Support::Always => "always on",
                Support::WithoutEffect(reason) | Support::Missing(reason) => reason,
            };
            let row = documented
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("{name} is not documented"));
            assert!(row.contains(does), "{row}: {does}");
        }
        assert_eq!(support("promql-everything"), None);
    }
}
