//! Parses queries.
//!
//! **Invariant:** the first error is the one Prometheus reports for the same text, with the same position; trees
//! are at most `MAX_DEPTH` deep and `MAX_NODES` large; nothing panics whatever the text is. Within a context, what a
//! tree takes is leased while it grows, and so are its regular expressions before they are compiled.
//!
//! A recursive descent with binding powers. Prometheus' grammar names its contexts ("unexpected … in aggregation")
//! by the innermost rule that can recover, so a mismatch travels up as [`Abort::Mismatch`] until such a rule
//! puts its context into words.

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
    ast::{Expr, MAX_DEPTH, VectorSelector},
    lex::{Lexer, Tok, Token},
    span::Span,
};
use narthex_model::{
    LabelSet, Matcher,
    storage::{Context, Lease},
};

/// The most nodes a tree may have.
pub const MAX_NODES: usize = 100_000;

/// The longest query in bytes.
pub const MAX_QUERY_BYTES: usize = 4 << 20;

/// Which parts of the language are switched on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParseOptions {
    /// Functions and aggregations Prometheus calls experimental.
    pub experimental_functions: bool,
    /// `anchored` and `smoothed`.
    pub extended_range_selectors: bool,
    /// `fill`, `fill_left` and `fill_right`.
    pub fill_modifiers: bool,
}

impl Default for ParseOptions {
    /// Everything is on.
    fn default() -> Self {
        Self {
            experimental_functions: true,
            extended_range_selectors: true,
            fill_modifiers: true,
        }
    }
}

/// Parses a query with everything switched on.
///
/// # Errors
/// Returns the first thing that is wrong, with its position.
pub fn parse(query: &str) -> Result<Expr, ParseError> {
    parse_with(query, ParseOptions::default())
}

/// Parses a query.
///
/// # Errors
/// Returns the first thing that is wrong, with its position.
pub fn parse_with(query: &str, options: ParseOptions) -> Result<Expr, ParseError> {
    with_room(query, || parse_here(query, options, None))
}

/// Parses a query within the limits of a context; `patterns` is where its regular expressions lease from.
///
/// # Errors
/// Returns the first thing that is wrong; fails over budget and when stopped.
pub(crate) fn parse_within(
    query: &str,
    options: ParseOptions,
    ctx: &Context,
    patterns: &Context,
) -> Result<(Expr, Lease), QueryError> {
    let mut room = Room::new(ctx, patterns)?;
    let parsed = with_room(query, || parse_here(query, options, Some(&mut room)));
    room.take(parsed)
}

/// Runs `work` on a stack for what may be opened in `query`.
fn with_room<T: Send>(
    query: &str,
    work: impl FnOnce() -> Result<T, ParseError> + Send,
) -> Result<T, ParseError> {
    // Levels are opened by these bytes; words and comparisons chain to the left, which costs no stack here, but
    // checking and dropping such chains does, at a fraction of the cost a level.
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
    room: Option<&'a mut Room>,
) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(query, options)?;
    parser.room = room;
    if parser.peek().tok == Tok::Eof {
        return Err(ParseError::new(
            "no expression found in input",
            Span::default(),
            query,
        ));
    }
    let parsed = parser.expr(0).map(|(expr, _)| expr);
    let mut expr = parser.finish(parsed)?;
    check::check(&mut expr, &mut parser.errors, query);
    parser.first_error()?;
    Ok(expr)
}

/// Parses a series selector such as `up{job="x"}` and returns its matchers.
///
/// # Errors
/// Returns the first thing that is wrong, with its position.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, ParseError> {
    selector_here(text, None)
}

/// Parses a series selector with what it takes, its regular expressions included, leased from the budget of `ctx`.
///
/// # Errors
/// Returns the first thing that is wrong; fails over budget and when stopped.
pub fn parse_selector_within(
    text: &str,
    ctx: &Context,
) -> Result<(Vec<Matcher>, Lease), QueryError> {
    let mut room = Room::new(ctx, ctx)?;
    let parsed = selector_here(text, Some(&mut room));
    room.take(parsed)
}

fn selector_here<'a>(
    text: &'a str,
    room: Option<&'a mut Room>,
) -> Result<Vec<Matcher>, ParseError> {
    let mut parser = Parser::new(text, ParseOptions::default())?;
    parser.room = room;
    let parsed = parser.vector_selector();
    parser
        .finish(parsed)
        .map(|selector: VectorSelector| selector.matchers)
}

/// Parses a series' labels such as `up{job="x"}`.
///
/// # Errors
/// Returns the first thing that is wrong, with its position.
pub fn parse_metric(text: &str) -> Result<LabelSet, ParseError> {
    let mut parser = Parser::new(text, ParseOptions::default())?;
    let parsed = parser.metric();
    parser.finish(parsed)
}

/// What one part of a tree takes, there and in the plan that is made of it.
const NODE_BYTES: u64 = 1536;

/// Where a parser leases what it makes.
struct Room {
    ctx: Context,
    patterns: Context,
    lease: Lease,
    /// Why there was none.
    refused: Option<QueryError>,
}

impl Room {
    fn new(ctx: &Context, patterns: &Context) -> Result<Self, QueryError> {
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

    /// Returns what was parsed with its lease, or why there was no room for it.
    fn take<T>(self, parsed: Result<T, ParseError>) -> Result<(T, Lease), QueryError> {
        match self.refused {
            Some(refused) => Err(refused),
            None => Ok((parsed?, self.lease)),
        }
    }
}

/// Why parsing stopped.
enum Abort {
    /// The next token does not fit; nobody has said so yet.
    Mismatch,
    /// The reason is among the errors.
    Reported,
}

type Parsed<T> = Result<T, Abort>;

struct Parser<'a> {
    query: &'a str,
    lexer: Lexer<'a>,
    ahead: Option<Token>,
    options: ParseOptions,
    room: Option<&'a mut Room>,
    /// The first error, if there is one: each holds the text.
    errors: Vec<ParseError>,
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
        let lexer = Lexer::new(query);
        Ok(Self {
            query,
            lexer,
            ahead: None,
            options,
            room: None,
            errors: Vec::new(),
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
        // The end and an error stay where they are.
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
        // Only the first one is reported. A text of a million matchers may have as many errors.
        if self.errors.is_empty() {
            self.errors.push(ParseError::new(message, span, self.query));
        }
    }

    /// Says that the next token was not expected here.
    fn unexpected(&mut self, context: &str, expected: &str) -> Abort {
        let token = self.peek();
        if token.tok != Tok::Error {
            let mut text = format!("unexpected {}", token.describe(self.query));
            if !context.is_empty() {
                text.push_str(" in ");
                text.push_str(context);
            }
            if !expected.is_empty() {
                text.push_str(", expected ");
                text.push_str(expected);
            }
            self.error(token.span, &text);
        }
        Abort::Reported
    }

    /// Puts a mismatch below this rule into words.
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
        if self.errors.is_empty() {
            Ok(())
        } else {
            Err(self.errors.swap_remove(0))
        }
    }

    /// Counts a node and refuses trees that are too deep or too large.
    fn node(&mut self, depth: u32, span: Span) -> Parsed<()> {
        self.part(depth, span, NODE_BYTES)
    }

    /// Counts a node that takes so many bytes.
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

    /// Takes memory for what stands at `span`.
    fn lease(&mut self, bytes: u64, span: Span) -> Parsed<()> {
        let Some(room) = &mut self.room else {
            return Ok(());
        };
        match room.grow(bytes) {
            Ok(()) => Ok(()),
            Err(refused) => Err(self.refuse(refused, span)),
        }
    }

    /// Ends parsing for want of room.
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
