//! Durations and duration expressions.
//!
//! ```text
//! duration = sign duration | duration op duration | literal | "step" "(" ")" | "range" "(" ")"
//!          | ("min_of"|"max_of") "(" duration "," duration ")" | "(" duration ")"
//! offset   = [sign] (literal | call | "(" duration ")") | duration
//! ```
//!
//! **Invariant:** after `offset`, an operator belongs to the query, not to the duration, unless the duration begins
//! with a parenthesis; this is how Prometheus' grammar resolves it.

use super::{Abort, Parsed, Parser};
use crate::{
    ast::{DurationExpr, DurationNode, DurationOp, NumberLiteral},
    lex::{BinaryOp, Tok, Token, UNARY_PRECEDENCE},
    span::Span,
};

impl Parser<'_> {
    /// Parses the duration in brackets.
    pub(super) fn positive_duration(&mut self) -> Parsed<DurationNode> {
        let node = self.duration(0)?;
        if let DurationNode::Number(n) = &node
            && n.value <= 0.0
        {
            self.error(n.span, "duration must be greater than 0");
        }
        Ok(node)
    }

    /// Parses the duration after `offset`.
    pub(super) fn offset_duration(&mut self) -> Parsed<DurationNode> {
        let token = self.peek();
        match token.tok {
            Tok::Number | Tok::Duration => self.literal(),
            Tok::Step | Tok::Range | Tok::MinOf | Tok::MaxOf => self.duration_call(),
            Tok::Op(BinaryOp::Add | BinaryOp::Sub) => {
                self.next();
                match self.peek().tok {
                    Tok::Number | Tok::Duration => {
                        let number = self.number()?;
                        Ok(DurationNode::Number(self.signed(token, number)))
                    }
                    Tok::Step | Tok::Range | Tok::MinOf | Tok::MaxOf => {
                        let call = self.duration_call()?;
                        let span = Span::new(token.span.start, call.span().end);
                        let op = if is_minus(token) {
                            DurationOp::Sub
                        } else {
                            DurationOp::Add
                        };
                        Ok(expr(op, None, Some(call), span))
                    }
                    Tok::LeftParen => {
                        let inner = self.wrapped()?;
                        Ok(self.with_sign(token, inner))
                    }
                    _ => {
                        let operand = self.nested(|p| p.duration(UNARY_PRECEDENCE + 1))?;
                        let lhs = self.with_sign(token, operand);
                        self.duration_from(lhs, 0)
                    }
                }
            }
            _ => self.duration(0),
        }
    }

    fn duration(&mut self, min: u8) -> Parsed<DurationNode> {
        let token = self.peek();
        self.node(self.nesting, token.span)?;
        let lhs = match token.tok {
            Tok::Number | Tok::Duration => self.literal()?,
            Tok::Step | Tok::Range | Tok::MinOf | Tok::MaxOf => self.duration_call()?,
            Tok::LeftParen => self.wrapped()?,
            Tok::Op(BinaryOp::Add | BinaryOp::Sub) => {
                self.next();
                let operand = self.nested(|p| p.duration(UNARY_PRECEDENCE + 1))?;
                self.with_sign(token, operand)
            }
            _ => return Err(Abort::Mismatch),
        };
        self.duration_from(lhs, min)
    }

    fn duration_from(&mut self, mut lhs: DurationNode, min: u8) -> Parsed<DurationNode> {
        let mut depth = self.nesting;
        while let Tok::Op(op) = self.peek().tok {
            let precedence = op.precedence();
            let kind = match op {
                BinaryOp::Add => DurationOp::Add,
                BinaryOp::Sub => DurationOp::Sub,
                BinaryOp::Mul => DurationOp::Mul,
                BinaryOp::Div => DurationOp::Div,
                BinaryOp::Mod => DurationOp::Mod,
                BinaryOp::Pow => DurationOp::Pow,
                _ => break,
            };
            if precedence < min {
                break;
            }
            let sign = self.next();
            let next_min = if op == BinaryOp::Pow {
                precedence
            } else {
                precedence + 1
            };
            let rhs = self.nested(|p| p.duration(next_min))?;
            depth += 1;
            self.node(depth, sign.span)?;
            let by_zero = matches!(&rhs, DurationNode::Number(n) if n.value == 0.0);
            match kind {
                DurationOp::Div if by_zero => self.error(sign.span, "division by zero"),
                DurationOp::Mod if by_zero => self.error(sign.span, "modulo by zero"),
                _ => {}
            }
            let span = lhs.span().to(rhs.span());
            lhs = expr(kind, Some(lhs), Some(rhs), span);
        }
        Ok(lhs)
    }

    fn literal(&mut self) -> Parsed<DurationNode> {
        let number = self.number()?;
        Ok(DurationNode::Number(self.in_range(number.span, number)))
    }

    fn in_range(&mut self, blame: Span, number: NumberLiteral) -> NumberLiteral {
        if crate::ast::duration_out_of_range(number.value) {
            self.error(blame, "duration out of range");
            return NumberLiteral {
                value: 0.0,
                ..number
            };
        }
        number
    }

    fn signed(&mut self, sign: Token, mut number: NumberLiteral) -> NumberLiteral {
        if is_minus(sign) {
            number.value = -number.value;
        }
        number.span.start = sign.span.start;
        self.in_range(sign.span, number)
    }

    fn with_sign(&mut self, sign: Token, node: DurationNode) -> DurationNode {
        match node {
            DurationNode::Number(number) => DurationNode::Number(self.signed(sign, number)),
            node if is_minus(sign) => {
                let span = Span::new(sign.span.start, node.span().end);
                expr(DurationOp::Sub, None, Some(node), span)
            }
            node => node,
        }
    }

    fn duration_call(&mut self) -> Parsed<DurationNode> {
        let word = self.next();
        self.expect(Tok::LeftParen)?;
        let op = match word.tok {
            Tok::Step => DurationOp::Step,
            Tok::Range => DurationOp::Range,
            Tok::MinOf => DurationOp::MinOf,
            _ => DurationOp::MaxOf,
        };
        let (mut lhs, mut rhs) = (None, None);
        if matches!(op, DurationOp::MinOf | DurationOp::MaxOf) {
            lhs = Some(self.nested(|p| p.duration(0))?);
            self.expect(Tok::Comma)?;
            rhs = Some(self.nested(|p| p.duration(0))?);
        }
        let close = self.expect(Tok::RightParen)?;
        Ok(expr(op, lhs, rhs, word.span.to(close.span)))
    }

    /// Parses a duration in parentheses; the `wrapped` mark keeps them in the printed form.
    fn wrapped(&mut self) -> Parsed<DurationNode> {
        let open = self.expect(Tok::LeftParen)?;
        let inner = self.nested(|p| p.duration(0))?;
        let close = self.expect(Tok::RightParen)?;
        let mut inner = match inner {
            // It cannot hold the mark.
            number @ DurationNode::Number(_) => {
                let span = open.span.to(close.span);
                expr(DurationOp::Add, None, Some(number), span)
            }
            inner => inner,
        };
        if let DurationNode::Expr(inner) = &mut inner {
            inner.wrapped = true;
        }
        Ok(inner)
    }
}

fn is_minus(sign: Token) -> bool {
    sign.tok == Tok::Op(BinaryOp::Sub)
}

fn expr(
    op: DurationOp,
    lhs: Option<DurationNode>,
    rhs: Option<DurationNode>,
    span: Span,
) -> DurationNode {
    DurationNode::Expr(Box::new(DurationExpr {
        op,
        lhs,
        rhs,
        wrapped: false,
        span,
    }))
}
