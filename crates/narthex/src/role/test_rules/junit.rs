//! Results of tests as JUnit's XML, in the form promtool writes.
//!
//! **Invariant:** whatever a text contains, the document is well-formed.

use super::Suite;
use narthex_model::date;
use narthex_tsdb::{Clock as _, SystemClock};
use std::fmt::Write as _;

/// Returns the document for all files.
pub(super) fn document(suites: &[Suite]) -> String {
    let mut out = "<testsuites>".to_owned();
    for suite in suites {
        let tests = suite.cases.len();
        let failures: usize = suite.cases.iter().map(|case| case.failures.len()).sum();
        let errors = usize::from(!suite.errors.is_empty());
        let now = date::rfc3339(SystemClock.now_ms());
        let (name, time) = (escaped(&suite.name), now.get(..19).unwrap_or_default());
        // A file that cannot be read counts as one test.
        let tests = tests + errors;
        let _ = write!(
            out,
            "<testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" \
             skipped=\"0\" timestamp=\"{time}\">"
        );
        if errors > 0 {
            let text = escaped(&suite.errors.join("\n"));
            let _ = write!(
                out,
                "<testcase name=\"unknown\"><error>{text}</error></testcase>"
            );
        }
        for case in &suite.cases {
            let _ = write!(out, "<testcase name=\"{}\">", escaped(&case.name));
            for failure in &case.failures {
                let _ = write!(out, "<failure>{}</failure>", escaped(failure));
            }
            out.push_str("</testcase>");
        }
        out.push_str("</testsuite>");
    }
    out + "</testsuites>"
}

/// Escapes a text for elements and attributes; what XML cannot hold becomes U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '\t' => out.push_str("&#x9;"),
            '\n' => out.push_str("&#xA;"),
            '\r' => out.push_str("&#xD;"),
            '\u{0}'..' ' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::test_rules::Case;

    #[test]
    fn texts_are_escaped_and_counted() {
        let case = |name: &str, failures: &[&str]| Case {
            name: name.to_owned(),
            failures: failures.iter().map(ToString::to_string).collect(),
        };
        let run = Suite {
            name: "a\"b.yml".to_owned(),
            cases: vec![case("one", &[]), case("<2>", &["x\n\u{1}&", "y"])],
            ..Suite::default()
        };
        let invalid = Suite {
            name: "c.yml".to_owned(),
            errors: vec!["no".to_owned(), "never".to_owned()],
            ..Suite::default()
        };
        let shown = document(&[run, invalid]);
        for part in [
            "<testsuites><testsuite name=\"a&#34;b.yml\" tests=\"2\" failures=\"2\" errors=\"0\" skipped=\"0\" timestamp=\"20",
            "<testcase name=\"one\"></testcase><testcase name=\"&lt;2&gt;\"><failure>x&#xA;\u{fffd}&amp;</failure><failure>y</failure></testcase></testsuite>",
            "<testsuite name=\"c.yml\" tests=\"1\" failures=\"0\" errors=\"1\"",
            "<testcase name=\"unknown\"><error>no&#xA;never</error></testcase></testsuite></testsuites>",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }
}
