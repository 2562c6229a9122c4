//! The chunked transfer coding (RFC 9112 §7.1), decoded in place.
//!
//! ```text
//! body    = *( size [ ";" extension ] CRLF data CRLF ) "0" [ ";" extension ] CRLF *( trailer CRLF ) CRLF
//! ```
//! Invariant: `buffer[..done]` contains only decoded body; no chunk that would exceed the limit is started, and the
//! size of extensions and trailers is bounded.

use crate::error::{NetError, malformed};

/// Most bytes of extensions and trailers in one body, all chunks together, beyond a fair share per chunk.
const MAX_LINE_BYTES: u32 = 8 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the digits of the size, with the number read so far.
    Size {
        digits: u8,
    },
    /// In the rest of the size line.
    Extension,
    /// After the size line's CR.
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line, or of the final empty line.
    TrailerStart,
    Trailer,
    EndLf,
    End,
}

#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    /// For the current chunk: the size read so far, then the remaining data bytes.
    left: u64,
    line_bytes: u32,
    limit_bytes: u64,
}

impl Chunked {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            state: State::Size { digits: 0 },
            left: 0,
            line_bytes: 0,
            limit_bytes: limit_bytes as u64,
        }
    }

    pub(super) fn is_end(&self) -> bool {
        self.state == State::End
    }

    /// Decodes `buffer[*done..]`, which must be undecoded input, moving the data down to `*done`.
    ///
    /// Returns the number of input bytes after the body's end: zero unless [`Chunked::is_end`].
    pub(super) fn advance(
        &mut self,
        buffer: &mut [u8],
        done: &mut usize,
    ) -> Result<usize, NetError> {
        let mut at = *done;
        while let Some(&byte) = buffer.get(at) {
            match self.state {
                State::Data => {
                    let here =
                        (buffer.len() - at).min(usize::try_from(self.left).unwrap_or(usize::MAX));
                    if at != *done {
                        buffer.copy_within(at..at + here, *done);
                    }
                    *done += here;
                    at += here;
                    self.left -= here as u64;
                    if self.left == 0 {
                        self.state = State::DataCr;
                    }
                }
                State::End => return Ok(buffer.len() - at),
                _ => {
                    self.state = self.step(byte, *done)?;
                    at += 1;
                }
            }
        }
        Ok(0)
    }

    fn step(&mut self, byte: u8, done: usize) -> Result<State, NetError> {
        match (self.state, byte) {
            (State::Size { digits }, byte) if byte.is_ascii_hexdigit() => self.digit(byte, digits),
            (State::Size { digits: 1.. }, b'\r') => Ok(State::SizeLf),
            (State::Size { digits: 1.. }, b'\n') => self.begin(done),
            (State::Size { digits: 1.. }, b';' | b' ' | b'\t') => Ok(State::Extension),
            (State::Extension, b'\r') => Ok(State::SizeLf),
            (State::Extension, b'\n') | (State::SizeLf, b'\n') => self.begin(done),
            (State::Extension, _) => self.skip(State::Extension),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataCr | State::DataLf, b'\n') => {
                self.left = 0;
                Ok(State::Size { digits: 0 })
            }
            (State::TrailerStart, b'\r') => Ok(State::EndLf),
            (State::TrailerStart | State::EndLf, b'\n') => Ok(State::End),
            (State::Trailer, b'\n') => Ok(State::TrailerStart),
            (State::TrailerStart | State::Trailer, _) => self.skip(State::Trailer),
            _ => Err(malformed("malformed chunked encoding")),
        }
    }

    fn digit(&mut self, byte: u8, digits: u8) -> Result<State, NetError> {
        if digits == 16 {
            return Err(malformed("chunk size too long"));
        }
        let value = char::from(byte)
            .to_digit(16)
            .expect("the caller saw a hexadecimal digit");
        self.left = self.left << 4 | u64::from(value);
        Ok(State::Size { digits: digits + 1 })
    }

    /// Starts a chunk after its size line.
    fn begin(&mut self, done: usize) -> Result<State, NetError> {
        if self.left == 0 {
            return Ok(State::TrailerStart);
        }
        if self.left > self.limit_bytes.saturating_sub(done as u64) {
            let limit_bytes = usize::try_from(self.limit_bytes).unwrap_or(usize::MAX);
            return Err(NetError::BodyTooLarge { limit_bytes });
        }
        Ok(State::Data)
    }

    fn skip(&mut self, state: State) -> Result<State, NetError> {
        self.line_bytes += 1;
        if self.line_bytes > MAX_LINE_BYTES {
            return Err(malformed("chunk extensions or trailers too long"));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests;
