//! Flags of `narthex test rules` and `narthex tsdb backfill rules`, which are promtool's.

use super::features::{DELAYED_NAME_REMOVAL, UNQUOTED_UTF8_NAMES};
use crate::role::test_rules::TestRules;
use narthex_cli::{List, UsageError, Values, flags};
use narthex_model::Pattern;
use narthex_rules::TestOptions;
use std::{path::PathBuf, time::Duration};

flags! {
    /// What `test rules` takes.
    #[derive(Debug)]
    pub(crate) struct TestFlags {
        /// Run only tests whose names match this regular expression; may be repeated.
        run: Vec<String> = "run", value("REGEXP");
        /// Show unexpected alerts as a coloured difference.
        diff: bool = "diff";
        /// Say when tests begin and end, and list all samples at the end of each.
        debug: bool = "debug";
        /// Skip unknown keys in rule files instead of rejecting them.
        ignore_unknown_fields: bool = "ignore-unknown-fields";
        /// File to which the results are written in JUnit's XML.
        junit: Option<PathBuf> = "junit";
        /// Run the tests again whenever the files or the rule files they name change, with one line for each run.
        watch: bool = "watch";
        /// Comma-separated feature names; promql-delayed-name-removal and promql-unquoted-utf8-names have an
        /// effect.
        features: List = "enable-feature";
        /// Test files.
        files: Vec<PathBuf> = "test-rule-files", positional();
    }
}

flags! {
    /// What `tsdb backfill rules` takes.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct BackfillOptions {
        /// Time from which on rules are evaluated, in RFC 3339 or seconds since 1970; required.
        start: String = "start";
        /// Time up to which rules are evaluated; by default three hours ago.
        end: String = "end";
        /// URL of the server whose data is queried: Narthex, Prometheus, or another with its API.
        url: String = "url", default("http://localhost:9090");
        /// Data directory to query instead of a server; no server may be using it.
        data_dir: Option<PathBuf> = "data-dir", directory();
        /// File with HTTP client settings.
        http_config: Option<PathBuf> = "http.config.file";
        /// Directory of the new blocks; in a data directory they go among its blocks.
        output_dir: PathBuf = "output-dir", default("data/"), directory();
        /// Interval of groups that name none.
        eval_interval: Duration = "eval-interval", default("60s");
        /// Rule files; their alerting rules are left out.
        files: Vec<PathBuf> = "rule-files", positional();
    }
    without effect {
        "blocks span two hours" => "max-block-duration": Duration;
        "blocks are not listed" => "quiet": bool, "human-readable": bool;
    }
}

/// Reads the values of `tsdb backfill rules`.
///
/// # Errors
/// Fails on the first invalid value, and without a beginning.
pub(crate) fn backfill(values: Values) -> Result<BackfillOptions, UsageError> {
    let options = BackfillOptions::from_values(values)?;
    if options.start.is_empty() {
        return Err(UsageError::Missing { what: "--start" });
    }
    Ok(options)
}

/// Reads the values of `test rules`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn test(values: Values) -> Result<TestRules, UsageError> {
    let flags = TestFlags::from_values(values)?;
    let pattern = flags.run.join("|");
    let run = (!flags.run.is_empty()).then(|| Pattern::new(&pattern));
    let run = run.transpose().map_err(|error| UsageError::Value {
        flag: "--run".to_owned(),
        reason: error.to_string(),
    })?;
    let is_named = |feature: &str| flags.features.0.iter().any(|name| name == feature);
    Ok(TestRules {
        run,
        options: TestOptions {
            delayed_name_removal: is_named(DELAYED_NAME_REMOVAL),
            unquoted_utf8_names: is_named(UNQUOTED_UTF8_NAMES),
            diff: flags.diff,
            debug: flags.debug,
        },
        flags,
    })
}
