//! Label matchers: `=`, `!=`, `=~`, `!~`.
//!
//! **Invariant:** a regular expression matches the whole value and `.` matches newlines, as Prometheus anchors
//! its patterns `^(?s:…)$`. A missing label matches as the empty string.

pub use crate::pattern::PatternError;

use crate::pattern::{CompileError, Pattern, Patterns};
use std::{fmt, sync::Arc};

crate::named! {
    /// How a matcher compares.
    #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
    pub enum MatchOp {
        /// `=`: the value is exactly this.
        Equal = "=",
        /// `!=`: the value is anything but this.
        NotEqual = "!=",
        /// `=~`: the whole value matches the pattern.
        Regex = "=~",
        /// `!~`: the whole value does not match the pattern.
        NotRegex = "!~",
    }
}

/// One condition on one label's value.
#[derive(Clone)]
pub struct Matcher {
    /// The label's name.
    pub name: Box<str>,
    /// The operator.
    pub op: MatchOp,
    /// The value or the pattern, as written.
    pub value: Box<str>,
    pattern: Option<Arc<Pattern>>,
}

impl Matcher {
    /// Builds a matcher, compiling the pattern of `=~` and `!~`.
    ///
    /// # Errors
    /// Fails when the pattern is not valid in Go's syntax or exceeds a bound of [`Pattern`].
    pub fn new(op: MatchOp, name: &str, value: &str) -> Result<Self, PatternError> {
        Self::compiled(op, name, value, Pattern::matcher)
    }

    /// Like `new`, with a pattern of a call that is leased from its budget.
    ///
    /// # Errors
    /// As `new`; also over budget and when stopped.
    pub fn within(
        op: MatchOp,
        name: &str,
        value: &str,
        patterns: &Patterns,
    ) -> Result<Self, CompileError> {
        Self::compiled(op, name, value, |value| patterns.matcher(value))
    }

    fn compiled<E>(
        op: MatchOp,
        name: &str,
        value: &str,
        compile: impl FnOnce(&str) -> Result<Pattern, E>,
    ) -> Result<Self, E> {
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(Arc::new(compile(value)?)),
        };
        Ok(Self {
            name: name.into(),
            op,
            value: value.into(),
            pattern,
        })
    }

    /// Builds the matcher `name="value"`.
    #[must_use]
    pub fn equal(name: &str, value: &str) -> Self {
        Self {
            name: name.into(),
            op: MatchOp::Equal,
            value: value.into(),
            pattern: None,
        }
    }

    /// Reports whether a label value satisfies the matcher; pass the empty string for a missing label.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        match (self.op, &self.pattern) {
            (MatchOp::Equal, _) => value == &*self.value,
            (MatchOp::NotEqual, _) => value != &*self.value,
            (MatchOp::Regex, Some(pattern)) => pattern.is_match(value),
            (MatchOp::NotRegex, Some(pattern)) => !pattern.is_match(value),
            (MatchOp::Regex | MatchOp::NotRegex, None) => {
                unreachable!("a pattern operator has its pattern")
            }
        }
    }

    /// Reports whether a series without the label satisfies the matcher.
    #[must_use]
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }

    /// Returns the only values a positive matcher can accept, when they can be enumerated.
    ///
    /// `=` lists one; `=~"a|b|c"` lists three. Negative matchers and open patterns give `None`.
    #[must_use]
    pub fn accepted_values(&self) -> Option<Vec<&str>> {
        match (self.op, &self.pattern) {
            (MatchOp::Equal, _) => Some(vec![&*self.value]),
            (MatchOp::Regex, Some(pattern)) => pattern
                .exact()
                .map(|all| all.iter().map(String::as_str).collect()),
            _ => None,
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.name == other.name && self.value == other.value
    }
}

impl Eq for Matcher {}

impl std::hash::Hash for Matcher {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.op, &self.name, &self.value).hash(state);
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Matcher {
    /// Writes `name=~"value"` as PromQL prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::labels::write_name(f, &self.name)?;
        f.write_str(self.op.as_str())?;
        crate::labels::write_quoted(f, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> Matcher {
        Matcher::new(MatchOp::Regex, "l", pattern).unwrap()
    }

    #[test]
    fn patterns_are_anchored_and_span_lines() {
        assert!(regex("a.c").matches("a\nc"));
        assert!(!regex("a.c").matches("xabc"));
        assert!(regex("a|bc").matches("bc"));
        assert!(!regex("a|bc").matches("b"));
        assert!(regex("").matches_empty());
        assert!(regex("x*").matches_empty());
    }

    #[test]
    fn literal_sets_are_listed() {
        assert_eq!(regex("a|b|").accepted_values(), Some(vec!["a", "b", ""]));
        assert_eq!(regex("a.|b").accepted_values(), None);
        assert_eq!(Matcher::equal("l", "v").accepted_values(), Some(vec!["v"]));
        assert_eq!(
            Matcher::new(MatchOp::NotRegex, "l", "a|b")
                .unwrap()
                .accepted_values(),
            None
        );
    }

    #[test]
    fn a_bad_pattern_is_named() {
        let error = Matcher::new(MatchOp::Regex, "l", "a(").unwrap_err();
        assert_eq!(
            error.to_string(),
            "error parsing regexp: missing closing ): `a(`"
        );
    }
}
