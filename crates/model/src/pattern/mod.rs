//! Regular expressions with the syntax and meaning of Go's `regexp`, for matchers, relabelling and `label_replace`.
//!
//! Our own parser for Go's syntax translates a pattern for the `regex` crate, into a form that avoids that crate's
//! own interpretations: classes are spelled out, flags are resolved, groups are numbered.
//!
//! **Invariant:** Go's patterns are accepted with Go's meaning, and others rejected with Go's message. The exceptions
//! are bounds: patterns whose groups nest deeper than 200, whose program exceeds 10 MiB, or which would take more
//! than 64 MiB to compile are rejected. The memory for compiling is computed and leased before compiling begins.

mod class;
mod cost;
mod exact;
mod expand;
mod kept;
mod names;
mod parse;
#[cfg(test)]
mod tests;

pub use expand::Template;
pub use kept::{KeptPatterns, Patterns};

use crate::storage::{Budget, Context, Lease, OverBudget, StopReason};
use parse::{Flags, Translation};
use std::{
    error::Error,
    fmt,
    sync::{Arc, OnceLock},
};

/// Largest compiled program of one pattern; patterns come from outside.
const PROGRAM_LIMIT_BYTES: usize = 10 << 20;

/// The longest translated set of words that surely compiles within the limit, so that compiling it can wait.
const LAZY_LIMIT_BYTES: usize = 64 << 10;

/// Memory for parsing a pattern, per byte of its text.
const READ_FACTOR: u64 = 64;

/// Deepest nesting of the translated text: four levels for each of Go's groups, and a few around the whole.
const NEST_LIMIT: u32 = 4 * parse::MAX_DEPTH as u32 + 16;

/// A compiled pattern.
pub struct Pattern {
    text: Arc<PatternText>,
    /// Compiled on first use if a set of words suffices for matching.
    program: OnceLock<regex::Regex>,
    /// Lease for the memory of the pattern, if compiled within a budget.
    _lease: Option<Lease>,
    /// Lease for what the pattern shares with one that is kept.
    _kept: Option<Arc<Lease>>,
}

/// A pattern as it is written and translated.
struct PatternText {
    source: Box<str>,
    /// The name of each group, the whole match first.
    names: Vec<Option<Box<str>>>,
    exact: Option<exact::Words>,
    translated: Box<str>,
    cost_bytes: u64,
}

/// The use of a pattern.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Purpose {
    /// Only matching: a list of all matching texts suffices.
    Matching,
    /// Also extracting groups.
    Expanding,
}

/// An invalid pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PatternError {
    /// The offending part.
    pub pattern: String,
    /// Description of the error.
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

/// Reason why a pattern from outside was not compiled.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CompileError {
    /// The pattern is invalid.
    Invalid(PatternError),
    /// Compiling takes more memory than the budget has.
    OverBudget(OverBudget),
    /// The work was asked to end.
    Stopped(StopReason),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::OverBudget(over) => over.fmt(f),
            Self::Stopped(reason) => reason.fmt(f),
        }
    }
}

impl Error for CompileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::Invalid(error) => error,
            Self::OverBudget(over) => over,
            Self::Stopped(reason) => reason,
        })
    }
}

impl From<PatternError> for CompileError {
    fn from(error: PatternError) -> Self {
        Self::Invalid(error)
    }
}

impl From<OverBudget> for CompileError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<StopReason> for CompileError {
    fn from(reason: StopReason) -> Self {
        Self::Stopped(reason)
    }
}

