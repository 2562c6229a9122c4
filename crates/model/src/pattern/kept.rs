//! Compiled patterns that are asked for again and again, as those of dashboards are each few seconds.
//!
//! **Invariant:** what is kept is leased, also while a call uses what is no longer kept. Memory for searching is not
//! kept: each call has its own, which it leases.

use super::{CompileError, Pattern, PatternText, Purpose};
use crate::{
    Recent,
    storage::{Budget, Context, Lease},
    sync::Whole as _,
};
use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

/// Most bytes of all patterns that are kept, one in this many of which one may take.
const MOST_BYTES: u64 = 16 << 20;
const LARGEST: u64 = 8;
/// Most patterns that are kept.
const MOST_PATTERNS: usize = 512;
/// Longest text of a pattern that is kept; its sender chooses it.
const LONGEST_TEXT: usize = 4 << 10;

/// Patterns by their texts.
pub struct KeptPatterns {
    table: Mutex<Recent<(Purpose, Box<str>), Kept>>,
    memory: Budget,
    most_of_one: u64,
}

/// A compiled pattern without memory for searching.
struct Kept {
    text: Arc<PatternText>,
    program: regex::Regex,
    lease: Arc<Lease>,
}

impl KeptPatterns {
    /// Returns an empty table that leases from a share of `memory`.
    #[must_use]
    pub fn new(memory: &Budget) -> Self {
        let most = memory.percent(2).min(MOST_BYTES);
        Self {
            table: Mutex::default(),
            memory: memory.share("patterns", most, memory.percent(50)),
            most_of_one: most / LARGEST,
        }
    }

    /// Returns a pattern that is kept, for a call that has yet to lease its memory for searching.
    fn find(&self, key: &(Purpose, Box<str>)) -> Option<Pattern> {
        let mut table = self.table.lock().whole();
        let kept = table.use_mut(key)?;
        Some(Pattern {
            text: Arc::clone(&kept.text),
            // A clone has the same program, and no memory for searching yet.
            program: OnceLock::from(kept.program.clone()),
            _lease: None,
            _kept: Some(Arc::clone(&kept.lease)),
        })
    }

    /// Keeps a pattern that was compiled, in place of those that were not used for longest.
    fn keep(&self, key: (Purpose, Box<str>), pattern: &Pattern) {
        // A list of words takes little time to read.
        let Some(program) = pattern.program.get() else {
            return;
        };
        let bytes = pattern.heap_bytes() - pattern.search_bytes();
        if bytes > self.most_of_one {
            return;
        }
        let mut table = self.table.lock().whole();
        if table.len() >= MOST_PATTERNS {
            table.remove_oldest();
        }
        while self.memory.used_bytes() + bytes > self.memory.limit_bytes() {
            if table.remove_oldest().is_none() {
                return;
            }
        }
        let Ok(lease) = self.memory.lease(bytes) else {
            return;
        };
        let kept = Kept {
            text: Arc::clone(&pattern.text),
            program: program.clone(),
            lease: Arc::new(lease),
        };
        table.insert(key, kept);
    }
}

impl fmt::Debug for KeptPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns = self.table.lock().whole().len();
        f.debug_struct("KeptPatterns")
            .field("patterns", &patterns)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// Compiles the patterns of a call, or finds them.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// The call.
    pub ctx: Context,
    kept: Option<Arc<KeptPatterns>>,
}

impl From<Context> for Patterns {
    /// Returns patterns of a call that compiles all of them.
    fn from(ctx: Context) -> Self {
        Self { ctx, kept: None }
    }
}

impl Patterns {
    /// Returns patterns of a call that finds those that others compiled, and keeps its own for others.
    #[must_use]
    pub fn new(ctx: Context, kept: Option<Arc<KeptPatterns>>) -> Self {
        Self { ctx, kept }
    }

    /// Returns the pattern of a label matcher, as [`Pattern::matcher_within`].
    ///
    /// # Errors
    /// As [`Pattern::matcher_within`].
    pub fn matcher(&self, source: &str) -> Result<Pattern, CompileError> {
        self.find_or_compile(Purpose::Matching, source)
    }

    /// Returns an anchored pattern, as [`Pattern::anchored_within`].
    ///
    /// # Errors
    /// As [`Pattern::anchored_within`].
    pub fn anchored(&self, source: &str) -> Result<Pattern, CompileError> {
        self.find_or_compile(Purpose::Expanding, source)
    }

