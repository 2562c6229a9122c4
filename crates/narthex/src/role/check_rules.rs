//! `narthex check rules`: reads rule files as Prometheus would and reports every error and repeated rules.
//!
//! **Invariant:** texts and exit codes are promtool's: 0 if all files are valid, 1 if one is not, 3 if only lint found
//! something and `--lint-fatal` is set.

use crate::cli::RulesFlags;
use narthex_rules::{Duplicate, ParseOptions, RuleError, RuleFile, duplicates, load, parse};
use std::{
    io::{self, Read, Write},
    path::PathBuf,
};

/// A file is invalid.
const FAILED: u8 = 1;
/// Lint found something.
const LINTED: u8 = 3;
/// Longest text that is read from standard input, in bytes.
const LONGEST: u64 = 1 << 30;

/// Files to check, and options.
#[derive(Debug)]
pub(crate) struct CheckRules {
    pub(crate) flags: RulesFlags,
    /// Names in `--lint` that are unknown.
    pub(crate) unknown_lints: Vec<String>,
    pub(crate) lints: RuleLints,
}

/// What is looked for in rule files beside errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RuleLints {
    /// Whether repeated rules are reported.
    pub(crate) duplicate_rules: bool,
    /// Whether unknown keys are skipped.
    pub(crate) ignore_unknown_fields: bool,
}

/// What checks found so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) failed: bool,
    pub(crate) linted: bool,
}

impl Findings {
    /// Returns the exit code.
    pub(crate) fn code(self, lint_fatal: bool) -> u8 {
        match (self.failed, self.linted && lint_fatal) {
            (true, _) => FAILED,
            (false, true) => LINTED,
            (false, false) => 0,
        }
    }
}

/// Checks all files, writes the findings to `out` and `error`, and returns the exit code.
///
/// # Errors
/// Fails when standard input cannot be read or the output cannot be written.
pub(crate) fn run(
    check: &CheckRules,
    input: impl Read,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    for lint in &check.unknown_lints {
        writeln!(out, "WARNING: unknown lint option: {lint:?}")?;
    }
    let mut findings = Findings::default();
    let RulesFlags {
        files, lint_fatal, ..
    } = &check.flags;
    if !files.is_empty() {
        check_files(files, check.lints, &mut findings, out, error)?;
        return Ok(findings.code(*lint_fatal));
    }
    writeln!(out, "Checking standard input")?;
    let mut text = String::new();
    let read = input.take(LONGEST).read_to_string(&mut text);
    let parsed = match read {
        Ok(_) => parse(&text, options(check.lints)),
        Err(error) => Err(vec![RuleError::Read(error)]),
    };
    report(parsed, "", check.lints, &mut findings, out, error)?;
    Ok(findings.code(*lint_fatal))
}

/// Checks files, and adds what is found to `findings`.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn check_files(
    files: &[PathBuf],
    lints: RuleLints,
    findings: &mut Findings,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<()> {
    for file in files {
        let shown = file.display();
        writeln!(out, "Checking {shown}")?;
        let parsed = load(file, options(lints));
        report(parsed, &format!("{shown}: "), lints, findings, out, error)?;
    }
    Ok(())
}

fn options(lints: RuleLints) -> ParseOptions {
    ParseOptions {
        ignore_unknown_fields: lints.ignore_unknown_fields,
        ..ParseOptions::default()
    }
}

/// Writes what is wrong with one file, or how many rules it has.
fn report(
    parsed: Result<RuleFile, Vec<RuleError>>,
    prefix: &str,
    lints: RuleLints,
    findings: &mut Findings,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<()> {
    let file = match parsed {
        Ok(file) => file,
        Err(errors) => {
            findings.failed = true;
            writeln!(error, "  FAILED:")?;
            return errors
                .iter()
                .try_for_each(|one| writeln!(error, "{prefix}{one}"));
        }
    };
    for warning in &file.warnings {
        writeln!(out, "  WARNING: {warning}")?;
    }
    let repeated = if lints.duplicate_rules {
        duplicates(&file.groups)
    } else {
        Vec::new()
    };
    if repeated.is_empty() {
        let rules: usize = file.groups.iter().map(|group| group.rules.len()).sum();
        writeln!(out, "  SUCCESS: {rules} rules found")?;
    } else {
        findings.linted = true;
        write_duplicates(&repeated, error)?;
    }
    writeln!(out)
}

fn write_duplicates(repeated: &[Duplicate], error: &mut dyn Write) -> io::Result<()> {
    let count = repeated.len();
    writeln!(error, "  FAILED:")?;
    writeln!(error, "lint error {count} duplicate rule(s) found.")?;
    for Duplicate { name, labels } in repeated {
        writeln!(error, "Metric: {name}\nLabel(s):")?;
        for (name, value) in labels {
            writeln!(error, "\t{name}: {value}")?;
        }
    }
    writeln!(
        error,
        "Might cause inconsistency while recording expressions"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_is_checked_without_a_name() {
        let check = CheckRules {
            flags: RulesFlags {
                lint: "shape".to_owned(),
                lint_fatal: true,
                ignore_unknown_fields: false,
                files: Vec::new(),
            },
            unknown_lints: vec!["shape".to_owned()],
            lints: RuleLints::default(),
        };
        let run = |text: &str| {
            let (mut out, mut error) = (Vec::new(), Vec::new());
            let code = run(&check, text.as_bytes(), &mut out, &mut error).unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (code, text(out), text(error))
        };
        let head = "WARNING: unknown lint option: \"shape\"\nChecking standard input\n";
        let rule = "{record: a, expr: 1}";
        assert_eq!(
            run(&format!("groups: [{{name: g, rules: [{rule}, {rule}]}}]")),
            (
                0,
                format!("{head}  SUCCESS: 2 rules found\n\n"),
                String::new()
            )
        );
        assert_eq!(
            run("groups: [{name: g, rules: [{record: a, expr: 1 +}]}]"),
            (
                1,
                head.to_owned(),
                "  FAILED:\n1:46: group \"g\", rule 1, \"a\": could not parse expression: 1:4: parse error: unexpected end of input\n"
                    .to_owned()
            )
        );
    }
}
