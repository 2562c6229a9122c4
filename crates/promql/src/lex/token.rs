//! Tokens of the query language.
//!
//! **Invariant:** a token's text is exactly the bytes of its span; nothing is unescaped here.

use crate::span::Span;

/// Kind of a token.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Tok {
    /// The end of the query.
    Eof,
    /// A lexical error; the lexer keeps the reason.
    Error,
    /// A word without colons.
    Ident,
    /// A word with colons.
    MetricIdent,
    /// A quoted string, quotes included.
    Str,
    /// A number, including `Inf` and `NaN`.
    Number,
    /// A duration such as `5m`.
    Duration,
    /// Punctuation: one variant for each sign.
    Comma,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `{`
    LeftBrace,
    /// `}`
    RightBrace,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `:`
    Colon,
    /// `=`
    Assign,
    /// `=~`
    MatchRegex,
    /// `!~`
    MatchNotRegex,
    /// `@`
    At,
    /// A binary operator.
    Op(BinaryOp),
    /// An aggregation operator.
    Aggregator(AggregateOp),
    /// `bool`
    Bool,
    /// `by`
    By,
    /// `without`
    Without,
    /// `on`
    On,
    /// `ignoring`
    Ignoring,
    /// `group_left`
    GroupLeft,
    /// `group_right`
    GroupRight,
    /// `fill`
    Fill,
    /// `fill_left`
    FillLeft,
    /// `fill_right`
    FillRight,
    /// `offset`
    Offset,
    /// `anchored`
    Anchored,
    /// `smoothed`
    Smoothed,
    /// `start`
    Start,
    /// `end`
    End,
    /// `step`
    Step,
    /// `range`
    Range,
    /// `max_of`
    MaxOf,
    /// `min_of`
    MinOf,
}

impl Tok {
    /// Reports whether the token is a word that modifies what is before or after it.
    fn is_modifier(self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::By
                | Self::Without
                | Self::On
                | Self::Ignoring
                | Self::GroupLeft
                | Self::GroupRight
                | Self::Fill
                | Self::FillLeft
                | Self::FillRight
                | Self::Offset
                | Self::Anchored
                | Self::Smoothed
        )
    }

    /// Reports whether the token is a word that may be a label name: all but `inf` and `nan`.
    pub(crate) fn is_word(self) -> bool {
        self.is_modifier()
            || matches!(
                self,
                Self::Ident
                    | Self::MetricIdent
                    | Self::Aggregator(_)
                    | Self::Op(BinaryOp::And | BinaryOp::Or | BinaryOp::Unless | BinaryOp::Atan2)
                    | Self::Start
                    | Self::End
                    | Self::Step
                    | Self::Range
                    | Self::MaxOf
                    | Self::MinOf
            )
    }

    /// Reports whether the token may be a metric name: a word that does not belong between operands.
    pub(crate) fn is_metric_name(self) -> bool {
        self.is_word()
            && !matches!(
                self,
                Self::Op(BinaryOp::Atan2)
                    | Self::Bool
                    | Self::On
                    | Self::Ignoring
                    | Self::GroupLeft
                    | Self::GroupRight
            )
    }
}

narthex_model::named! {
    /// Binary operators, set operators included.
    #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
    #[expect(missing_docs, reason = "each is the operator its name says")]
    pub enum BinaryOp {
        Add = "+",
        Sub = "-",
        Mul = "*",
        Div = "/",
        Mod = "%",
        Pow = "^",
        Atan2 = "atan2",
        Eq = "==",
        Ne = "!=",
        Gt = ">",
        Lt = "<",
        Ge = ">=",
        Le = "<=",
        /// `</`: keep a histogram's observations below.
        TrimUpper = "</",
        /// `>/`: keep a histogram's observations above.
        TrimLower = ">/",
        And = "and",
        Or = "or",
        Unless = "unless",
    }
}

impl BinaryOp {
    /// Reports whether the operator is `==`, `!=`, `<`, `<=`, `>` or `>=`.
    #[must_use]
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Eq | Self::Ne | Self::Gt | Self::Lt | Self::Ge | Self::Le
        )
    }

    /// Reports whether the operator is `and`, `or` or `unless`.
    #[must_use]
    pub fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }

    /// Reports whether the result measures something other than the operands, so that it loses their name.
    #[must_use]
    pub fn changes_meaning(self) -> bool {
        matches!(
            self,
            Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Mod | Self::Pow | Self::Atan2
        )
    }

    /// Returns the operator's precedence, 1 being the lowest.
    pub(crate) fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And | Self::Unless => 2,
            Self::Eq
            | Self::Ne
            | Self::Gt
            | Self::Lt
            | Self::Ge
            | Self::Le
            | Self::TrimUpper
            | Self::TrimLower => 3,
            Self::Add | Self::Sub => 4,
            Self::Mul | Self::Div | Self::Mod | Self::Atan2 => UNARY_PRECEDENCE,
            Self::Pow => 6,
        }
    }
}

