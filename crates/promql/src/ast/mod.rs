//! The syntax tree of a query.
//!
//! **Invariant:** every node holds its span in the query, a printed tree parses to an equal tree, and a tree is never
//! deeper than `MAX_DEPTH`, so that recursion over it is bounded.

mod duration;
mod pretty;
mod print;
mod selector;
mod walk;

pub use crate::lex::{AggregateOp, BinaryOp};
pub(crate) use duration::out_of_range as duration_out_of_range;
pub use duration::{DurationError, DurationExpr, DurationNode, DurationOp};
pub use selector::{At, Extension, MatrixSelector, SubqueryExpr, VectorSelector};

use crate::{functions::Function, span::Span};

/// The deepest tree the parser builds.
pub const MAX_DEPTH: u32 = 500;

/// The type of an expression's value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ValueType {
    /// No value: an error has been reported.
    None,
    /// One float per step.
    Scalar,
    /// A set of series with one sample each per step.
    Vector,
    /// A set of series with a range of samples each.
    Matrix,
    /// A string.
    String,
}

impl ValueType {
    /// Returns the name used in messages.
    #[must_use]
    pub fn documented(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::String => "string",
        }
    }

    /// Returns the name used in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Scalar => "scalar",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::String => "string",
        }
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// `sum by (a) (x)`
    Aggregate(Box<AggregateExpr>),
    /// `a + on (x) b`
    Binary(Box<BinaryExpr>),
    /// `rate(x[5m])`
    Call(Box<Call>),
    /// `x[5m]`
    Matrix(Box<MatrixSelector>),
    /// `1`, `5m`
    Number(NumberLiteral),
    /// `(x)`
    Paren(Box<ParenExpr>),
    /// `"text"`
    String(StringLiteral),
    /// `x[1h:5m]`
    Subquery(Box<SubqueryExpr>),
    /// `-x`
    Unary(Box<UnaryExpr>),
    /// `x{a="b"}`
    Vector(Box<VectorSelector>),
}

/// An aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateExpr {
    /// The operator.
    pub op: AggregateOp,
    /// The aggregated expression.
    pub expr: Expr,
    /// The parameter, for operators that take one.
    pub param: Option<Expr>,
    /// The labels of `by` or `without`, in the order written.
    pub grouping: Vec<String>,
    /// Whether `grouping` is dropped rather than kept.
    pub without: bool,
    /// Its position.
    pub span: Span,
}

/// A binary operation.
#[derive(Clone, Debug, PartialEq)]
pub struct BinaryExpr {
    /// The operator.
    pub op: BinaryOp,
    /// Left operand.
    pub lhs: Expr,
    /// Right operand.
    pub rhs: Expr,
    /// How series are matched; `None` unless both operands are vectors.
    pub matching: Option<VectorMatching>,
    /// Whether a comparison returns 0 or 1 instead of filtering.
    pub return_bool: bool,
}

/// Number of series of each side in a match.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Cardinality {
    /// One left, one right.
    #[default]
    OneToOne,
    /// Many left, one right: `group_left`.
    ManyToOne,
    /// One left, many right: `group_right`.
    OneToMany,
    /// Any number on both sides: set operators.
    ManyToMany,
}

/// Matching of series between two vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorMatching {
    /// Cardinality of a match.
    pub cardinality: Cardinality,
    /// The labels of `on` or `ignoring`.
    pub labels: Vec<String>,
    /// Whether `labels` must match (`on`) rather than be ignored (`ignoring`).
    pub on: bool,
    /// Labels copied from the "one" side.
    pub include: Vec<String>,
    /// The value for a missing left partner.
    pub fill_left: Option<f64>,
    /// The value for a missing right partner.
    pub fill_right: Option<f64>,
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub function: &'static Function,
    /// The arguments.
    pub args: Vec<Expr>,
    /// Its position.
    pub span: Span,
}

/// A number or a duration used as one.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberLiteral {
    /// The value; seconds for a duration.
    pub value: f64,
    /// Whether it was written as a duration.
    pub is_duration: bool,
    /// Its position.
    pub span: Span,
}

/// An expression in parentheses.
#[derive(Clone, Debug, PartialEq)]
pub struct ParenExpr {
    /// The inner expression.
    pub expr: Expr,
    /// Its position.
    pub span: Span,
}

/// A string.
#[derive(Clone, Debug, PartialEq)]
pub struct StringLiteral {
    /// The bytes; not necessarily UTF-8.
    pub value: Vec<u8>,
    /// Its position.
    pub span: Span,
}

impl StringLiteral {
    /// Returns the text, with invalid UTF-8 replaced by U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.value).into_owned()
    }
}

/// A unary sign.
#[derive(Clone, Debug, PartialEq)]
pub struct UnaryExpr {
    /// Whether the sign is a minus.
    pub negative: bool,
    /// The operand.
    pub expr: Expr,
    /// First byte of the sign.
    pub start: u32,
}

impl Expr {
    /// Returns the type of the expression's value.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Aggregate(_) | Self::Vector(_) => ValueType::Vector,
            Self::Binary(e) => {
                let scalars = e.lhs.value_type() == ValueType::Scalar
                    && e.rhs.value_type() == ValueType::Scalar;
                if scalars {
                    ValueType::Scalar
                } else {
                    ValueType::Vector
                }
            }
            Self::Call(e) => e.function.returns,
            Self::Matrix(_) | Self::Subquery(_) => ValueType::Matrix,
            Self::Number(_) => ValueType::Scalar,
            Self::Paren(e) => e.expr.value_type(),
            Self::String(_) => ValueType::String,
            Self::Unary(e) => e.expr.value_type(),
        }
    }

    /// Returns the expression's position in the query.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Aggregate(e) => e.span,
            Self::Binary(e) => e.lhs.span().to(e.rhs.span()),
            Self::Call(e) => e.span,
            Self::Matrix(e) => Span::new(e.selector.span.start, e.end),
            Self::Number(e) => e.span,
            Self::Paren(e) => e.span,
            Self::String(e) => e.span,
            Self::Subquery(e) => Span::new(e.expr.span().start, e.end),
            Self::Unary(e) => Span::new(e.start, e.expr.span().end),
            Self::Vector(e) => e.span,
        }
    }

    /// Returns the expression without any enclosing parentheses.
    #[must_use]
    pub fn without_parens(&self) -> &Self {
        let mut inner = self;
        while let Self::Paren(paren) = inner {
            inner = &paren.expr;
        }
        inner
    }
}
