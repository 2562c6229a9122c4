//! Parses queries.
//!
//! **Invariant:** the first error is the one Prometheus reports for the same text, with the same position; trees are
//! at most `MAX_DEPTH` deep and have at most `MAX_NODES` nodes; no text causes a panic. Within a context, a tree's
//! memory is leased while it grows, and that of its regular expressions before they are compiled.
//!
//! A recursive descent parser with binding powers. Prometheus' grammar names its contexts ("unexpected … in
//! aggregation") after the innermost rule that can recover, so a mismatch travels up as [`Abort::Mismatch`] until
//! such a rule reports it with its context.

mod check;
mod duration;
mod error;
mod expr;
mod selector;
#[cfg(test)]
mod tests;

pub use error::ParseError;

use crate::QueryError;
use crate::{
    ast::{Expr, MAX_DEPTH},
    lex::{Lexer, Tok, Token},
    span::Span,
};
use narthex_model::{
    LabelSet, Matcher, Patterns,
    storage::{Context, Lease},
};

/// Most nodes a tree may have.
pub const MAX_NODES: usize = 100_000;

/// Longest query, in bytes.
pub const MAX_QUERY_BYTES: usize = 4 << 20;

/// Optional parts of the language.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParseOptions {
    /// Functions and aggregations that Prometheus calls experimental.
    pub experimental_functions: bool,
    /// `anchored` and `smoothed`.
    pub extended_range_selectors: bool,
    /// `fill`, `fill_left` and `fill_right`.
    pub fill_modifiers: bool,
    /// Letters of any script and dots in names without quotes.
    pub unquoted_utf8_names: bool,
}

impl Default for ParseOptions {
    /// Enables everything but names that other servers would refuse.
    fn default() -> Self {
        Self {
            unquoted_utf8_names: false,
            experimental_functions: true,
            extended_range_selectors: true,
            fill_modifiers: true,
        }
    }
}

/// Parses a query with everything enabled.
///
/// # Errors
/// Fails with the first error and its position.
pub fn parse(query: &str) -> Result<Expr, ParseError> {
    parse_with(query, ParseOptions::default())
}

/// Parses a query.
///
/// # Errors
/// Fails with the first error and its position.
pub fn parse_with(query: &str, options: ParseOptions) -> Result<Expr, ParseError> {
    with_room(query, || parse_here(query, options, None))
}

/// Parses a query within the limits of a context; its regular expressions lease from `patterns`.
///
/// # Errors
/// Fails with the first parse error, over budget and when stopped.
pub(crate) fn parse_within(
    query: &str,
    options: ParseOptions,
    ctx: &Context,
    patterns: &Patterns,
) -> Result<(Expr, Lease), QueryError> {
    let mut room = ParseMemory::new(ctx, patterns)?;
    let parsed = with_room(query, || parse_here(query, options, Some(&mut room)));
    room.finish(parsed)
}

/// Runs `work` on a stack for as many levels as `query` can open.
fn with_room<T: Send>(
    query: &str,
    work: impl FnOnce() -> Result<T, ParseError> + Send,
) -> Result<T, ParseError> {
    // These bytes open a level. Words and comparisons chain to the left, which takes no stack here; checking and
    // dropping such chains does, but only a fraction of this per level.
    let opens = |b: &u8| b"([{+-*/%^".contains(b);
    let levels = if query.len() < 32 {
        0
    } else {
        query.as_bytes().iter().filter(|b| opens(b)).count()
    };
    crate::stack::with_room(levels, work).unwrap_or_else(|e| {
        let text = format!("no thread for a deep query: {e}");
        Err(ParseError::new(&text, Span::default(), query))
    })
}

fn parse_here<'a>(
    query: &'a str,
    options: ParseOptions,
    room: Option<&'a mut ParseMemory>,
) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(query, options)?;
    parser.room = room;
    if parser.peek().tok == Tok::Eof {
        let text = "no expression found in input";
        return Err(ParseError::new(text, Span::default(), query));
    }
    let parsed = parser.expr(0).map(|(expr, _)| expr);
    let mut expr = parser.finish(parsed)?;
    parser.check(&mut expr);
    parser.first_error()?;
    Ok(expr)
}

