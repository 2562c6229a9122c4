//! Splits a template into tokens, as Go's `text/template/parse` does.
//!
//! **Invariant:** positions are bytes, lines count from 1; after an error there is nothing but the end.

use narthex_promql::fmt::{quote, unicode_point};
use std::fmt;

/// The class of a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    Error,
    Bool,
    /// A printable character without a meaning of its own, such as the comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Dot,
    /// Any other keyword.
    Keyword,
}

/// A token.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) class: Class,
    pub(super) at: usize,
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    /// Reports whether the token is this keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.class == Class::Keyword && self.text == keyword
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Class::Eof => f.write_str("EOF"),
            Class::Error => f.write_str(&self.text),
            Class::Keyword | Class::Dot => write!(f, "<{}>", self.text),
            _ if self.text.len() > 10 => {
                let short: String = self.text.chars().take(10).collect();
                write!(f, "{}...", quote(&short))
            }
            _ => f.write_str(&quote(&self.text)),
        }
    }
}

const KEYWORDS: [&str; 11] = [
    "block", "break", "continue", "define", "else", "end", "if", "range", "nil", "template", "with",
];

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Reads tokens one after the other.
pub(super) struct Lexer<'a> {
    input: &'a str,
    pos: usize,
    start: usize,
    line: usize,
    start_line: usize,
    parens: usize,
    inside: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a str) -> Self {
        Self {
            input,
            pos: 0,
            start: 0,
            line: 1,
            start_line: 1,
            parens: 0,
            inside: false,
        }
    }

    pub(super) fn token(&mut self) -> Token {
        if self.inside {
            self.inside_action()
        } else {
            self.text()
        }
    }

    fn rest(&self) -> &'a str {
        self.input.get(self.pos..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        Some(c)
    }

    fn accept(&mut self, valid: &str) -> bool {
        let accepted = self.peek().is_some_and(|c| valid.contains(c));
        if accepted {
            self.bump();
        }
        accepted
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    /// Returns the token that ends here and begins the next one.
    fn emit(&mut self, class: Class) -> Token {
        let text = self.input.get(self.start..self.pos).unwrap_or_default();
        let token = Token {
            class,
            at: self.start,
            text: text.to_owned(),
            line: self.start_line,
        };
        self.skip();
        token
    }

    /// Begins the next token here.
    fn skip(&mut self) {
        let text = self.input.get(self.start..self.pos).unwrap_or_default();
        self.line += text.matches('\n').count();
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn error(&mut self, message: impl Into<String>) -> Token {
        let token = Token {
            class: Class::Error,
            at: self.start,
            text: message.into(),
            line: self.start_line,
        };
        (self.input, self.pos, self.start) = ("", 0, 0);
        token
    }

    /// Text up to the next action.
    fn text(&mut self) -> Token {
        loop {
            let Some(length) = self.rest().find("{{") else {
                self.pos = self.input.len();
                let class = if self.pos > self.start {
                    Class::Text
                } else {
                    Class::Eof
                };
                let mut token = self.emit(class);
                if class == Class::Eof {
                    token.text = "EOF".to_owned();
                }
                return token;
            };
            let end = self.pos + length;
            let before = self.input.get(self.start..end).unwrap_or_default();
            let behind = self.input.get(end + 2..).unwrap_or_default();
            self.pos = self.start + before.len();
            if trims_left(behind) {
                self.pos = self.start + before.trim_end_matches(SPACES).len();
            }
            let token = (self.pos > self.start).then(|| self.emit(Class::Text));
            self.pos = end;
            self.skip();
            if let Some(token) = token {
                return token;
            }
            if let Some(token) = self.left_delim() {
                return token;
            }
        }
    }

    /// The beginning of an action; `None` behind a comment.
    fn left_delim(&mut self) -> Option<Token> {
        self.pos += 2;
        let marker = if trims_left(self.rest()) { 2 } else { 0 };
        if self
            .rest()
            .get(marker..)
            .is_some_and(|rest| rest.starts_with("/*"))
        {
            self.pos += marker;
            self.skip();
            return self.comment();
        }
        let token = self.emit(Class::LeftDelim);
        self.inside = true;
        self.pos += marker;
        self.skip();
        self.parens = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token> {
        let Some(length) = self.rest().get(2..).and_then(|rest| rest.find("*/")) else {
            return Some(self.error("unclosed comment"));
        };
        self.pos += length + 4;
        let Some(trims) = self.at_right_delim() else {
            return Some(self.error("comment ends before closing delimiter"));
        };
        self.pos += if trims { 4 } else { 2 };
        if trims {
            self.trim_start();
        }
        self.skip();
        None
    }

    fn trim_start(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - rest.trim_start_matches(SPACES).len();
    }

    /// Returns whether the closing delimiter here trims; `None` if there is none.
    fn at_right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if rest.starts_with("}}") {
            return Some(false);
        }
        let marked = rest.strip_prefix(SPACES)?.strip_prefix('-')?;
        marked.starts_with("}}").then_some(true)
    }

    fn right_delim(&mut self, trims: bool) -> Token {
        if trims {
            self.pos += 2;
            self.skip();
        }
        self.pos += 2;
        let token = self.emit(Class::RightDelim);
        if trims {
            self.trim_start();
            self.skip();
        }
        self.inside = false;
        token
    }

    fn inside_action(&mut self) -> Token {
        if let Some(trims) = self.at_right_delim() {
            if self.parens == 0 {
                return self.right_delim(trims);
            }
            return self.error("unclosed left paren");
        }
        let Some(c) = self.peek() else {
            return self.error("unclosed action");
        };
        if SPACES.contains(&c) {
            return self.space();
        }
        if matches!(c, '+' | '-') || c.is_ascii_digit() {
            return self.number();
        }
        self.bump();
        match c {
            '=' => self.emit(Class::Assign),
            ':' => {
                if self.bump() == Some('=') {
                    self.emit(Class::Declare)
                } else {
                    self.error("expected :=")
                }
            }
            '|' => self.emit(Class::Pipe),
            '"' => self.quoted('"', Class::String, "unterminated quoted string"),
            '\'' => self.quoted('\'', Class::CharConstant, "unterminated character constant"),
            '`' => match self.rest().find('`') {
                Some(length) => {
                    self.pos += length + 1;
                    self.emit(Class::RawString)
                }
                None => self.error("unterminated raw quoted string"),
            },
            '$' => self.field_or_variable(Class::Variable),
            // As in Go, a dot at the end of the text begins a number.
            '.' if self.peek().is_none_or(|c| c.is_ascii_digit()) => {
                self.pos -= 1;
                self.number()
            }
            '.' => self.field_or_variable(Class::Field),
            c if is_alphanumeric(c) => self.identifier(),
            '(' => {
                self.parens += 1;
                self.emit(Class::LeftParen)
            }
            ')' if self.parens == 0 => self.error("unexpected right paren"),
            ')' => {
                self.parens -= 1;
                self.emit(Class::RightParen)
            }
            ' '..='~' => self.emit(Class::Char),
            c => self.error(format!(
                "unrecognized character in action: {}",
                unicode_point(c)
            )),
        }
    }

    fn space(&mut self) -> Token {
        self.trim_start();
        let marked = self.rest().strip_prefix('-');
        if marked.is_some_and(|rest| rest.starts_with("}}")) {
            // The last space belongs to the trim marker; all spaces are one byte.
            self.pos -= 1;
            if self.pos == self.start {
                return self.right_delim(true);
            }
        }
        self.emit(Class::Space)
    }

    fn quoted(&mut self, end: char, class: Class, unterminated: &str) -> Token {
        loop {
            match self.bump() {
                None | Some('\n') => return self.error(unterminated),
                Some('\\') if matches!(self.bump(), None | Some('\n')) => {
                    return self.error(unterminated);
                }
                Some(c) if c == end => return self.emit(class),
                Some(_) => {}
            }
        }
    }

    fn identifier(&mut self) -> Token {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if let Some(token) = self.unterminated() {
            return token;
        }
        let word = self.input.get(self.start..self.pos).unwrap_or_default();
        let class = match word {
            "true" | "false" => Class::Bool,
            word if KEYWORDS.contains(&word) => Class::Keyword,
            _ => Class::Identifier,
        };
        self.emit(class)
    }

    fn field_or_variable(&mut self, class: Class) -> Token {
        if self.at_terminator() {
            return self.emit(if class == Class::Field {
                Class::Dot
            } else {
                class
            });
        }
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        self.unterminated().unwrap_or_else(|| self.emit(class))
    }

    /// Returns an error unless a word may end here.
    fn unterminated(&mut self) -> Option<Token> {
        if self.at_terminator() {
            return None;
        }
        let c = self.peek()?;
        Some(self.error(format!("bad character {}", unicode_point(c))))
    }

    fn at_terminator(&self) -> bool {
        self.peek()
            .is_none_or(|c| SPACES.contains(&c) || ".,|:)(".contains(c))
            || self.rest().starts_with("}}")
    }

    fn number(&mut self) -> Token {
        let mut class = Class::Number;
        let mut valid = self.scan_number();
        if valid && matches!(self.peek(), Some('+' | '-')) {
            class = Class::Complex;
            valid =
                self.scan_number() && self.input.get(..self.pos).is_some_and(|s| s.ends_with('i'));
        }
        if valid {
            return self.emit(class);
        }
        let text = self.input.get(self.start..self.pos).unwrap_or_default();
        self.error(format!("bad number syntax: {}", quote(text)))
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        let exponent = match digits.len() {
            11 => "eE",
            23 => "pP",
            _ => "",
        };
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        let ends = !self.peek().is_some_and(is_alphanumeric);
        if !ends {
            self.bump();
        }
        ends
    }
}

fn trims_left(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(SPACES))
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