impl Pattern {
    /// Compiles `source` without anchors: it matches anywhere in a text.
    ///
    /// # Errors
    /// Fails on an invalid or oversized pattern.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let mut translation = parse::translate(source, Flags::default(), true)?;
        translation.exact = translation.exact.filter(|_| translation.anchored);
        Self::build(source, translation, Purpose::Expanding)
    }

    /// Compiles `^(?s:source)$`, the form of relabelling rules and of `label_replace`.
    ///
    /// As in Prometheus, the anchors are added to the text, so errors quote them.
    ///
    /// # Errors
    /// Fails on an invalid or oversized pattern.
    pub fn anchored(source: &str) -> Result<Self, PatternError> {
        Self::build(
            source,
            Self::translate_anchored(source)?,
            Purpose::Expanding,
        )
    }

    /// Like `anchored`, but leases the memory from the budget of `ctx`.
    ///
    /// # Errors
    /// Fails on an invalid or oversized pattern, over budget, and when stopped.
    pub fn anchored_within(source: &str, ctx: &Context) -> Result<Self, CompileError> {
        Self::build_within(source, Self::translate_anchored, Purpose::Expanding, ctx)
    }

    /// Compiles the pattern of a label matcher: `source` on its own, matching a whole value, `.` matching newlines.
    ///
    /// # Errors
    /// Fails on an invalid or oversized pattern.
    pub fn matcher(source: &str) -> Result<Self, PatternError> {
        Self::build(source, Self::translate_matcher(source)?, Purpose::Matching)
    }

    /// Like `matcher`, but leases the memory from the budget of `ctx`.
    ///
    /// # Errors
    /// Fails on an invalid or oversized pattern, over budget, and when stopped.
    pub fn matcher_within(source: &str, ctx: &Context) -> Result<Self, CompileError> {
        Self::build_within(source, Self::translate_matcher, Purpose::Matching, ctx)
    }

    fn translate_anchored(source: &str) -> Result<Translation, PatternError> {
        let anchored = format!("^(?s:{source})$");
        let mut translation = parse::translate(&anchored, Flags::default(), true)?;
        // Not always the case: `a)|(b` closes the surrounding group.
        translation.exact = translation.exact.filter(|_| translation.anchored);
        Ok(translation)
    }

    fn translate_matcher(source: &str) -> Result<Translation, PatternError> {
        let flags = Flags {
            dot_newline: true,
            ..Flags::default()
        };
        let mut translation = parse::translate(source, flags, false)?;
        translation.text = format!(r"\A(?:{})\z", translation.text);
        Ok(translation)
    }

    fn build_within(
        source: &str,
        translate: fn(&str) -> Result<Translation, PatternError>,
        purpose: Purpose,
        ctx: &Context,
    ) -> Result<Self, CompileError> {
        ctx.stop.check()?;
        let reading = ctx.budget.lease(source.len() as u64 * READ_FACTOR)?;
        let translation = translate(source)?;
        let listed = translation.exact.is_some() && purpose == Purpose::Matching;
        let height = translation.cost_bytes;
        let compiling = match listed || height > cost::LIMIT {
            true => 0,
            false => height,
        };
        let compiling = ctx.budget.lease(compiling)?;
        let mut pattern = Self::build(source, translation, purpose)?;
        // From here on, lease only what the pattern keeps.
        drop((reading, compiling));
        pattern._lease = Some(ctx.budget.lease(pattern.heap_bytes())?);
        Ok(pattern)
    }

    fn build(
        source: &str,
        translation: Translation,
        purpose: Purpose,
    ) -> Result<Self, PatternError> {
        let Translation {
            text,
            names,
            exact,
            cost_bytes,
            ..
        } = translation;
        let text = PatternText {
            source: source.into(),
            names,
            exact: exact.map(exact::Words::new),
            translated: text.into(),
            cost_bytes,
        };
        let pattern = Self {
            text: Arc::new(text),
            program: OnceLock::new(),
            _lease: None,
            _kept: None,
        };
        let listed = pattern.text.exact.is_some();
        let later = listed && pattern.text.translated.len() <= LAZY_LIMIT_BYTES;
        let never = listed && purpose == Purpose::Matching;
        if !later && !never {
            let program = pattern
                .compile()
                .ok_or_else(|| PatternError::new("expression too large", source))?;
            // The pattern is not shared yet, so the cell is empty.
            let _ = pattern.program.set(program);
        }
        Ok(pattern)
    }

    /// Returns an upper bound on the memory the pattern keeps.
    fn heap_bytes(&self) -> u64 {
        let program = match self.program.get() {
            Some(_) => cost::kept(self.text.cost_bytes) + self.search_bytes(),
            None => 0,
        };
        size_of::<Self>() as u64 + self.text.heap_bytes() + program
    }

    /// Returns an upper bound on the memory that matching takes, in both directions.
    fn search_bytes(&self) -> u64 {
        2 * cost::search(self.text.cost_bytes)
    }

    /// Returns the pattern as written, without anchors.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text.source
    }

    /// Returns the names of the groups that have one.
    pub fn group_names(&self) -> impl Iterator<Item = &str> {
        self.text.names.iter().filter_map(|name| name.as_deref())
    }

    /// Reports whether `text` matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        match &self.text.exact {
            Some(words) => words.contains(text),
            None => self.program().is_match(text),
        }
    }

    /// Returns the only texts that match, when they can be enumerated.
    #[must_use]
    pub fn exact(&self) -> Option<&[String]> {
        self.text.exact.as_ref().map(exact::Words::all)
    }

    /// Matches `text` and returns `template` filled in with the groups; `None` without a match.
    #[must_use]
    pub fn expand(&self, text: &str, template: &Template) -> Option<String> {
        let captures = self.program().captures(text)?;
        Some(template.fill(&self.text.names, &captures))
    }

    /// Like `expand`, with a bound on the result's length: a template may name a group a thousand times.
    ///
    /// # Errors
    /// Fails with the full length when it exceeds `most_bytes`.
    pub fn expand_up_to(
        &self,
        text: &str,
        template: &Template,
        most_bytes: usize,
    ) -> Result<Option<String>, usize> {
        let Some(captures) = self.program().captures(text) else {
            return Ok(None);
        };
        template
            .fill_up_to(&self.text.names, &captures, most_bytes)
            .map(Some)
    }

    /// Matches `text` once and fills in several templates; `None` without a match.
    #[must_use]
    pub fn expand_all<const N: usize>(
        &self,
        text: &str,
        templates: [&Template; N],
    ) -> Option<[String; N]> {
        let captures = self.program().captures(text)?;
        Some(templates.map(|template| template.fill(&self.text.names, &captures)))
    }

    /// Returns `text` with every match replaced by the filled-in `template`.
    #[must_use]
    pub fn replace_all(&self, text: &str, template: &Template) -> String {
        let fill = |captures: &regex::Captures<'_>| template.fill(&self.text.names, captures);
        self.program().replace_all(text, fill).into_owned()
    }

    fn program(&self) -> &regex::Regex {
        self.program.get_or_init(|| {
            self.compile()
                .expect("a bounded set of words fits into a program")
        })
    }

    fn compile(&self) -> Option<regex::Regex> {
        if self.text.cost_bytes > cost::LIMIT {
            return None;
        }
        let search_bytes = usize::try_from(cost::search(self.text.cost_bytes)).ok()?;
        regex::RegexBuilder::new(&self.text.translated)
            .size_limit(PROGRAM_LIMIT_BYTES)
            .dfa_size_limit(search_bytes)
            .nest_limit(NEST_LIMIT)
            .build()
            .ok()
    }
}

