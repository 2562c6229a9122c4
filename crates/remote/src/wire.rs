//! Protobuf reader over slices.
//!
//! **Invariant:** nothing is allocated or copied; a length never reaches past its message; unknown fields are skipped,
//! including groups, without recursion.

use crate::error::RemoteError;
use narthex_model::varint::{MAX_VARINT_BYTES, read_varint, unzigzag};

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// Reads the fields of one message in order.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

type Outcome<T> = Result<T, RemoteError>;

impl<'a> Reader<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Skips consecutive fields with this one-byte tag of a length-delimited field; returns their number.
    #[inline]
    pub(crate) fn skip_run(&mut self, tag: u8) -> Outcome<usize> {
        let mut count = 0;
        while self.bytes_tagged(tag)?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Reads the next field if it has this one-byte tag of a length-delimited field.
    ///
    /// With its kin for other types, it spares [`Self::next`] what senders write the same way every time.
    #[inline]
    pub(crate) fn bytes_tagged(&mut self, tag: u8) -> Outcome<Option<&'a [u8]>> {
        if !self.skip_tag(tag) {
            return Ok(None);
        }
        self.bytes().map(Some)
    }

    /// Reads the next field if it has this one-byte tag of a double.
    #[inline]
    pub(crate) fn double_tagged(&mut self, tag: u8) -> Outcome<Option<f64>> {
        if !self.skip_tag(tag) {
            return Ok(None);
        }
        self.array().map(|bytes| Some(f64::from_le_bytes(bytes)))
    }

    /// Reads the next field if it has this one-byte tag of a 64-bit integer.
    #[inline]
    pub(crate) fn int64_tagged(&mut self, tag: u8) -> Outcome<Option<i64>> {
        if !self.skip_tag(tag) {
            return Ok(None);
        }
        self.varint().map(|value| Some(value.cast_signed()))
    }

    #[inline]
    fn skip_tag(&mut self, tag: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == tag => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Returns the next field's number and content, `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Outcome<Option<(u32, Field<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| (1..1 << 29).contains(number))
            .ok_or_else(|| malformed(format!("illegal tag {}", tag >> 3)))?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => Field::Bytes(self.bytes()?),
            3 => {
                self.skip_group(number)?;
                return self.next_after_group();
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(malformed(format!("illegal wireType {other}"))),
        };
        Ok(Some((number, field)))
    }

    /// Returns the field after a group; consecutive groups are a loop, not a recursion.
    fn next_after_group(&mut self) -> Outcome<Option<(u32, Field<'a>)>> {
        loop {
            let mut ahead = self.clone();
            if ahead.rest.is_empty() {
                return Ok(None);
            }
            let tag = ahead.varint()?;
            if tag & 7 != 3 {
                return self.next();
            }
            *self = ahead;
            self.skip_group(u32::try_from(tag >> 3).unwrap_or_default())?;
        }
    }

    /// Skips a group up to the end tag of the same number, counting nested ones.
    fn skip_group(&mut self, number: u32) -> Outcome<()> {
        let mut depth = 1_u32;
        while depth > 0 {
            if self.rest.is_empty() {
                return Err(unexpected_end());
            }
            let tag = self.varint()?;
            match tag & 7 {
                0 => drop(self.varint()?),
                1 => drop(self.array::<8>()?),
                2 => drop(self.bytes()?),
                3 => depth += 1,
                4 => depth -= 1,
                5 => drop(self.array::<4>()?),
                other => {
                    return Err(malformed(format!(
                        "illegal wireType {other} in group {number}"
                    )));
                }
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Outcome<u64> {
        if let [first @ 0..0x80, tail @ ..] = self.rest {
            self.rest = tail;
            return Ok(u64::from(*first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Outcome<u64> {
        if let Some((value, len)) = read_varint(self.rest) {
            self.rest = self.rest.get(len..).unwrap_or_default();
            return Ok(value);
        }
        if self.rest.len() < MAX_VARINT_BYTES {
            Err(unexpected_end())
        } else {
            Err(malformed("integer overflow"))
        }
    }

    #[inline]
    fn bytes(&mut self) -> Outcome<&'a [u8]> {
        let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        let (bytes, tail) = self.rest.split_at_checked(len).ok_or_else(unexpected_end)?;
        self.rest = tail;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let (array, tail) = self.rest.split_first_chunk().ok_or_else(unexpected_end)?;
        self.rest = tail;
        Ok(*array)
    }
}

impl<'a> Field<'a> {
    /// Returns the field as a 64-bit integer.
    pub(crate) fn int64(self) -> Outcome<i64> {
        self.uint64().map(u64::cast_signed)
    }

    pub(crate) fn uint64(self) -> Outcome<u64> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(self.wrong_type()),
        }
    }

    pub(crate) fn uint32(self) -> Outcome<u32> {
        // Go truncates longer ones as well.
        self.uint64().map(|value| value as u32)
    }

    pub(crate) fn sint32(self) -> Outcome<i32> {
        self.uint64()
            .map(|value| unzigzag(value & 0xffff_ffff) as i32)
    }

    pub(crate) fn double(self) -> Outcome<f64> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(self.wrong_type()),
        }
    }

    pub(crate) fn bytes(self) -> Outcome<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong_type()),
        }
    }

    pub(crate) fn text(self) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("text is not UTF-8"))
    }

    /// Returns the maximum number of elements of a repeated integer.
    pub(crate) fn elements(self) -> usize {
        match self {
            Self::Bytes(packed) => packed.len(),
            _ => 1,
        }
    }

    /// Visits the elements of a repeated integer, packed or one by one.
    pub(crate) fn each_varint(self, mut visit: impl FnMut(u64)) -> Outcome<()> {
        match self {
            Self::Varint(value) => visit(value),
            Self::Bytes(packed) => {
                let mut reader = Reader::new(packed);
                while !reader.rest.is_empty() {
                    visit(reader.varint()?);
                }
            }
            _ => return Err(self.wrong_type()),
        }
        Ok(())
    }

    /// Visits the elements of a repeated double, packed or one by one.
    pub(crate) fn each_double(self, mut visit: impl FnMut(f64)) -> Outcome<()> {
        match self {
            Self::Fixed64(bits) => visit(f64::from_bits(bits)),
            Self::Bytes(packed) => {
                let (doubles, rest) = packed.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(unexpected_end());
                }
                doubles
                    .iter()
                    .for_each(|bytes| visit(f64::from_le_bytes(*bytes)));
            }
            _ => return Err(self.wrong_type()),
        }
        Ok(())
    }

    fn wrong_type(self) -> RemoteError {
        let got = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
        };
        malformed(format!("wrong wireType = {got}"))
    }
}

