//! Fields of protobuf messages.
//!
//! **Invariant:** a reader never leaves its message, and an error has the offset in the body.

use crate::error::{ParseError, ParseErrorKind};
use narthex_model::varint::read_varint;

/// Reads the fields of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    body: &'a [u8],
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// A field's value on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    /// Not used by the format.
    Fixed32,
    Bytes(Reader<'a>),
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self {
            body,
            at: 0,
            end: body.len(),
        }
    }

    /// Returns a reader of the message at `from..end`.
    pub(crate) fn part(body: &'a [u8], from: usize, end: usize) -> Self {
        Self {
            body,
            at: from,
            end: end.min(body.len()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    /// Returns what is left of the message.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..self.end).unwrap_or_default()
    }

    pub(crate) fn error(&self, what: &'static str) -> ParseError {
        ParseError::at(self.body, self.at, ParseErrorKind::Message { what })
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, ParseError> {
        // Tags and most lengths have one byte.
        if let Some(byte @ 0..=0x7f) = self.body.get(self.at)
            && self.at < self.end
        {
            self.at += 1;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, ParseError> {
        if let Some((value, len)) = read_varint(self.rest()) {
            self.at += len;
            return Ok(value);
        }
        Err(self.error("a number that does not end"))
    }

    /// Reads a length and returns a reader of that many bytes, which are skipped here.
    #[inline]
    pub(crate) fn message(&mut self) -> Result<Self, ParseError> {
        let len = self.varint()?;
        let left = self.end - self.at;
        match usize::try_from(len) {
            Ok(len) if len <= left => {
                let part = Self::part(self.body, self.at, self.at + len);
                self.at += len;
                Ok(part)
            }
            _ => Err(self.error("a length beyond the end of its message")),
        }
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        match self.rest().first_chunk() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.error("a number beyond the end of its message")),
        }
    }

    /// Returns the next field; `None` at the end of the message.
    #[inline]
    pub(crate) fn field(&mut self) -> Result<Option<(u64, Value<'a>)>, ParseError> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(self.error("a field with number 0"));
        }
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => Value::Bytes(self.message()?),
            5 => {
                self.fixed::<4>()?;
                Value::Fixed32
            }
            _ => return Err(self.error("a field of an unknown wire type")),
        };
        Ok(Some((number, value)))
    }

    /// Returns the message's bytes as text.
    pub(crate) fn text(&self) -> Result<&'a str, ParseError> {
        std::str::from_utf8(self.rest())
            .map_err(|_| ParseError::at(self.body, self.at, ParseErrorKind::NotUtf8))
    }
}

impl<'a> Value<'a> {
    /// Returns the value of a field of type `double`; 0 when it has another type.
    #[inline]
    pub(crate) fn double(self) -> f64 {
        match self {
            Self::Fixed64(bits) => f64::from_bits(bits),
            _ => 0.0,
        }
    }

    /// Returns the value of a field of an integer type; 0 when it has another type.
    #[inline]
    pub(crate) fn integer(self) -> u64 {
        match self {
            Self::Varint(value) => value,
            _ => 0,
        }
    }

    /// Returns a reader of a field that is a message; an empty one when it has another type.
    #[inline]
    pub(crate) fn message(self) -> Reader<'a> {
        match self {
            Self::Bytes(message) => message,
            _ => Reader::new(&[]),
        }
    }
}
