//! Runs tests again when their files change.
//!
//! **Invariant:** no change is missed, whenever it happens: what later looks are compared with is taken before a run.

use super::{Suite, TestRules, patterns, read, suite, write_failures, write_junit};
use narthex_net::glob::glob;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_millis(300);

/// A file, and what shows that it changed; `None` if it is not there.
type Stamp = (PathBuf, Option<(SystemTime, u64)>);

/// Runs all tests, and again after each change, until the output is closed.
pub(super) fn run(
    command: &TestRules,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    loop {
        let before = look(&command.flags.files);
        let begin = Instant::now();
        let mut suites = Vec::with_capacity(command.flags.files.len());
        for file in &command.flags.files {
            suites.push(suite(command, file, error)?);
        }
        for suite in suites.iter().filter(|suite| !suite.has_passed()) {
            writeln!(error, "Unit Testing:  {}", suite.name)?;
            write_failures(suite, error)?;
        }
        write_junit(command, &suites)?;
        writeln!(out, "{}", summary(&suites, begin.elapsed()))?;
        out.flush()?;
        while look(&command.flags.files) == before {
            thread::sleep(INTERVAL);
        }
    }
}

/// Looks at the test files and the rule files that they name.
fn look(files: &[PathBuf]) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    for path in files {
        stamps.push(stamp(path));
        let named = read(path).map(|file| patterns(path, &file));
        for pattern in named.unwrap_or_default() {
            let found = glob(&pattern).unwrap_or_default();
            stamps.extend(found.iter().map(|path| stamp(Path::new(path))));
        }
    }
    stamps
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok();
    let seen = metadata.and_then(|metadata| Some((metadata.modified().ok()?, metadata.len())));
    (path.to_owned(), seen)
}

/// Formats the results of a run in one line.
fn summary(suites: &[Suite], took: Duration) -> String {
    let count = |number: usize, what: &str| {
        let s = if number == 1 { "" } else { "s" };
        format!("{number} {what}{s}")
    };
    let cases = || suites.iter().flat_map(|suite| &suite.cases);
    let failed = cases().filter(|case| !case.failures.is_empty()).count();
    let invalid = suites
        .iter()
        .filter(|suite| !suite.errors.is_empty())
        .count();
    let outcome = match (failed, invalid) {
        (0, 0) => "SUCCESS".to_owned(),
        (failed, 0) => format!("FAILED: {}", count(failed, "test")),
        (0, invalid) => format!("FAILED: {} invalid", count(invalid, "file")),
        (failed, invalid) => {
            let failed = count(failed, "test");
            format!("FAILED: {failed}, {} invalid", count(invalid, "file"))
        }
    };
    let (files, tests) = (count(suites.len(), "file"), count(cases().count(), "test"));
    format!("{outcome} ({files}, {tests}, {:.1} s)", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::test_rules::Case;

    #[test]
    fn runs_are_summed_up_in_a_line() {
        let suite = |errors: &[&str], failures: &[&str]| Suite {
            errors: errors.iter().map(ToString::to_string).collect(),
            cases: vec![Case {
                name: "a".to_owned(),
                failures: failures.iter().map(ToString::to_string).collect(),
            }],
            ..Suite::default()
        };
        let shown = |suites: &[Suite]| summary(suites, Duration::from_millis(1240));
        assert_eq!(shown(&[suite(&[], &[])]), "SUCCESS (1 file, 1 test, 1.2 s)");
        assert_eq!(
            shown(&[suite(&[], &["x", "y"]), suite(&[], &[])]),
            "FAILED: 1 test (2 files, 2 tests, 1.2 s)"
        );
        assert_eq!(
            shown(&[suite(&["x"], &[])]),
            "FAILED: 1 file invalid (1 file, 1 test, 1.2 s)"
        );
        assert_eq!(
            shown(&[suite(&["x"], &[]), suite(&[], &["y"]), suite(&[], &["z"])]),
            "FAILED: 2 tests, 1 file invalid (3 files, 3 tests, 1.2 s)"
        );
    }
}
