//! `narthex check metrics`: reads a page of metrics and reports errors and unusual names.
//!
//! **Invariant:** exit codes are promtool's: 0 for a good page, 1 for a malformed one, 3 for advice only.

use narthex_expfmt::{Format, check, lint};
use std::io::{self, Read, Write};

/// The page is malformed.
const BROKEN: u8 = 1;
/// The page is valid, but does not follow the conventions.
const ADVISED: u8 = 3;
/// Longest page that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// Checks the page from `input`, writes the findings to `out` and returns the exit code.
///
/// # Errors
/// Fails when the page cannot be read or the output cannot be written.
pub(crate) fn run(input: impl Read, out: &mut dyn Write) -> io::Result<u8> {
    let mut body = Vec::new();
    input.take(LONGEST).read_to_end(&mut body)?;
    let format = Format::sniff(&body);
    let problems = check(format, &body);
    for problem in &problems {
        writeln!(out, "error while linting: {problem}")?;
    }
    if !problems.is_empty() {
        return Ok(BROKEN);
    }
    let lints = lint(format, &body).unwrap_or_default();
    for advice in &lints {
        writeln!(out, "{advice}")?;
    }
    Ok(if lints.is_empty() { 0 } else { ADVISED })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(page: &str) -> (u8, String) {
        let mut out = Vec::new();
        let code = run(page.as_bytes(), &mut out).unwrap();
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn pages_are_checked_as_promtool_does() {
        let good = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n";
        assert_eq!(checked(good), (0, String::new()));
        assert_eq!(
            checked("# HELP a A.\n# TYPE a counter\na 1\n"),
            (
                3,
                "a counter metrics should have \"_total\" suffix\n".to_owned()
            )
        );
        let broken = "error while linting: line 1: not a number: \"one\"\n";
        assert_eq!(checked("a one\n"), (1, broken.to_owned()));
        let marked = "# TYPE a counter\na_total -1\n# EOF\n";
        let broken = "error while linting: line 2: a count or sum below zero\n";
        assert_eq!(checked(marked), (1, broken.to_owned()));
    }
}
