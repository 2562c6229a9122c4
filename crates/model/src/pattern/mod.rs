//! Regular expressions as Go's `regexp` reads them, for matchers, relabelling and `label_replace`.
//!
//! A pattern is parsed by our own parser for Go's syntax and handed to the `regex` crate in a form in which nothing
//! depends on that crate's own ideas: classes are spelled out, flags are resolved, groups are numbered.
//!
//! **Invariant:** what Go accepts is accepted with Go's meaning, what Go refuses is refused in Go's words. The
//! exceptions are bounds: patterns whose groups nest deeper than 200 or whose program exceeds 10 MiB are refused.

mod class;
mod exact;
mod expand;
mod names;
mod parse;
#[cfg(test)]
mod tests;

pub use expand::Template;

use parse::{Flags, Translation};
use std::{error::Error, fmt, sync::OnceLock};

/// The largest compiled form of one pattern; a bound, since patterns come from outside.
const PROGRAM_LIMIT_BYTES: usize = 10 << 20;

/// The longest translated set of words that surely compiles within the limit, so that compiling it can wait.
const LAZY_LIMIT_BYTES: usize = 64 << 10;

/// Deepest nesting of the translated text: four levels for each of Go's groups, and a few around everything.
const NEST_LIMIT: u32 = 4 * parse::MAX_DEPTH as u32 + 16;

/// A compiled pattern.
pub struct Pattern {
    source: Box<str>,
    /// The name of each group, the whole match first.
    names: Vec<Option<Box<str>>>,
    exact: Option<exact::Words>,
    /// Translated text, compiled when first needed if a set of words does for matching.
    translated: Box<str>,
    program: OnceLock<regex::Regex>,
}

/// A pattern that does not compile.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PatternError {
    /// The part that is wrong.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl PatternError {
    fn new(reason: &'static str, pattern: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            reason,
        }
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "error parsing regexp: {}: `{}`",
            self.reason, self.pattern
        )
    }
}

impl Error for PatternError {}

impl Pattern {
    /// Compiles `source` as it stands: it matches anywhere in a text.
    ///
    /// # Errors
    /// Fails when the pattern is none or beyond a bound.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let mut translation = parse::translate(source, Flags::default())?;
        translation.exact = translation.exact.filter(|_| translation.anchored);
        Self::build(source, translation)
    }

    /// Compiles `^(?s:source)$`, the form of relabelling rules and of `label_replace`.
    ///
    /// The anchors are put around the text, as Prometheus does, so errors quote them.
    ///
    /// # Errors
    /// Fails when the pattern is none or beyond a bound.
    pub fn anchored(source: &str) -> Result<Self, PatternError> {
        let mut translation = parse::translate(&format!("^(?s:{source})$"), Flags::default())?;
        // Not always so: `a)|(b` closes the group that is around it.
        translation.exact = translation.exact.filter(|_| translation.anchored);
        Self::build(source, translation)
    }

    /// Compiles the pattern of a label matcher: `source` on its own, matching a whole value, `.` matching newlines.
    ///
    /// # Errors
    /// Fails when the pattern is none or beyond a bound.
    pub fn matcher(source: &str) -> Result<Self, PatternError> {
        let flags = Flags {
            dot_newline: true,
            ..Flags::default()
        };
        let mut translation = parse::translate(source, flags)?;
        translation.text = format!(r"\A(?:{})\z", translation.text);
        Self::build(source, translation)
    }

    fn build(source: &str, translation: Translation) -> Result<Self, PatternError> {
        let Translation {
            text, names, exact, ..
        } = translation;
        let pattern = Self {
            source: source.into(),
            names,
            exact: exact.map(exact::Words::new),
            translated: text.into(),
            program: OnceLock::new(),
        };
        if pattern.exact.is_none() || pattern.translated.len() > LAZY_LIMIT_BYTES {
            let program = compile(&pattern.translated)
                .ok_or_else(|| PatternError::new("expression too large", source))?;
            // Nobody else holds the pattern yet.
            let _ = pattern.program.set(program);
        }
        Ok(pattern)
    }

    /// Returns the pattern as written, without anchors.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Reports whether `text` matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        match &self.exact {
            Some(words) => words.contains(text),
            None => self.program().is_match(text),
        }
    }

    /// Returns the only texts that match, when they can be listed.
    #[must_use]
    pub fn exact(&self) -> Option<&[String]> {
        self.exact.as_ref().map(exact::Words::all)
    }

    /// Matches `text` and returns `template` filled in with what the groups matched; `None` without a match.
    #[must_use]
    pub fn expand(&self, text: &str, template: &Template) -> Option<String> {
        let captures = self.program().captures(text)?;
        Some(template.fill(&self.names, &captures))
    }

    /// Matches `text` once and fills in several templates; `None` without a match.
    #[must_use]
    pub fn expand_all<const N: usize>(
        &self,
        text: &str,
        templates: [&Template; N],
    ) -> Option<[String; N]> {
        let captures = self.program().captures(text)?;
        Some(templates.map(|template| template.fill(&self.names, &captures)))
    }

    /// Returns `text` with every match replaced by the filled-in `template`.
    #[must_use]
    pub fn replace_all(&self, text: &str, template: &Template) -> String {
        let fill = |captures: &regex::Captures<'_>| template.fill(&self.names, captures);
        self.program().replace_all(text, fill).into_owned()
    }

    fn program(&self) -> &regex::Regex {
        self.program.get_or_init(|| {
            compile(&self.translated).expect("a bounded set of words fits into a program")
        })
    }
}

fn compile(translated: &str) -> Option<regex::Regex> {
    regex::RegexBuilder::new(translated)
        .size_limit(PROGRAM_LIMIT_BYTES)
        .nest_limit(NEST_LIMIT)
        .build()
        .ok()
}

impl PartialEq for Pattern {
    /// Compares texts: patterns of the same text in the same place mean the same.
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.translated == other.translated
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}

/// Compiles any text and matches with it; for fuzzing: no input may panic.
pub fn fuzz_pattern(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (source, subject) = text.split_at(text.floor_char_boundary(text.len() / 2));
    for pattern in [
        Pattern::new(source),
        Pattern::anchored(source),
        Pattern::matcher(source),
    ]
    .into_iter()
    .flatten()
    {
        let matched = pattern.is_match(subject);
        assert_eq!(
            matched,
            pattern.program().is_match(subject),
            "a listed set matches what its program matches: {source:?} on {subject:?}"
        );
        let _ = pattern.expand(subject, &Template::parse(source));
    }
}
