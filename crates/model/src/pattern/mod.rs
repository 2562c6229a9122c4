//! Regular expressions as Go's `regexp` reads them, for matchers, relabelling and `label_replace`.
//!
//! A pattern is parsed by our own parser for Go's syntax and handed to the `regex` crate in a form in which nothing
//! depends on that crate's own ideas: classes are spelled out, flags are resolved, groups are numbered.
//!
//! **Invariant:** what Go accepts is accepted with Go's meaning, what Go refuses is refused in Go's words. The
//! exceptions are bounds: patterns whose groups nest deeper than 200, whose program exceeds 10 MiB, or which would take
//! more than 64 MiB to compile are refused. What compiling takes is known, and leased, before it begins.

mod class;
mod cost;
mod exact;
mod expand;
mod names;
mod parse;
#[cfg(test)]
mod tests;

pub use expand::Template;

use crate::storage::{Budget, Context, Lease, OverBudget, StopReason};
use parse::{Flags, Translation};
use std::{error::Error, fmt, sync::OnceLock};

/// The largest compiled form of one pattern; a bound, since patterns come from outside.
const PROGRAM_LIMIT_BYTES: usize = 10 << 20;

/// The longest translated set of words that surely compiles within the limit, so that compiling it can wait.
const LAZY_LIMIT_BYTES: usize = 64 << 10;

/// What reading a pattern takes for each of its bytes.
const READ_FACTOR: u64 = 64;

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
    cost_bytes: u64,
    /// What it takes while it lives, where it was compiled within a budget.
    _lease: Option<Lease>,
}

/// What a pattern is for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    /// To tell whether texts match: a list of all that do is enough.
    Matching,
    /// To take texts apart, too.
    Expanding,
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

/// Why a pattern from outside was not compiled.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CompileError {
    /// It is not one.
    Invalid(PatternError),
    /// Compiling it takes more memory than the budget has.
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
    /// Compiles `source` as it stands: it matches anywhere in a text.
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
    /// The anchors are put around the text, as Prometheus does, so errors quote them.
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

    /// As `anchored`, with the memory it takes leased from the budget of `ctx`.
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

    /// As `matcher`, with the memory it takes leased from the budget of `ctx`.
    ///
    /// # Errors
    /// Fails on an invalid or oversized pattern, over budget, and when stopped.
    pub fn matcher_within(source: &str, ctx: &Context) -> Result<Self, CompileError> {
        Self::build_within(source, Self::translate_matcher, Purpose::Matching, ctx)
    }

    fn translate_anchored(source: &str) -> Result<Translation, PatternError> {
        let anchored = format!("^(?s:{source})$");
        let mut translation = parse::translate(&anchored, Flags::default(), true)?;
        // Not always so: `a)|(b` closes the group that is around it.
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
        // From here on only what stays is paid for.
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
        let pattern = Self {
            source: source.into(),
            names,
            exact: exact.map(exact::Words::new),
            translated: text.into(),
            program: OnceLock::new(),
            cost_bytes,
            _lease: None,
        };
        let listed = pattern.exact.is_some();
        let later = listed && pattern.translated.len() <= LAZY_LIMIT_BYTES;
        let never = listed && purpose == Purpose::Matching;
        if !later && !never {
            let program = pattern
                .compile()
                .ok_or_else(|| PatternError::new("expression too large", source))?;
            // Nobody else holds the pattern yet.
            let _ = pattern.program.set(program);
        }
        Ok(pattern)
    }

    /// Returns what the pattern takes while it lives; an upper bound.
    fn heap_bytes(&self) -> u64 {
        let words = self.exact.as_ref().map_or(0, exact::Words::heap_bytes);
        let names = self.names.len() * 2 * size_of::<Option<Box<str>>>();
        let texts = self.source.len() + self.translated.len() + names + words;
        let program = match self.program.get() {
            Some(_) => cost::kept(self.cost_bytes) + 2 * cost::search(self.cost_bytes),
            None => 0,
        };
        (size_of::<Self>() + texts) as u64 + program
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

    /// As `expand`, with the length of the result bounded: a template may name a group a thousand times.
    ///
    /// # Errors
    /// Fails with the length there would be when that is more than `most_bytes`.
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
            .fill_up_to(&self.names, &captures, most_bytes)
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
            self.compile()
                .expect("a bounded set of words fits into a program")
        })
    }

    fn compile(&self) -> Option<regex::Regex> {
        if self.cost_bytes > cost::LIMIT {
            return None;
        }
        let search_bytes = usize::try_from(cost::search(self.cost_bytes)).ok()?;
        regex::RegexBuilder::new(&self.translated)
            .size_limit(PROGRAM_LIMIT_BYTES)
            .dfa_size_limit(search_bytes)
            .nest_limit(NEST_LIMIT)
            .build()
            .ok()
    }
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
        if pattern.exact.is_some() && pattern.translated.len() > LAZY_LIMIT_BYTES {
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

/// Compiles any text within a small budget and fills in what it matches; for fuzzing: what is leased comes back.
///
/// # Panics
/// Panics when a pattern or a refusal keeps memory leased, or a text outgrows its bound.
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