/// Unary signs bind like multiplication: `-a^b` is `-(a^b)`, `-a*b` is `(-a)*b`.
pub(crate) const UNARY_PRECEDENCE: u8 = 5;

narthex_model::named! {
    /// Aggregation operators.
    #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
    #[expect(missing_docs, reason = "each is the operator its name says")]
    pub enum AggregateOp {
        Sum = "sum",
        Avg = "avg",
        Count = "count",
        Min = "min",
        Max = "max",
        Group = "group",
        Stddev = "stddev",
        Stdvar = "stdvar",
        Topk = "topk",
        Bottomk = "bottomk",
        CountValues = "count_values",
        Quantile = "quantile",
        Limitk = "limitk",
        LimitRatio = "limit_ratio",
    }
}

impl AggregateOp {
    /// Reports whether the first of two arguments is a parameter.
    #[must_use]
    pub fn takes_parameter(self) -> bool {
        matches!(
            self,
            Self::Topk
                | Self::Bottomk
                | Self::CountValues
                | Self::Quantile
                | Self::Limitk
                | Self::LimitRatio
        )
    }

    /// Reports whether Prometheus keeps the operator behind a feature flag.
    #[must_use]
    pub fn is_experimental(self) -> bool {
        matches!(self, Self::Limitk | Self::LimitRatio)
    }
}

/// Looks up a keyword, ignoring case.
pub(crate) fn keyword(word: &str) -> Option<Tok> {
    // No keyword is longer; the bound avoids copying long identifiers.
    if word.len() > 12 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    if let Some(op) = AggregateOp::ALL.into_iter().find(|op| op.as_str() == word) {
        return Some(Tok::Aggregator(op));
    }
    Some(match word.as_str() {
        "and" => Tok::Op(BinaryOp::And),
        "or" => Tok::Op(BinaryOp::Or),
        "unless" => Tok::Op(BinaryOp::Unless),
        "atan2" => Tok::Op(BinaryOp::Atan2),
        "offset" => Tok::Offset,
        "smoothed" => Tok::Smoothed,
        "anchored" => Tok::Anchored,
        "by" => Tok::By,
        "without" => Tok::Without,
        "on" => Tok::On,
        "ignoring" => Tok::Ignoring,
        "group_left" => Tok::GroupLeft,
        "group_right" => Tok::GroupRight,
        "fill" => Tok::Fill,
        "fill_left" => Tok::FillLeft,
        "fill_right" => Tok::FillRight,
        "bool" => Tok::Bool,
        "start" => Tok::Start,
        "end" => Tok::End,
        "step" => Tok::Step,
        "range" => Tok::Range,
        "max_of" => Tok::MaxOf,
        "min_of" => Tok::MinOf,
        "inf" | "nan" => Tok::Number,
        _ => return None,
    })
}

/// A token and its position.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Token {
    /// Its kind.
    pub tok: Tok,
    /// Its position.
    pub span: Span,
}

impl Token {
    /// Describes the token for "unexpected …" messages.
    pub(crate) fn describe(&self, query: &str) -> String {
        let text = query
            .get(self.span.start as usize..self.span.end as usize)
            .unwrap_or_default();
        match self.tok {
            Tok::Eof => "end of input".to_owned(),
            Tok::Error => "error".to_owned(),
            Tok::Ident => format!("identifier {}", crate::fmt::quote(text)),
            Tok::MetricIdent => format!("metric identifier {}", crate::fmt::quote(text)),
            Tok::Str => format!("string {}", shortened(text)),
            Tok::Number => format!("number {}", shortened(text)),
            Tok::Duration => format!("duration {}", shortened(text)),
            Tok::Op(_) | Tok::MatchRegex | Tok::MatchNotRegex | Tok::At => format!("<op:{text}>"),
            Tok::Aggregator(_) => format!("<aggr:{text}>"),
            tok if tok.is_modifier() => format!("<{text}>"),
            _ => shortened(text),
        }
    }
}

fn shortened(text: &str) -> String {
    if text.len() > 10 {
        let short: String = text.chars().take(10).collect();
        format!("{}...", crate::fmt::quote(&short))
    } else {
        crate::fmt::quote(text)
    }
}