    fn find_or_compile(&self, purpose: Purpose, source: &str) -> Result<Pattern, CompileError> {
        let compile = match purpose {
            Purpose::Matching => Pattern::matcher_within,
            Purpose::Expanding => Pattern::anchored_within,
        };
        let ctx = &self.ctx;
        let kept = self.kept.as_ref();
        let Some(kept) = kept.filter(|_| source.len() <= LONGEST_TEXT) else {
            return compile(source, ctx);
        };
        ctx.stop.check()?;
        let key = (purpose, Box::from(source));
        if let Some(mut found) = kept.find(&key) {
            let bytes = size_of::<Pattern>() as u64 + found.search_bytes();
            found._lease = Some(ctx.budget.lease(bytes)?);
            return Ok(found);
        }
        let pattern = compile(source, ctx)?;
        kept.keep(key, &pattern);
        Ok(pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Stop;

    fn patterns(memory: &Budget, limit_bytes: u64) -> Patterns {
        let ctx = Context {
            budget: Budget::new("call", limit_bytes),
            ..Context::unlimited()
        };
        Patterns::new(ctx, Some(Arc::new(KeptPatterns::new(memory))))
    }

    /// Reports whether both have one text, which was compiled once.
    fn is_same(a: &Pattern, b: &Pattern) -> bool {
        Arc::ptr_eq(&a.text, &b.text)
    }

    #[test]
    fn a_pattern_is_compiled_once_for_each_purpose() {
        let memory = Budget::new("process", 1 << 30);
        let patterns = patterns(&memory, 1 << 30);
        let first = patterns.matcher("a.c").unwrap();
        let second = patterns.matcher("a.c").unwrap();
        assert!(is_same(&first, &second));
        assert!(second.is_match("a\nc") && !second.is_match("xabc"));
        let anchored = patterns.anchored("a.c").unwrap();
        assert!(!is_same(&first, &anchored));
        let template = super::super::Template::parse("$0");
        assert_eq!(anchored.expand("abc", &template), Some("abc".to_owned()));
        let again = patterns.anchored("a.c").unwrap();
        assert!(is_same(&anchored, &again));
        assert_eq!(again.expand("abc", &template), Some("abc".to_owned()));
        // What searching takes is the call's.
        let before = patterns.ctx.budget.used_bytes();
        drop(second);
        assert_eq!(
            before - patterns.ctx.budget.used_bytes(),
            size_of::<Pattern>() as u64 + first.search_bytes()
        );
        drop((first, anchored, again));
        assert_eq!(patterns.ctx.budget.used_bytes(), 0);
        assert!(memory.used_bytes() > 0);
        drop(patterns);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn lists_of_words_errors_and_long_texts_are_not_kept() {
        let memory = Budget::new("process", 1 << 30);
        let patterns = patterns(&memory, 1 << 30);
        assert!(patterns.matcher("a|b").unwrap().is_match("b"));
        assert!(patterns.matcher("a(").is_err());
        let long = format!("{}.*", "a".repeat(LONGEST_TEXT));
        assert!(patterns.matcher(&long).unwrap().is_match(&long));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn memory_is_bounded_and_leased_while_used() {
        let memory = Budget::new("process", 100 << 20);
        let patterns = patterns(&memory, 1 << 30);
        let first = patterns.matcher("first.*").unwrap();
        let lent = patterns.matcher("first.*").unwrap();
        let one = memory.used_bytes();
        for at in 0..1_000 {
            patterns.matcher(&format!("{at}.*")).unwrap();
            assert!(memory.used_bytes() <= 2 << 20);
        }
        assert_eq!(memory.shares()[0].refused_total, 0);
        assert!(memory.used_bytes() > 1 << 20);
        let again = patterns.matcher("first.*").unwrap();
        assert!(!is_same(&first, &again));
        let kept = patterns.kept.clone();
        drop((patterns, again));
        drop(kept);
        assert_eq!(memory.used_bytes(), one, "of what is still lent");
        assert!(lent.is_match("first one"));
        drop(lent);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn a_call_without_room_or_time_gets_none() {
        let memory = Budget::new("process", 1 << 30);
        let mut patterns = patterns(&memory, 1 << 30);
        let held = patterns.matcher("a.*").unwrap();
        let used = patterns.ctx.budget.used_bytes();
        patterns.ctx.budget = Budget::new("call", used / 4);
        assert!(matches!(
            patterns.matcher("a.*"),
            Err(CompileError::OverBudget(_))
        ));
        assert_eq!(patterns.ctx.budget.used_bytes(), 0);
        patterns.ctx.stop = Stop::at_check(1);
        assert!(matches!(
            patterns.matcher("a.*"),
            Err(CompileError::Stopped(_))
        ));
        drop(held);
    }
}
