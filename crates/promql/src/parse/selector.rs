//! Selectors, label matchers and the modifiers after them.
//!
//! ```text
//! selector = name [matchers] | matchers
//! matchers = "{" [ matcher { "," matcher } [","] ] "}"
//! matcher  = (name|string) ("="|"!="|"=~"|"!~") string | string
//! ```
//!
//! **Invariant:** a name before the braces is the last matcher; one inside keeps its place.

use super::{Abort, Parsed, Parser};
use crate::{
    ast::{
        At, DurationExpr, DurationNode, Expr, Extension, MatrixSelector, SubqueryExpr,
        VectorSelector,
    },
    lex::{BinaryOp, Tok, Token},
    span::Span,
};
use narthex_model::{
    CompileError, LabelSet, LabelSetBuilder, METRIC_NAME, MatchOp, Matcher, PatternError,
};

const MATCHING: &str = "label matching";

/// Memory of a matcher besides its texts, in the tree and twice in the plan.
const MATCHER_BYTES: u64 = 384;

impl Parser<'_> {
    /// Parses a selector.
    pub(super) fn vector_selector(&mut self) -> Parsed<VectorSelector> {
        let token = self.peek();
        if token.tok == Tok::LeftBrace {
            let (matchers, span) = self.matchers()?;
            return Ok(selector(String::new(), matchers, span));
        }
        if !token.tok.is_metric_name() {
            return Err(Abort::Mismatch);
        }
        self.next();
        match self.selector_named(token)? {
            Expr::Vector(selector) => Ok(*selector),
            _ => Err(Abort::Mismatch),
        }
    }

    /// Parses the rest of a selector after its metric name.
    pub(super) fn selector_named(&mut self, word: Token) -> Parsed<Expr> {
        let name = self.text(word.span).to_owned();
        let (mut matchers, mut span) = (Vec::new(), word.span);
        if self.peek().tok == Tok::LeftBrace {
            let (listed, braces) = self.matchers()?;
            matchers = listed;
            span = span.to(braces);
        }
        matchers.push(Matcher::equal(METRIC_NAME, &name));
        Ok(Expr::Vector(Box::new(selector(name, matchers, span))))
    }

    fn matchers(&mut self) -> Parsed<(Vec<Matcher>, Span)> {
        let open = self.expect(Tok::LeftBrace)?;
        let mut matchers = Vec::new();
        loop {
            if let Some(close) = self.accept(Tok::RightBrace) {
                return Ok((matchers, open.span.to(close.span)));
            }
            matchers.extend(self.matcher()?);
            self.comma(Tok::RightBrace, MATCHING, "\",\" or \"}\"")?;
        }
    }

    fn matcher(&mut self) -> Parsed<Option<Matcher>> {
        let token = self.peek();
        let quoted = token.tok == Tok::Str;
        if !quoted && token.tok != Tok::Ident {
            return Err(self.unexpected(MATCHING, "identifier or \"}\""));
        }
        self.part(self.nesting, token.span, MATCHER_BYTES)?;
        self.next();
        let name = if quoted {
            self.text_of(token)
        } else {
            Some(self.text(token.span).to_owned())
        };
        let op = match self.peek().tok {
            Tok::Assign => MatchOp::Equal,
            Tok::Op(BinaryOp::Ne) => MatchOp::NotEqual,
            Tok::MatchRegex => MatchOp::Regex,
            Tok::MatchNotRegex => MatchOp::NotRegex,
            _ if quoted => return Ok(name.map(|name| Matcher::equal(METRIC_NAME, &name))),
            _ => return Err(self.unexpected(MATCHING, "label matching operator")),
        };
        self.next();
        let value = self.expect(Tok::Str);
        let value = self.within(value, MATCHING, "string")?;
        let bytes = value.span.end - value.span.start;
        // The plan holds two copies.
        self.lease(4 * u64::from(bytes), value.span)?;
        let (Some(name), Some(text)) = (name, self.text_of(value)) else {
            return Ok(None);
        };
        let span = token.span.to(value.span);
        let Some(room) = &self.room else {
            return Ok(self.known(Matcher::new(op, &name, &text), span));
        };
        match Matcher::within(op, &name, &text, &room.patterns) {
            Ok(matcher) => Ok(Some(matcher)),
            Err(CompileError::Invalid(error)) => Ok(self.known(Err(error), span)),
            Err(refused) => Err(self.refuse(refused.into(), span)),
        }
    }

    fn known(&mut self, matcher: Result<Matcher, PatternError>, span: Span) -> Option<Matcher> {
        matcher
            .map_err(|error| self.error(span, &error.to_string()))
            .ok()
    }

    /// Returns a string token's text; labels are UTF-8, so no other string can match.
    fn text_of(&mut self, token: Token) -> Option<String> {
        let bytes = self.unquoted(token);
        let text = String::from_utf8(bytes);
        if text.is_err() {
            self.error(token.span, "label names and values must be valid UTF-8");
        }
        text.ok()
    }

    /// Parses `name{label="value", …}` as a series' labels.
    pub(super) fn metric(&mut self) -> Parsed<LabelSet> {
        const CONTEXT: &str = "label set";
        let mut labels = LabelSetBuilder::default();
        let token = self.peek();
        let mut name = None;
        if token.tok.is_metric_name() {
            self.next();
            name = Some(self.text(token.span).to_owned());
        }
        if self.accept(Tok::LeftBrace).is_some() {
            while self.accept(Tok::RightBrace).is_none() {
                let token = self.peek();
                let quoted = token.tok == Tok::Str;
                if !quoted && token.tok != Tok::Ident {
                    return Err(self.unexpected(CONTEXT, "identifier or \"}\""));
                }
                self.next();
                let label = if quoted {
                    self.text_of(token)
                } else {
                    Some(self.text(token.span).to_owned())
                };
                if self.accept(Tok::Assign).is_some() {
                    let value = self.expect(Tok::Str);
                    let value = self.within(value, CONTEXT, "string")?;
                    if let (Some(label), Some(value)) = (label, self.text_of(value)) {
                        labels.set(&label, &value);
                    }
                } else if quoted {
                    labels.set(METRIC_NAME, &label.unwrap_or_default());
                } else {
                    return Err(self.unexpected(CONTEXT, "\"=\""));
                }
                self.comma(Tok::RightBrace, CONTEXT, "\",\" or \"}\"")?;
            }
        }
        if let Some(name) = name {
            labels.set(METRIC_NAME, &name);
        }
        Ok(labels.finish())
    }

    /// Parses `[range]` or `[range:step]` after `expr`.
    pub(super) fn brackets(&mut self, expr: Expr) -> Parsed<Expr> {
        const DURATIONS: &str = "number, duration, step(), or range()";
        let open = self.expect(Tok::LeftBracket)?;
        let range = self.positive_duration();
        let range = self.within(range, "subquery or range selector", DURATIONS)?;
        let (range_ns, range_expr) = split(range);
        if self.accept(Tok::Colon).is_some() {
            let mut step = (0, None);
            if self.peek().tok != Tok::RightBracket {
                let parsed = self.positive_duration();
                let expected = "number, duration, step(), range(), or \"]\"";
                step = split(self.within(parsed, "subquery selector", expected)?);
            }
            let close = self.expect(Tok::RightBracket);
            let close = self.within(close, "subquery selector", "\"]\"")?;
            let (step_ns, step_expr) = step;
            return Ok(Expr::Subquery(Box::new(SubqueryExpr {
                expr,
                range_ns,
                range_expr,
                step_ns,
                step_expr,
                offset_ns: 0,
                offset_expr: None,
                at: None,
                end: close.span.end,
            })));
        }
        let close = self.expect(Tok::RightBracket);
        let close = self.within(close, "subquery or range", "\":\" or \"]\"")?;
        let problem = match &expr {
            Expr::Vector(v) if v.offset_ns != 0 || v.offset_expr.is_some() => {
                "no offset modifiers allowed before range"
            }
            Expr::Vector(v) if v.at.is_some() => "no @ modifiers allowed before range",
            Expr::Vector(_) => "",
            _ => "ranges only allowed for vector selectors",
        };
        if !problem.is_empty() {
            self.error(open.span.to(close.span), problem);
        }
        Ok(match expr {
            Expr::Vector(v) => Expr::Matrix(Box::new(MatrixSelector {
                selector: *v,
                range_ns,
                range_expr,
                end: close.span.end,
            })),
            other => other,
        })
    }

    /// Parses `offset …` after `expr`.
    pub(super) fn offset(&mut self, expr: &mut Expr) -> Parsed<()> {
        self.expect(Tok::Offset)?;
        let duration = self.offset_duration();
        let duration = self.within(duration, "offset", "number, duration, step(), or range()")?;
        let end = self.last_end;
        let span = expr.span();
        let (ns, duration_expr) = split(duration);
        let (offset_ns, offset_expr, end_at) = match expr {
            Expr::Vector(v) => (&mut v.offset_ns, &mut v.offset_expr, &mut v.span.end),
            Expr::Matrix(m) => (
                &mut m.selector.offset_ns,
                &mut m.selector.offset_expr,
                &mut m.end,
            ),
            Expr::Subquery(s) => (&mut s.offset_ns, &mut s.offset_expr, &mut s.end),
            _ => {
                let text = "offset modifier must be preceded by an instant vector selector or range vector selector or a subquery";
                self.error(span, text);
                return Ok(());
            }
        };
        let twice = *offset_ns != 0 || offset_expr.is_some();
        (*offset_ns, *offset_expr, *end_at) = (ns, duration_expr, end);
        if twice {
            self.error(span, "offset may not be set multiple times");
        }
        Ok(())
    }

    /// Parses `@ …` after `expr`.
    pub(super) fn at(&mut self, expr: &mut Expr) -> Parsed<()> {
        self.expect(Tok::At)?;
        let parsed = self.at_time(expr.span());
        let at = self.within(parsed, "@", "timestamp")?;
        let end = self.last_end;
        let span = expr.span();
        let (at_field, end_at) = match expr {
            Expr::Vector(v) => (&mut v.at, &mut v.span.end),
            Expr::Matrix(m) => (&mut m.selector.at, &mut m.end),
            Expr::Subquery(s) => (&mut s.at, &mut s.end),
            _ => {
                let text = "@ modifier must be preceded by an instant vector selector or range vector selector or a subquery";
                self.error(span, text);
                return Ok(());
            }
        };
        if at_field.is_some() {
            self.error(span, "@ <timestamp> may not be set multiple times");
        } else {
            (*at_field, *end_at) = (Some(at), end);
        }
        Ok(())
    }

    fn at_time(&mut self, span: Span) -> Parsed<At> {
        let start_or_end = match self.peek().tok {
            Tok::Start => Some(At::Start),
            Tok::End => Some(At::End),
            _ => None,
        };
        if let Some(at) = start_or_end {
            self.next();
            self.expect(Tok::LeftParen)?;
            self.expect(Tok::RightParen)?;
            return Ok(at);
        }
        let seconds = self.signed_number()?;
        // Prometheus compares seconds with the bounds of milliseconds; larger values are clamped.
        if !seconds.is_finite() || seconds.abs() >= 9_223_372_036_854_775_807.0 {
            let shown = if seconds.is_finite() {
                format!("{seconds:.6}")
            } else {
                crate::fmt::float_g(seconds)
            };
            self.error(
                span,
                &format!("timestamp out of bounds for @ modifier: {shown}"),
            );
        }
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
        Ok(At::Time((seconds * 1000.0).round() as i64))
    }

    /// Applies `anchored` or `smoothed` to `expr`.
    pub(super) fn extend(&mut self, expr: &mut Expr, anchored: bool) {
        let word = if anchored { "anchored" } else { "smoothed" };
        let span = expr.span();
        if !self.options.extended_range_selectors {
            self.error(
                span,
                &format!("{word} modifier is experimental and not enabled"),
            );
            return;
        }
        let extension = match expr {
            Expr::Vector(v) => &mut v.extension,
            Expr::Matrix(m) => &mut m.selector.extension,
            Expr::Subquery(_) => {
                self.error(
                    span,
                    &format!("{word} modifier is not supported for subqueries"),
                );
                return;
            }
            _ => {
                self.error(span, &format!("{word} modifier not implemented"));
                return;
            }
        };
        let wanted = if anchored {
            Extension::Anchored
        } else {
            Extension::Smoothed
        };
        let conflict = *extension != Extension::None && *extension != wanted;
        *extension = wanted;
        if conflict {
            self.error(
                span,
                "anchored and smoothed modifiers cannot be used together",
            );
        }
    }
}

fn selector(name: String, matchers: Vec<Matcher>, span: Span) -> VectorSelector {
    VectorSelector {
        name,
        matchers,
        offset_ns: 0,
        offset_expr: None,
        at: None,
        extension: Extension::None,
        selects_labels: false,
        span,
    }
}

/// Splits a duration into nanoseconds and an expression, one of which is empty.
fn split(node: DurationNode) -> (i64, Option<DurationExpr>) {
    match node {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "literals out of range have been refused"
        )]
        DurationNode::Number(n) => ((n.value * 1e9).round() as i64, None),
        DurationNode::Expr(e) => (0, Some(*e)),
    }
}
