//! Device, mount and field filters, compiled once.
//!
//! Invariant: a filter is evaluated once per name; callers store the result beside the name.

use regex::bytes::{Regex, RegexBuilder};

use crate::error::HostError;

/// Keeps names that match the include pattern, if any, and do not match the exclude pattern, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    include: Option<Regex>,
    exclude: Option<Regex>,
}

impl Filter {
    /// Compiles both patterns; each comes with its flag's name.
    pub(crate) fn new(
        include: (&'static str, Option<&str>),
        exclude: (&'static str, Option<&str>),
    ) -> Result<Self, HostError> {
        let compile_given = |(flag, pattern): (&'static str, Option<&str>)| {
            pattern.map(|p| compile(flag, p)).transpose()
        };
        Ok(Self {
            include: compile_given(include)?,
            exclude: compile_given(exclude)?,
        })
    }

    pub(crate) fn keeps(&self, name: &[u8]) -> bool {
        !self.exclude.as_ref().is_some_and(|re| re.is_match(name))
            && self.include.as_ref().is_none_or(|re| re.is_match(name))
    }
}

/// Compiles `pattern` with ASCII classes, as Go's regexp treats `\d`, `\w` and `\s`; a pattern with other characters in
/// a class gets Unicode ones.
pub(crate) fn compile(flag: &'static str, pattern: &str) -> Result<Regex, HostError> {
    let build = |unicode| RegexBuilder::new(pattern).unicode(unicode).build();
    build(false)
        .or_else(|_| build(true))
        .map_err(|source| HostError::Pattern {
            flag,
            source: Box::new(source),
        })
}
