//! Numbers and durations.
//!
//! ```text
//! number   = ["0" ("x"|"X") ["_"]] ["."] [digit] { digit | "." | "_" | ("e"|"E") ["+"|"-"] }
//! duration = digits unit { digits unit }         unit = ("s"|"m"|"h"|"d"|"w"|"y") ["s"]
//! ```
//!
//! **Invariant:** a scanned number may still be invalid (`0x`, `1e`): the parser decides, as in Prometheus.

use super::{Lexer, Tok, is_alphanumeric};
use crate::fmt::quote;

impl Lexer<'_> {
    pub(super) fn number_or_duration(&mut self) -> Result<Tok, String> {
        if self.scan_number() {
            return Ok(Tok::Number);
        }
        if self.scan_duration_tail() {
            return Ok(Tok::Duration);
        }
        Err(format!(
            "bad number or duration syntax: {}",
            quote(&self.input[self.start..self.pos])
        ))
    }

    /// Scans from the unit after the first digits; returns `false` at the position of an error.
    fn scan_duration_tail(&mut self) -> bool {
        if !self.accept(b"smhdwy") {
            return false;
        }
        // The second letter of `ms`; an invalid unit such as `hs` is rejected when the duration is parsed.
        self.accept(b"s");
        while self.accept_run(b"0123456789") {
            if !self.accept(b"smhdw") {
                return false;
            }
            self.accept(b"s");
        }
        if self.peek_char().is_some_and(is_alphanumeric) {
            self.pos += 1;
            return false;
        }
        true
    }

    fn scan_number(&mut self) -> bool {
        let begin = self.pos;
        let mut digits: &[u8] = b"0123456789";
        let hexadecimal = self.accept(b"0") && self.accept(b"xX");
        if hexadecimal {
            self.accept(b"_");
            digits = b"0123456789abcdefABCDEF";
        }
        self.accept(b".");
        self.accept(digits);
        let (mut seen_dot, mut seen_exponent) = (false, false);
        while let Some(byte) = self
            .byte()
            .filter(|b| digits.contains(b) || b"._eE".contains(b))
        {
            // In a hexadecimal number `e` is a digit, but may occur only once, as in Prometheus' lexer.
            if (byte == b'.' && seen_dot) || (matches!(byte, b'e' | b'E') && seen_exponent) {
                self.pos += 1;
                return false;
            }
            match byte {
                b'.' => {
                    seen_dot = true;
                    self.pos += 1;
                    if self.accept(b"_.") || hexadecimal {
                        return false;
                    }
                }
                b'e' | b'E' => {
                    seen_exponent = true;
                    self.pos += 1;
                    self.accept(b"+-");
                    if self.accept(b"._eE") || self.byte().is_none() {
                        return false;
                    }
                }
                b'_' => {
                    self.pos += 1;
                    if self.accept(b"._eE") || self.byte().is_none() {
                        return false;
                    }
                }
                _ => {
                    self.accept_run(digits);
                }
            }
        }
        self.pos != begin && !self.peek_char().is_some_and(is_alphanumeric)
    }

    fn byte(&self) -> Option<u8> {
        self.input.as_bytes().get(self.pos).copied()
    }

    fn accept(&mut self, set: &[u8]) -> bool {
        let hit = self.byte().is_some_and(|b| set.contains(&b));
        self.pos += usize::from(hit);
        hit
    }

    fn accept_run(&mut self, set: &[u8]) -> bool {
        let begin = self.pos;
        while self.accept(set) {}
        self.pos != begin
    }
}