/// Parses a series selector such as `up{job="x"}` and returns its matchers.
///
/// # Errors
/// Fails with the first error and its position.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, ParseError> {
    selector_here(text, None)
}

/// Parses a series selector, leasing its memory, regular expressions included, from the budget of their call.
///
/// # Errors
/// Fails with the first parse error, over budget and when stopped.
pub fn parse_selector_within(
    text: &str,
    patterns: &Patterns,
) -> Result<(Vec<Matcher>, Lease), QueryError> {
    let mut room = ParseMemory::new(&patterns.ctx, patterns)?;
    let parsed = selector_here(text, Some(&mut room));
    room.finish(parsed)
}

fn selector_here<'a>(
    text: &'a str,
    room: Option<&'a mut ParseMemory>,
) -> Result<Vec<Matcher>, ParseError> {
    let mut parser = Parser::new(text, ParseOptions::default())?;
    parser.room = room;
    let parsed = parser.vector_selector();
    Ok(parser.finish(parsed)?.matchers)
}

/// Parses the labels of a series such as `up{job="x"}`.
///
/// # Errors
/// Fails with the first error and its position.
pub fn parse_metric(text: &str) -> Result<LabelSet, ParseError> {
    parse_metric_with(text, ParseOptions::default())
}

/// Parses a series as `parse_metric` does.
pub(crate) fn parse_metric_with(text: &str, options: ParseOptions) -> Result<LabelSet, ParseError> {
    let mut parser = Parser::new(text, options)?;
    let parsed = parser.metric();
    parser.finish(parsed)
}

/// Memory of one node, in the tree and in the plan built from it.
const NODE_BYTES: u64 = 1536;

/// The memory a parser leases.
struct ParseMemory {
    ctx: Context,
    patterns: Patterns,
    lease: Lease,
    /// The reason why a lease failed.
    refused: Option<QueryError>,
}

impl ParseMemory {
    fn new(ctx: &Context, patterns: &Patterns) -> Result<Self, QueryError> {
        Ok(Self {
            ctx: ctx.clone(),
            patterns: patterns.clone(),
            lease: ctx.budget.lease(0)?,
            refused: None,
        })
    }

    fn grow(&mut self, bytes: u64) -> Result<(), QueryError> {
        self.ctx.stop.check()?;
        Ok(self.lease.grow(bytes)?)
    }

    /// Returns the parsed value with its lease, or the reason why a lease failed.
    fn finish<T>(self, parsed: Result<T, ParseError>) -> Result<(T, Lease), QueryError> {
        match self.refused {
            Some(refused) => Err(refused),
            None => Ok((parsed?, self.lease)),
        }
    }
}

/// Reason for aborting a rule.
enum Abort {
    /// The next token does not fit; not reported yet.
    Mismatch,
    /// The error has been reported.
    Reported,
}

type Parsed<T> = Result<T, Abort>;

struct Parser<'a> {
    query: &'a str,
    lexer: Lexer<'a>,
    ahead: Option<Token>,
    options: ParseOptions,
    room: Option<&'a mut ParseMemory>,
    /// Only the first is reported: each holds the text, and a text of a million matchers may have as many.
    error: Option<ParseError>,
    nesting: u32,
    nodes: usize,
    /// One past the last token that can end an expression.
    last_end: u32,
}

impl<'a> Parser<'a> {
    fn new(query: &'a str, options: ParseOptions) -> Result<Self, ParseError> {
        if query.len() > MAX_QUERY_BYTES {
            let text = format!("query is longer than {MAX_QUERY_BYTES} bytes");
            return Err(ParseError::new(&text, Span::default(), ""));
        }
        let lexer = Lexer::new(query).with_unquoted_utf8(options.unquoted_utf8_names);
        Ok(Self {
            query,
            lexer,
            ahead: None,
            options,
            room: None,
            error: None,
            nesting: 0,
            nodes: 0,
            last_end: 0,
        })
    }