impl PatternText {
    /// Returns an upper bound on the memory of the text.
    fn heap_bytes(&self) -> u64 {
        let words = self.exact.as_ref().map_or(0, exact::Words::heap_bytes);
        let names = self.names.len() * 2 * size_of::<Option<Box<str>>>();
        let texts = self.source.len() + self.translated.len() + names + words;
        (size_of::<Self>() + 2 * size_of::<usize>() + texts) as u64
    }
}

impl PartialEq for Pattern {
    /// Compares source texts: two patterns with the same text in the same place have the same meaning.
    fn eq(&self, other: &Self) -> bool {
        self.text.source == other.text.source && self.text.translated == other.text.translated
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text.source)
    }
}

/// Compiles and matches any text; fuzz target: no input may panic.
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
        if pattern.text.exact.is_some() && pattern.text.translated.len() > LAZY_LIMIT_BYTES {
            continue;
        }
        assert_eq!(
            matched,
            pattern.program().is_match(subject),
            "a listed set matches what its program matches: {source:?} on {subject:?}"
        );
        let _ = pattern.expand(subject, &Template::parse(source));
    }
}

/// Compiles any text within a small budget and expands its matches; fuzz target: all leased memory must come back.
///
/// # Panics
/// Panics when a pattern or an error keeps memory leased, or a text exceeds its bound.
pub fn fuzz_pattern_within(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (source, subject) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let ctx = Context {
        budget: Budget::new("the pattern", 4 << 20),
        ..Context::unlimited()
    };
    if let Ok(pattern) = Pattern::matcher_within(source, &ctx) {
        let _ = pattern.is_match(subject);
    }
    if let Ok(pattern) = Pattern::anchored_within(source, &ctx) {
        let template = Template::parse(subject);
        let filled = pattern.expand_up_to(subject, &template, 1000);
        assert!(
            filled.is_err() || filled.is_ok_and(|text| text.is_none_or(|text| text.len() <= 1000))
        );
    }
    assert_eq!(ctx.budget.used_bytes(), 0, "{source:?} keeps memory");
}
