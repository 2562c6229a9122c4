//! Flags of `narthex test rules`, which are promtool's.

use crate::role::test_rules::TestRules;
use narthex_cli::{List, UsageError, Values, flags};
use narthex_model::Pattern;
use narthex_rules::TestOptions;
use std::path::PathBuf;

const DELAYED_NAME_REMOVAL: &str = "promql-delayed-name-removal";

flags! {
    /// What `test rules` takes.
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
        /// Comma-separated feature names; promql-delayed-name-removal alone has an effect.
        features: List = "enable-feature";
        /// Test files.
        files: Vec<PathBuf> = "test-rule-files", positional();
    }
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
    Ok(TestRules {
        files: flags.files,
        run,
        options: TestOptions {
            delayed_name_removal: flags.features.0.iter().any(|f| f == DELAYED_NAME_REMOVAL),
            diff: flags.diff,
            debug: flags.debug,
        },
        ignore_unknown_fields: flags.ignore_unknown_fields,
        junit: flags.junit,
        watch: flags.watch,
    })
}