    /// Returns the next token without consuming it.
    fn peek(&mut self) -> Token {
        if let Some(token) = self.ahead {
            return token;
        }
        let token = self.lexer.next_token();
        if token.tok == Tok::Error {
            let reason = self.lexer.failure().unwrap_or_default().to_owned();
            self.error(token.span, &reason);
        }
        self.ahead = Some(token);
        token
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        // The end and an error are never consumed.
        if !matches!(token.tok, Tok::Eof | Tok::Error) {
            self.ahead = None;
            self.last_end = token.span.end;
        }
        token
    }

    /// Consumes the next token if it is `tok`.
    fn accept(&mut self, tok: Tok) -> Option<Token> {
        (self.peek().tok == tok).then(|| self.next())
    }

    fn expect(&mut self, tok: Tok) -> Parsed<Token> {
        self.accept(tok).ok_or(Abort::Mismatch)
    }

    fn text(&self, span: Span) -> &'a str {
        self.query
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    fn error(&mut self, span: Span, message: &str) {
        let query = self.query;
        self.error
            .get_or_insert_with(|| ParseError::new(message, span, query));
    }

    /// Reports that the next token was not expected here.
    fn unexpected(&mut self, context: &str, expected: &str) -> Abort {
        let token = self.peek();
        if token.tok != Tok::Error {
            let mut text = format!("unexpected {}", token.describe(self.query));
            for (word, part) in [(" in ", context), (", expected ", expected)] {
                if !part.is_empty() {
                    text.push_str(word);
                    text.push_str(part);
                }
            }
            self.error(token.span, &text);
        }
        Abort::Reported
    }

    /// Reports a mismatch from below this rule with its context.
    fn within<T>(&mut self, result: Parsed<T>, context: &str, expected: &str) -> Parsed<T> {
        match result {
            Err(Abort::Mismatch) => Err(self.unexpected(context, expected)),
            other => other,
        }
    }

    /// Requires the end of the text, then returns the result or the first error.
    fn finish<T>(&mut self, parsed: Parsed<T>) -> Result<T, ParseError> {
        let complete = parsed.and_then(|value| self.expect(Tok::Eof).map(|_| value));
        let complete = self.within(complete, "", "");
        self.first_error()?;
        complete.map_err(|_| ParseError::new("unexpected error", Span::default(), self.query))
    }

    fn first_error(&mut self) -> Result<(), ParseError> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Counts a node and rejects trees that are too deep or too large.
    fn node(&mut self, depth: u32, span: Span) -> Parsed<()> {
        self.part(depth, span, NODE_BYTES)
    }

    /// Like `node`, for a node of `bytes` bytes.
    fn part(&mut self, depth: u32, span: Span, bytes: u64) -> Parsed<()> {
        self.nodes += 1;
        let text = if depth > MAX_DEPTH {
            format!("expression is nested more than {MAX_DEPTH} levels deep")
        } else if self.nodes > MAX_NODES {
            format!("expression has more than {MAX_NODES} parts")
        } else {
            return self.lease(bytes, span);
        };
        self.error(span, &text);
        Err(Abort::Reported)
    }

    /// Leases memory for the text at `span`.
    fn lease(&mut self, bytes: u64, span: Span) -> Parsed<()> {
        let Some(room) = &mut self.room else {
            return Ok(());
        };
        match room.grow(bytes) {
            Ok(()) => Ok(()),
            Err(refused) => Err(self.refuse(refused, span)),
        }
    }

    /// Aborts parsing because a lease failed.
    fn refuse(&mut self, refused: QueryError, span: Span) -> Abort {
        let text = refused.to_string();
        if let Some(room) = &mut self.room {
            room.refused.get_or_insert(refused);
        }
        self.error(span, &text);
        Abort::Reported
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let span = self.peek().span;
        self.nesting += 1;
        self.node(self.nesting, span)?;
        let result = parse(self);
        self.nesting -= 1;
        result
    }
}
