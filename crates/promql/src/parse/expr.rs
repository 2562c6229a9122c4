//! Expressions.
//!
//! ```text
//! expr      = unary { binary-op modifiers expr }          by binding power; ^ binds to the right
//! unary     = ("+"|"-") unary | postfix
//! postfix   = primary { "[" … "]" | "offset" … | "@" … | "anchored" | "smoothed" }
//! primary   = number | string | "(" expr ")" | aggregation | call | selector
//! modifiers = ["bool"] [("on"|"ignoring") labels [("group_left"|"group_right") [labels]]] [fill]
//! ```
//!
//! **Invariant:** every function returns the depth of its tree along with the tree.

use super::{Abort, Parsed, Parser};
use crate::{
    ast::{
        AggregateExpr, BinaryExpr, Call, Cardinality, Expr, NumberLiteral, ParenExpr,
        StringLiteral, UnaryExpr, VectorMatching,
    },
    fmt::{parse_number, quote},
    functions::{self, FUNCTIONS},
    lex::{AggregateOp, BinaryOp, Tok, Token, UNARY_PRECEDENCE, unquote},
    span::Span,
};
use narthex_model::duration;

type Deep = (Expr, u32);

impl Parser<'_> {
    /// Parses operators that bind at least as tightly as `min`.
    pub(super) fn expr(&mut self, min: u8) -> Parsed<Deep> {
        let (mut lhs, mut depth) = self.unary()?;
        while let Tok::Op(op) = self.peek().tok {
            let precedence = op.precedence();
            if precedence < min {
                break;
            }
            self.next();
            let (return_bool, matching) = self.binary_modifiers()?;
            let next_min = if op == BinaryOp::Pow {
                precedence
            } else {
                precedence + 1
            };
            let (rhs, right_depth) = self.nested(|p| p.expr(next_min))?;
            depth = depth.max(right_depth) + 1;
            self.node(depth, rhs.span())?;
            let binary = BinaryExpr {
                op,
                lhs,
                rhs,
                matching: Some(matching),
                return_bool,
            };
            lhs = Expr::Binary(Box::new(binary));
            self.check_fill(&lhs);
        }
        Ok((lhs, depth))
    }

    fn check_fill(&mut self, expr: &Expr) {
        if let Expr::Binary(e) = expr
            && let Some(m) = &e.matching
            && !self.options.fill_modifiers
            && (m.fill_left.is_some() || m.fill_right.is_some())
        {
            self.error(
                expr.span(),
                "binop fill modifiers are experimental and not enabled",
            );
        }
    }

    fn unary(&mut self) -> Parsed<Deep> {
        let sign = self.peek();
        let (Tok::Op(BinaryOp::Add) | Tok::Op(BinaryOp::Sub)) = sign.tok else {
            return self.postfix();
        };
        self.next();
        let negative = sign.tok == Tok::Op(BinaryOp::Sub);
        let (operand, depth) = self.nested(|p| p.expr(UNARY_PRECEDENCE + 1))?;
        Ok(match operand {
            Expr::Number(mut number) => {
                if negative {
                    number.value = -number.value;
                }
                number.span.start = sign.span.start;
                (Expr::Number(number), depth)
            }
            expr => (
                Expr::Unary(Box::new(UnaryExpr {
                    negative,
                    expr,
                    start: sign.span.start,
                })),
                depth + 1,
            ),
        })
    }

    fn postfix(&mut self) -> Parsed<Deep> {
        let (mut expr, mut depth) = self.primary()?;
        loop {
            let token = self.peek();
            match token.tok {
                Tok::LeftBracket => {
                    expr = self.brackets(expr)?;
                    depth += 1;
                    self.node(depth, token.span)?;
                }
                Tok::Offset => self.offset(&mut expr)?,
                Tok::At => self.at(&mut expr)?,
                Tok::Anchored | Tok::Smoothed => {
                    self.next();
                    self.extend(&mut expr, token.tok == Tok::Anchored);
                }
                _ => return Ok((expr, depth)),
            }
        }
    }

    fn primary(&mut self) -> Parsed<Deep> {
        let token = self.peek();
        self.node(0, token.span)?;
        let leaf = match token.tok {
            Tok::Number | Tok::Duration => Expr::Number(self.number()?),
            Tok::Str => {
                self.next();
                Expr::String(StringLiteral {
                    value: self.unquoted(token),
                    span: token.span,
                })
            }
            Tok::LeftParen => return self.paren(),
            Tok::Aggregator(op) => {
                self.next();
                if matches!(self.peek().tok, Tok::LeftParen | Tok::By | Tok::Without) {
                    let parsed = self.aggregation(op, token);
                    return self.within(parsed, "aggregation", "");
                }
                self.selector_named(token)?
            }
            Tok::Ident
            | Tok::Start
            | Tok::End
            | Tok::Step
            | Tok::Range
            | Tok::MaxOf
            | Tok::MinOf => {
                self.next();
                if self.peek().tok == Tok::LeftParen {
                    return self.call(token);
                }
                self.selector_named(token)?
            }
            _ => Expr::Vector(Box::new(self.vector_selector()?)),
        };
        Ok((leaf, 1))
    }

    fn paren(&mut self) -> Parsed<Deep> {
        let open = self.expect(Tok::LeftParen)?;
        let (expr, depth) = self.nested(|p| p.expr(0))?;
        let close = self.expect(Tok::RightParen)?;
        Ok((
            Expr::Paren(Box::new(ParenExpr {
                expr,
                span: open.span.to(close.span),
            })),
            depth + 1,
        ))
    }

    /// Parses a number or a duration.
    pub(super) fn number(&mut self) -> Parsed<NumberLiteral> {
        let token = self.peek();
        let is_duration = token.tok == Tok::Duration;
        if !is_duration && token.tok != Tok::Number {
            return Err(Abort::Mismatch);
        }
        self.next();
        let text = self.text(token.span);
        let value = if is_duration {
            duration::parse(text)
                .map(crate::math::seconds)
                .map_err(|e| unknown_unit(text).unwrap_or(e.to_string()))
        } else {
            parse_number(text).map_err(|e| format!("error parsing number: {e}"))
        };
        let value = value.unwrap_or_else(|message| {
            self.error(token.span, &message);
            0.0
        });
        Ok(NumberLiteral {
            value,
            is_duration,
            span: token.span,
        })
    }

    /// Returns the bytes of a string token.
    pub(super) fn unquoted(&mut self, token: Token) -> Vec<u8> {
        let text = self.text(token.span);
        unquote(text).unwrap_or_else(|e| {
            self.error(
                token.span,
                &format!("error unquoting string {}: {e}", quote(text)),
            );
            Vec::new()
        })
    }

    fn aggregation(&mut self, op: AggregateOp, word: Token) -> Parsed<Deep> {
        let mut modifier = self.aggregate_modifier()?;
        let (mut args, depth) = self.arguments()?;
        let mut end = self.last_end;
        if modifier.is_none() {
            modifier = self.aggregate_modifier()?;
            if modifier.is_some() {
                end = self.last_end;
            }
        }
        let span = Span::new(word.span.start, end);
        let wanted = if op.takes_parameter() { 2 } else { 1 };
        let count = args.len();
        let (without, grouping) = modifier.unwrap_or_default();
        let problem = if count == 0 {
            Some("no arguments for aggregate expression provided".to_owned())
        } else if op.is_experimental() && !self.options.experimental_functions {
            let name = op.as_str();
            Some(format!(
                "{name}() is experimental and must be enabled with --enable-feature=promql-experimental-functions"
            ))
        } else if count != wanted {
            Some(format!(
                "wrong number of arguments for aggregate expression provided, expected {wanted}, got {count}"
            ))
        } else {
            None
        };
        if let Some(text) = problem {
            self.error(span, &text);
        }
        let expr = args.pop().unwrap_or_else(|| nothing(span));
        let param = if wanted == 2 { args.pop() } else { None };
        let aggregate = AggregateExpr {
            op,
            expr,
            param,
            grouping,
            without,
            span,
        };
        Ok((Expr::Aggregate(Box::new(aggregate)), depth + 1))
    }

    fn aggregate_modifier(&mut self) -> Parsed<Option<(bool, Vec<String>)>> {
        let without = match self.peek().tok {
            Tok::By => false,
            Tok::Without => true,
            _ => return Ok(None),
        };
        self.next();
        Ok(Some((without, self.labels()?)))
    }

    fn call(&mut self, word: Token) -> Parsed<Deep> {
        let name = self.text(word.span);
        let (args, depth) = self.arguments()?;
        let span = Span::new(word.span.start, self.last_end);
        let function = functions::find(name);
        match function {
            None => self.error(
                word.span,
                &format!("unknown function with name {}", quote(name)),
            ),
            Some(f) if f.experimental && !self.options.experimental_functions => {
                self.error(
                    word.span,
                    &format!("function {} is not enabled", quote(name)),
                );
            }
            Some(_) => {}
        }
        // The tree is discarded because of the error above, so any function will do.
        let function = function.unwrap_or(&FUNCTIONS[0]);
        Ok((
            Expr::Call(Box::new(Call {
                function,
                args,
                span,
            })),
            depth + 1,
        ))
    }

    /// Parses `(expr, …)`.
    fn arguments(&mut self) -> Parsed<(Vec<Expr>, u32)> {
        self.expect(Tok::LeftParen)?;
        let (mut args, mut depth) = (Vec::new(), 0);
        if self.accept(Tok::RightParen).is_some() {
            return Ok((args, depth));
        }
        loop {
            let (arg, arg_depth) = self.nested(|p| p.expr(0))?;
            args.push(arg);
            depth = depth.max(arg_depth);
            while let Some(comma) = self.accept(Tok::Comma) {
                let next = self.peek().tok;
                if next == Tok::Error || begins_expression(next) {
                    break;
                }
                self.error(
                    comma.span,
                    "trailing commas not allowed in function call args",
                );
            }
            if self.accept(Tok::RightParen).is_some() {
                return Ok((args, depth));
            }
            // A comma must precede the next argument.
            if self.text(Span::new(self.last_end.saturating_sub(1), self.last_end)) != "," {
                return Err(Abort::Mismatch);
            }
        }
    }

    fn binary_modifiers(&mut self) -> Parsed<(bool, VectorMatching)> {
        let mut matching = VectorMatching::default();
        let return_bool = self.accept(Tok::Bool).is_some();
        let on = self.peek().tok == Tok::On;
        if on || self.peek().tok == Tok::Ignoring {
            self.next();
            matching.on = on;
            matching.labels = self.labels()?;
            let group = self.peek().tok;
            if matches!(group, Tok::GroupLeft | Tok::GroupRight) {
                self.next();
                let left = group == Tok::GroupLeft;
                matching.cardinality = if left {
                    Cardinality::ManyToOne
                } else {
                    Cardinality::OneToMany
                };
                match self.peek().tok {
                    Tok::LeftParen => matching.include = self.labels()?,
                    Tok::Eof => return Err(self.unexpected("grouping opts", "\"(\"")),
                    _ => {}
                }
            }
        }
        match self.peek().tok {
            Tok::Fill => {
                self.next();
                matching.fill_left = Some(self.fill_value()?);
                matching.fill_right = matching.fill_left;
            }
            Tok::FillLeft => {
                self.next();
                matching.fill_left = Some(self.fill_value()?);
                if self.accept(Tok::FillRight).is_some() {
                    matching.fill_right = Some(self.fill_value()?);
                }
            }
            Tok::FillRight => {
                self.next();
                matching.fill_right = Some(self.fill_value()?);
                if self.accept(Tok::FillLeft).is_some() {
                    matching.fill_left = Some(self.fill_value()?);
                }
            }
            _ => {}
        }
        Ok((return_bool, matching))
    }

    fn fill_value(&mut self) -> Parsed<f64> {
        self.expect(Tok::LeftParen)?;
        let value = self.signed_number()?;
        self.expect(Tok::RightParen)?;
        Ok(value)
    }

    /// Parses a number with or without a sign.
    pub(super) fn signed_number(&mut self) -> Parsed<f64> {
        let negative = self.accept(Tok::Op(BinaryOp::Sub)).is_some();
        if !negative {
            self.accept(Tok::Op(BinaryOp::Add));
        }
        let value = self.number()?.value;
        Ok(if negative { -value } else { value })
    }

    /// Consumes the comma after an item of a list, unless `close` comes, which ends the list.
    pub(super) fn comma(&mut self, close: Tok, context: &str, expected: &str) -> Parsed<()> {
        if self.peek().tok != close && self.accept(Tok::Comma).is_none() {
            return Err(self.unexpected(context, expected));
        }
        Ok(())
    }

    /// Parses `(label, …)`.
    fn labels(&mut self) -> Parsed<Vec<String>> {
        const CONTEXT: &str = "grouping opts";
        let open = self.expect(Tok::LeftParen);
        self.within(open, CONTEXT, "\"(\"")?;
        let mut labels = Vec::new();
        while self.accept(Tok::RightParen).is_none() {
            let label = self.grouping_label();
            labels.push(self.within(label, CONTEXT, "label")?);
            self.comma(Tok::RightParen, CONTEXT, "\",\" or \")\"")?;
        }
        Ok(labels)
    }

    fn grouping_label(&mut self) -> Parsed<String> {
        let token = self.peek();
        let name = match token.tok {
            Tok::Str => {
                self.next();
                self.unquoted(token)
            }
            tok if tok.is_word() => {
                self.next();
                self.text(token.span).as_bytes().to_vec()
            }
            _ => return Err(Abort::Mismatch),
        };
        match String::from_utf8(name) {
            Ok(name) if !name.is_empty() => Ok(name),
            invalid => {
                let bytes = invalid
                    .map(String::into_bytes)
                    .unwrap_or_else(std::string::FromUtf8Error::into_bytes);
                let quoted = crate::fmt::quote_bytes(&bytes);
                self.error(
                    token.span,
                    &format!("invalid label name for grouping: {quoted}"),
                );
                Ok(String::new())
            }
        }
    }
}

/// Reports whether an expression may begin with a token; words of operators may be names of metrics there.
fn begins_expression(tok: Tok) -> bool {
    match tok {
        Tok::Number | Tok::Duration | Tok::Str | Tok::LeftParen | Tok::LeftBrace => true,
        Tok::Op(op) => matches!(
            op,
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::And | BinaryOp::Or | BinaryOp::Unless
        ),
        Tok::Bool | Tok::On | Tok::Ignoring | Tok::GroupLeft | Tok::GroupRight => false,
        tok => tok.is_word(),
    }
}

/// Returns a placeholder for a missing operand after its error.
fn nothing(span: Span) -> Expr {
    Expr::Number(NumberLiteral {
        value: 0.0,
        is_duration: false,
        span,
    })
}

/// Returns the first unknown unit of a duration.
fn unknown_unit(text: &str) -> Option<String> {
    let mut units = text
        .split(|c: char| c.is_ascii_digit())
        .filter(|unit| !unit.is_empty());
    let unit = units.find(|unit| !matches!(*unit, "ms" | "s" | "m" | "h" | "d" | "w" | "y"))?;
    Some(format!(
        "unknown unit {} in duration {}",
        quote(unit),
        quote(text)
    ))
}
