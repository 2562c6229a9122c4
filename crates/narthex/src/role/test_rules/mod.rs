//! `narthex test rules`: runs unit tests of rules as promtool does.
//!
//! **Invariant:** texts and exit codes are promtool's: 0 if every test passes, 1 if one fails or a file is invalid.
//! What promtool leaves out is added in lines of its own: the file's name, and where an expectation is.

mod junit;
mod watch;

use crate::cli::TestFlags;
use narthex_model::Pattern;
use narthex_net::glob::glob;
use narthex_rules::{ParseOptions, RuleFile, TestCase, TestFile, TestOptions, load};
use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

/// A test failed, or a file is invalid.
const FAILED: u8 = 1;

/// Files of tests, and how they are run.
#[derive(Debug)]
pub(crate) struct TestRules {
    pub(crate) flags: TestFlags,
    /// Names of the tests to run; `None` for all.
    pub(crate) run: Option<Pattern>,
    pub(crate) options: TestOptions,
}

/// What became of a file.
#[derive(Debug, Default)]
struct Suite {
    name: String,
    /// Why no test was run; empty if the file is valid.
    errors: Vec<String>,
    cases: Vec<Case>,
    /// Rule files it names, as patterns from here.
    patterns: Vec<String>,
}

/// What became of a test.
#[derive(Debug)]
struct Case {
    name: String,
    failures: Vec<String>,
}

impl Suite {
    fn has_passed(&self) -> bool {
        self.errors.is_empty() && self.cases.iter().all(|case| case.failures.is_empty())
    }
}

/// Runs the tests of all files, writes the results to `out` and `error`, and returns the exit code. Ends only when
/// killed if it watches the files.
///
/// # Errors
/// Fails when the output or the JUnit file cannot be written.
pub(crate) fn run(
    command: &TestRules,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    if command.flags.watch {
        return watch::run(command, out, error);
    }
    let mut suites = Vec::with_capacity(command.flags.files.len());
    for file in &command.flags.files {
        writeln!(out, "Unit Testing:  {}", file.display())?;
        let suite = suite(command, file, error)?;
        if suite.has_passed() {
            writeln!(out, "  SUCCESS")?;
        } else {
            write_failures(&suite, error)?;
        }
        writeln!(out)?;
        suites.push(suite);
    }
    write_junit(command, &suites)?;
    let has_passed = suites.iter().all(Suite::has_passed);
    Ok(if has_passed { 0 } else { FAILED })
}

fn write_failures(suite: &Suite, error: &mut dyn Write) -> io::Result<()> {
    writeln!(error, "  FAILED:")?;
    let failures = suite.cases.iter().flat_map(|case| &case.failures);
    for text in suite.errors.iter().chain(failures) {
        writeln!(error, "{text}\n")?;
    }
    Ok(())
}

fn write_junit(command: &TestRules, suites: &[Suite]) -> io::Result<()> {
    match &command.flags.junit {
        Some(path) => fs::write(path, junit::document(suites)),
        None => Ok(()),
    }
}

/// Runs the tests of a file; `error` gets warnings and what `--debug` asks for.
fn suite(command: &TestRules, path: &Path, error: &mut dyn Write) -> io::Result<Suite> {
    let shown = path.display().to_string();
    let mut suite = Suite {
        name: shown.clone(),
        ..Suite::default()
    };
    let file = match read(path) {
        Ok(file) => file,
        Err(errors) => {
            suite.errors = errors;
            return Ok(suite);
        }
    };
    suite.patterns = patterns(path, &file);
    let rule_files = match expand(&suite.patterns, error)? {
        Ok(files) => files,
        Err(reason) => {
            suite.errors.push(format!("{shown}: {reason}"));
            return Ok(suite);
        }
    };
    let rules = load_rules(command, &rule_files);
    for (at, case) in file.tests.iter().enumerate() {
        let is_wanted = command
            .run
            .as_ref()
            .is_none_or(|run| run.is_match(&case.name));
        if !is_wanted {
            continue;
        }
        let name = match &*case.name {
            "" => format!("unnamed#{at}"),
            name => name.to_owned(),
        };
        let failures = match &rules {
            Ok(rules) => test(command, (&shown, &file), (&name, case), rules, error)?,
            Err(errors) => errors.clone(),
        };
        suite.cases.push(Case { name, failures });
    }
    Ok(suite)
}

/// Runs one test; returns what is not as expected.
fn test(
    command: &TestRules,
    (path, file): (&str, &TestFile),
    (name, case): (&str, &TestCase),
    rules: &[(String, RuleFile)],
    error: &mut dyn Write,
) -> io::Result<Vec<String>> {
    let debug = command.options.debug;
    if debug {
        writeln!(error, "DEBUG: Starting test {name}")?;
    }
    let begin = Instant::now();
    let outcome = file.run(case, rules, command.options);
    if let Some(samples) = outcome.samples {
        writeln!(error, "{}", samples.trim_end())?;
    }
    if debug {
        let took = took(begin);
        writeln!(error, "DEBUG: Test {name} finished, took {took:?}")?;
    }
    let failures = outcome.failures.into_iter().map(|failure| {
        let place = failure
            .place
            .map(|place| format!("\n        at: {path}:{place}"));
        failure.text + &place.unwrap_or_default()
    });
    Ok(failures.collect())
}

/// Returns the time since `begin` in whole microseconds.
fn took(begin: Instant) -> Duration {
    Duration::from_micros(u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX))
}

fn read(path: &Path) -> Result<TestFile, Vec<String>> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| vec![format!("{shown}: {error}")])?;
    TestFile::parse(&text).map_err(|errors| {
        let texts = errors.iter().map(|error| format!("{shown}: {error}"));
        texts.collect()
    })
}

/// Returns the patterns of rule files, from here rather than from the test file.
fn patterns(path: &Path, file: &TestFile) -> Vec<String> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let patterns = file.rule_files.iter();
    patterns
        .map(|pattern| match &**pattern {
            "" => String::new(),
            pattern => directory.join(pattern).display().to_string(),
        })
        .collect()
}

/// Returns the files that match; warns of patterns that nothing matches.
fn expand(patterns: &[String], error: &mut dyn Write) -> io::Result<Result<Vec<String>, String>> {
    let mut files = Vec::new();
    for pattern in patterns {
        match glob(pattern) {
            Ok(found) if found.is_empty() => {
                writeln!(error, "  WARNING: no file match pattern {pattern}")?;
            }
            Ok(found) => files.extend(found),
            Err(reason) => return Ok(Err(format!("{reason}: {pattern}"))),
        }
    }
    Ok(Ok(files))
}

/// Reads rule files, each once.
///
/// # Errors
/// Fails with all errors of the first invalid file.
fn load_rules(
    command: &TestRules,
    files: &[String],
) -> Result<Vec<(String, RuleFile)>, Vec<String>> {
    let options = ParseOptions {
        ignore_unknown_fields: command.flags.ignore_unknown_fields,
        language: narthex_promql::ParseOptions {
            unquoted_utf8_names: command.options.unquoted_utf8_names,
            ..narthex_promql::ParseOptions::default()
        },
        ..ParseOptions::default()
    };
    let mut rules: Vec<(String, RuleFile)> = Vec::with_capacity(files.len());
    for path in files {
        if rules.iter().any(|(known, _)| known == path) {
            continue;
        }
        let file = load(Path::new(path), options).map_err(|errors| -> Vec<String> {
            let texts = errors.iter().map(|error| format!("{path}: {error}"));
            texts.collect()
        })?;
        rules.push((path.clone(), file));
    }
    Ok(rules)
}
