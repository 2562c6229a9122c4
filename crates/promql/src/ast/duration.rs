//! Duration expressions, as in `[5m + step()]`.
//!
//! **Invariant:** values are seconds; an expression has no value before the query's range and step are known.

use super::NumberLiteral;
use crate::{math, span::Span};
use std::fmt;

/// A duration: a literal or an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum DurationNode {
    /// A literal.
    Number(NumberLiteral),
    /// An expression.
    Expr(Box<DurationExpr>),
}

/// The operator of a duration expression.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "each is the operator its name says")]
pub enum DurationOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    /// The query's step.
    Step,
    /// The query's length.
    Range,
    MinOf,
    MaxOf,
}

/// An operation over durations.
#[derive(Clone, Debug, PartialEq)]
pub struct DurationExpr {
    /// The operation.
    pub op: DurationOp,
    /// Left operand, if any; without one, `+` and `-` are signs.
    pub lhs: Option<DurationNode>,
    /// Right operand, if any.
    pub rhs: Option<DurationNode>,
    /// Whether it is in parentheses.
    pub wrapped: bool,
    /// Position, as far as its error messages use it.
    pub span: Span,
}

/// Reason why a duration has no valid value.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DurationError {
    /// NaN or an infinity.
    NotFinite(Span),
    /// Zero or negative where a positive value is required.
    NotPositive(Span),
    /// More than 292 years.
    OutOfRange(Span),
    /// A division by zero.
    DivisionByZero(Span),
    /// A modulo by zero.
    ModuloByZero(Span),
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (span, text) = match self {
            Self::NotFinite(span) => (span, "duration is NaN or infinite"),
            Self::NotPositive(span) => (span, "duration must be greater than 0"),
            Self::OutOfRange(span) => (span, "duration is out of range"),
            Self::DivisionByZero(span) => (span, "division by zero"),
            Self::ModuloByZero(span) => (span, "modulo by zero"),
        };
        // Prometheus prints both ends of the byte range here, not line and column.
        write!(f, "{}:{}: {text}", span.start, span.end)
    }
}

impl std::error::Error for DurationError {}

/// Reports whether `seconds` overflows an `i64` of nanoseconds.
pub(crate) fn out_of_range(seconds: f64) -> bool {
    seconds.abs() > MAX_SECONDS
}

/// Largest number of seconds in an `i64` of nanoseconds: 2^63 / 1e9.
const MAX_SECONDS: f64 = 9_223_372_036.854_775;

impl DurationNode {
    /// Returns the position of the duration.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Number(n) => n.span,
            Self::Expr(e) => e.span,
        }
    }

    fn seconds(&self, step_seconds: f64, range_seconds: f64) -> Result<f64, DurationError> {
        match self {
            Self::Number(n) => Ok(n.value),
            Self::Expr(e) => e.seconds(step_seconds, range_seconds),
        }
    }
}

impl DurationExpr {
    /// Returns the value in nanoseconds, a whole number of milliseconds, for a query with this step and range.
    ///
    /// # Errors
    /// Fails on an invalid duration, and on one that is not positive unless `negative_ok` is set.
    pub fn evaluate(
        &self,
        step_ms: i64,
        range_ms: i64,
        negative_ok: bool,
    ) -> Result<i64, DurationError> {
        let seconds = self.seconds(math::seconds(step_ms), math::seconds(range_ms))?;
        if !seconds.is_finite() {
            return Err(DurationError::NotFinite(self.span));
        }
        if seconds <= 0.0 && !negative_ok {
            return Err(DurationError::NotPositive(self.span));
        }
        if out_of_range(seconds) {
            return Err(DurationError::OutOfRange(self.span));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "in range, and fractions of milliseconds are dropped"
        )]
        let ms = (seconds * 1000.0) as i64;
        Ok(ms.saturating_mul(1_000_000))
    }

    fn seconds(&self, step: f64, range: f64) -> Result<f64, DurationError> {
        let side =
            |node: &Option<DurationNode>| node.as_ref().map_or(Ok(0.0), |n| n.seconds(step, range));
        let (lhs, rhs) = (side(&self.lhs)?, side(&self.rhs)?);
        Ok(match self.op {
            DurationOp::Step => step,
            DurationOp::Range => range,
            DurationOp::MinOf => math::min(lhs, rhs),
            DurationOp::MaxOf => math::max(lhs, rhs),
            DurationOp::Add => lhs + rhs,
            DurationOp::Sub => lhs - rhs,
            DurationOp::Mul => lhs * rhs,
            DurationOp::Div if rhs == 0.0 => return Err(DurationError::DivisionByZero(self.span)),
            DurationOp::Div => lhs / rhs,
            DurationOp::Mod if rhs == 0.0 => return Err(DurationError::ModuloByZero(self.span)),
            DurationOp::Mod => lhs % rhs,
            DurationOp::Pow => narthex_model::math::pow(lhs, rhs),
        })
    }
}
