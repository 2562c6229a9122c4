//! Splits a query into tokens, one at a time.
//!
//! **Invariant:** tokens come in order, do not overlap, and skip only white space and comments; after the first error
//! no further token comes. The meaning of a word or sign depends on the enclosing bracket, so the lexer tracks
//! brackets as Prometheus' does: its error texts are part of the interface.

mod number;
mod string;
mod token;

pub use string::{UnquoteError, unquote};
pub(crate) use token::UNARY_PRECEDENCE;
pub use token::{AggregateOp, BinaryOp, Tok, Token};

use crate::{fmt::quote_char, span::Span};
use regex::Regex;
use std::sync::LazyLock;

/// A lexer over one query.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    input: &'a str,
    pos: usize,
    start: usize,
    parens: u32,
    in_braces: bool,
    in_brackets: bool,
    /// Directly after `[`, before the first number: Prometheus lexes this stretch by separate rules.
    in_duration: bool,
    seen_colon: bool,
    seen_duration: bool,
    /// Whether names may have letters of any script and, after the first character, dots without being quoted.
    unquoted_utf8: bool,
    failure: Option<String>,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer at the first byte of `input`.
    #[must_use]
    pub fn new(input: &'a str) -> Self {
        Self {
            input,
            pos: 0,
            start: 0,
            parens: 0,
            in_braces: false,
            in_brackets: false,
            in_duration: false,
            seen_colon: false,
            seen_duration: false,
            unquoted_utf8: false,
            failure: None,
        }
    }

    /// Returns the same lexer that takes names with letters of any script and dots without quotes, or refuses them.
    #[must_use]
    pub fn with_unquoted_utf8(self, unquoted_utf8: bool) -> Self {
        Self {
            unquoted_utf8,
            ..self
        }
    }

    /// Returns the text being lexed.
    #[must_use]
    pub fn input(&self) -> &'a str {
        self.input
    }

    /// Returns the reason why the last token was `Tok::Error`.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the next token; `Tok::Eof` and `Tok::Error` repeat.
    pub fn next_token(&mut self) -> Token {
        if self.failure.is_some() {
            return self.token(Tok::Error);
        }
        let tok = if self.in_braces {
            self.braces()
        } else if self.in_duration {
            self.duration()
        } else {
            self.statement()
        };
        match tok {
            Ok(tok) => self.token(tok),
            Err(reason) => {
                self.failure = Some(reason);
                // An error token extends to the end of the text: nothing after it was lexed.
                Token {
                    tok: Tok::Error,
                    span: self.span_to(self.input.len()),
                }
            }
        }
    }

    fn token(&self, tok: Tok) -> Token {
        Token {
            tok,
            span: self.span_to(self.pos),
        }
    }

    fn span_to(&self, end: usize) -> Span {
        // The parser bounds queries far below 4 GiB.
        Span::new(
            u32::try_from(self.start).unwrap_or(u32::MAX),
            u32::try_from(end).unwrap_or(u32::MAX),
        )
    }

    fn statement(&mut self) -> Result<Tok, String> {
        self.skip_blanks();
        let Some(c) = self.next_char() else {
            return self.end_of_statement();
        };
        let tok = match c {
            ',' => Tok::Comma,
            '*' => Tok::Op(BinaryOp::Mul),
            '/' => Tok::Op(BinaryOp::Div),
            '%' => Tok::Op(BinaryOp::Mod),
            '+' => Tok::Op(BinaryOp::Add),
            '-' => Tok::Op(BinaryOp::Sub),
            '^' => Tok::Op(BinaryOp::Pow),
            '@' => Tok::At,
            '=' => match self.peek_char() {
                Some('=') => self.consume(Tok::Op(BinaryOp::Eq)),
                Some('~') => return unexpected(" after '='", Some('~')),
                _ => Tok::Assign,
            },
            '!' => match self.next_char() {
                Some('=') => Tok::Op(BinaryOp::Ne),
                c => return unexpected(" after '!'", c),
            },
            '<' => self.one_of(
                &[('=', BinaryOp::Le), ('/', BinaryOp::TrimUpper)],
                BinaryOp::Lt,
            ),
            '>' => self.one_of(
                &[('=', BinaryOp::Ge), ('/', BinaryOp::TrimLower)],
                BinaryOp::Gt,
            ),
            '"' | '\'' | '`' => return self.string(c),
            '(' => {
                self.parens += 1;
                Tok::LeftParen
            }
            ')' => return self.right_paren(),
            '{' => {
                self.in_braces = true;
                Tok::LeftBrace
            }
            '[' => return self.left_bracket(),
            ']' if !self.in_brackets => return Err("unexpected right bracket ']'".to_owned()),
            ']' => {
                self.in_brackets = false;
                Tok::RightBracket
            }
            c if c.is_ascii_digit()
                || (c == '.' && self.peek_char().is_some_and(|c| c.is_ascii_digit())) =>
            {
                self.pos -= 1;
                return self.number_or_duration();
            }
            c if self.begins_name(c) || c == ':' => {
                return if self.in_brackets {
                    self.word_in_brackets(c)
                } else {
                    Ok(self.word())
                };
            }
            c => return unexpected("", Some(c)),
        };
        Ok(tok)
    }

    fn end_of_statement(&mut self) -> Result<Tok, String> {
        if self.parens != 0 {
            Err("unclosed left parenthesis".to_owned())
        } else if self.in_brackets {
            Err("unclosed left bracket".to_owned())
        } else {
            Ok(Tok::Eof)
        }
    }

    fn right_paren(&mut self) -> Result<Tok, String> {
        match self.parens.checked_sub(1) {
            Some(parens) => {
                self.parens = parens;
                Ok(Tok::RightParen)
            }
            None => {
                // Prometheus reports the error after the parenthesis.
                self.start = self.pos;
                Err("unexpected right parenthesis ')'".to_owned())
            }
        }
    }

    fn left_bracket(&mut self) -> Result<Tok, String> {
        if self.in_brackets {
            return Err("unexpected left bracket '['".to_owned());
        }
        self.seen_colon = false;
        self.in_brackets = true;
        self.in_duration = true;
        Ok(Tok::LeftBracket)
    }

    /// Lexes the text between `[` and the first number or duration after it.
    fn duration(&mut self) -> Result<Tok, String> {
        self.skip_spaces();
        let Some(c) = self.next_char() else {
            return Err("unexpected end of input in duration expression".to_owned());
        };
        Ok(match c {
            ']' => {
                self.in_brackets = false;
                self.in_duration = false;
                self.seen_colon = false;
                Tok::RightBracket
            }
            ':' => {
                if !self.seen_duration {
                    self.start = self.pos;
                    return Err(
                        "unexpected colon before duration in duration expression".to_owned()
                    );
                }
                if self.seen_colon {
                    self.start = self.pos;
                    return Err("unexpected repeated colon in duration expression".to_owned());
                }
                self.seen_colon = true;
                Tok::Colon
            }
            '(' => {
                self.parens += 1;
                Tok::LeftParen
            }
            ')' => return self.right_paren(),
            '+' => Tok::Op(BinaryOp::Add),
            '-' => Tok::Op(BinaryOp::Sub),
            '*' => Tok::Op(BinaryOp::Mul),
            '/' => Tok::Op(BinaryOp::Div),
            '%' => Tok::Op(BinaryOp::Mod),
            '^' => Tok::Op(BinaryOp::Pow),
            ',' => Tok::Comma,
            c if c.is_ascii_digit()
                || (c == '.' && self.peek_char().is_some_and(|c| c.is_ascii_digit())) =>
            {
                self.pos -= 1;
                self.seen_duration = true;
                self.in_duration = false;
                return self.number_or_duration();
            }
            c => match self.duration_keyword(c) {
                Some(tok) => {
                    self.seen_duration = true;
                    tok
                }
                None => return unexpected(" in duration expression", Some(c)),
            },
        })
    }

    fn word_in_brackets(&mut self, c: char) -> Result<Tok, String> {
        if c == ':' {
            if self.seen_colon {
                return Err("unexpected colon ':'".to_owned());
            }
            self.seen_colon = true;
            return Ok(Tok::Colon);
        }
        self.duration_keyword(c).ok_or_else(|| {
            format!(
                "unexpected character: {}, expected ':'",
                quote_char(Some(c))
            )
        })
    }

    /// Lexes `step`, `range`, `min_of` or `max_of`, whose first letter `first` has been read.
    fn duration_keyword(&mut self, first: char) -> Option<Tok> {
        if !matches!(first.to_ascii_lowercase(), 's' | 'r' | 'm') {
            return None;
        }
        while self.peek_char().is_some_and(is_alpha) {
            self.pos += 1;
        }
        match token::keyword(&self.input[self.start..self.pos])? {
            tok @ (Tok::Step | Tok::Range | Tok::MinOf | Tok::MaxOf) => Some(tok),
            _ => None,
        }
    }

    fn word(&mut self) -> Tok {
        while self
            .peek_char()
            .is_some_and(|c| self.continues_name(c) || c == ':')
        {
            self.next_char();
        }
        let word = &self.input[self.start..self.pos];
        match token::keyword(word) {
            // Keeps metrics called `fill` working.
            Some(Tok::Fill | Tok::FillLeft | Tok::FillRight) if !self.paren_follows() => Tok::Ident,
            Some(tok) => tok,
            None if word.contains(':') => Tok::MetricIdent,
            None => Tok::Ident,
        }
    }

    fn begins_name(&self, c: char) -> bool {
        is_alpha(c) || (self.unquoted_utf8 && is_letter(c))
    }

    fn continues_name(&self, c: char) -> bool {
        self.begins_name(c) || c.is_ascii_digit() || (self.unquoted_utf8 && c == '.')
    }

    fn paren_follows(&self) -> bool {
        self.input[self.pos..]
            .trim_start_matches(is_space)
            .starts_with('(')
    }

    /// Lexes the text between `{` and `}`, where all words are identifiers.
    fn braces(&mut self) -> Result<Tok, String> {
        self.skip_blanks();
        let Some(c) = self.next_char() else {
            return Err("unexpected end of input inside braces".to_owned());
        };
        Ok(match c {
            ',' => Tok::Comma,
            '"' | '\'' | '`' => return self.string(c),
            '=' if self.peek_char() == Some('~') => self.consume(Tok::MatchRegex),
            '=' => Tok::Assign,
            '!' => match self.next_char() {
                Some('~') => Tok::MatchNotRegex,
                Some('=') => Tok::Op(BinaryOp::Ne),
                c => return unexpected(" after '!' inside braces", c),
            },
            '{' => return Err("unexpected left brace '{'".to_owned()),
            '}' => {
                self.in_braces = false;
                Tok::RightBrace
            }
            c if self.begins_name(c) => {
                while self.peek_char().is_some_and(|c| self.continues_name(c)) {
                    self.next_char();
                }
                Tok::Ident
            }
            c => return unexpected(" inside braces", Some(c)),
        })
    }

    fn one_of(&mut self, pairs: &[(char, BinaryOp)], otherwise: BinaryOp) -> Tok {
        let next = self.peek_char();
        match pairs.iter().find(|(c, _)| Some(*c) == next) {
            Some((_, op)) => self.consume(Tok::Op(*op)),
            None => Tok::Op(otherwise),
        }
    }

    fn consume(&mut self, tok: Tok) -> Tok {
        self.next_char();
        tok
    }

    /// Skips white space and comments and starts the next token after them.
    fn skip_blanks(&mut self) {
        loop {
            self.skip_spaces();
            if !self.input[self.pos..].starts_with('#') {
                return;
            }
            let rest = &self.input[self.pos..];
            self.pos += rest.find(['\r', '\n']).unwrap_or(rest.len());
        }
    }

    fn skip_spaces(&mut self) {
        let rest = &self.input[self.pos..];
        self.pos += rest.len() - rest.trim_start_matches(is_space).len();
        self.start = self.pos;
    }

    fn peek_char(&self) -> Option<char> {
        self.input[self.pos..].chars().next()
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.peek_char()?;
        self.pos += c.len_utf8();
        Some(c)
    }
}

fn unexpected(place: &str, c: Option<char>) -> Result<Tok, String> {
    Err(format!("unexpected character{place}: {}", quote_char(c)))
}

pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_alpha(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic()
}

/// Reports whether a character is a letter of a script other than ASCII's.
fn is_letter(c: char) -> bool {
    static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
    let is_letter = |letter: &Regex| letter.is_match(c.encode_utf8(&mut [0; 4]));
    !c.is_ascii() && LETTER.as_ref().is_some_and(is_letter)
}

fn is_alphanumeric(c: char) -> bool {
    is_alpha(c) || c.is_ascii_digit()
}