pub(crate) fn malformed(detail: impl Into<String>) -> RemoteError {
    RemoteError::Malformed {
        detail: detail.into(),
    }
}

fn unexpected_end() -> RemoteError {
    malformed("unexpected EOF")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Field<'_>)>, RemoteError> {
        let mut reader = Reader::new(message);
        let mut fields = Vec::new();
        while let Some(field) = reader.next()? {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn every_wire_type_is_read_and_groups_are_passed_over() {
        let message = [
            0x08, 0xac, 0x02, // 1: 300
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x1b, 0x08, 0x01, 0x23, 0x24, 0x1c, // group 3 with a group 4 inside
            0x1b, 0x1c, // an empty group
            0x2d, 1, 0, 0, 0, // 5: fixed32
            0x31, 2, 0, 0, 0, 0, 0, 0, 0, // 6: fixed64
        ];
        assert_eq!(
            all(&message).unwrap(),
            [
                (1, Field::Varint(300)),
                (2, Field::Bytes(b"hi")),
                (5, Field::Fixed32(1)),
                (6, Field::Fixed64(2))
            ]
        );
    }

    #[test]
    fn broken_messages_are_told_apart() {
        let text = |message: &[u8]| all(message).unwrap_err().to_string();
        assert_eq!(text(&[0x12, 0x05, 1]), "unexpected EOF");
        assert_eq!(
            text(&[
                0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01
            ]),
            "unexpected EOF"
        );
        assert_eq!(text(&[0x08, 0x80]), "unexpected EOF");
        assert_eq!(text(&[0xff; 11]), "integer overflow");
        assert_eq!(text(&[0x0e]), "illegal wireType 6");
        assert_eq!(text(&[0x00, 0x00]), "illegal tag 0");
        assert_eq!(text(&vec![0x0b; 1 << 20]), "unexpected EOF");
    }

    #[test]
    fn runs_of_one_field_are_passed_over() {
        let message = [0x0a, 1, b'x', 0x0a, 0, 0x10, 7];
        let mut reader = Reader::new(&message);
        assert_eq!(reader.skip_run(0x0a).unwrap(), 2);
        assert_eq!(reader.next().unwrap(), Some((2, Field::Varint(7))));
        assert!(Reader::new(&[0x0a, 9]).skip_run(0x0a).is_err());
    }
}
