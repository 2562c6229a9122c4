//! Checked reading of a queue file's bytes.
//!
//! **Invariant:** a reader never reads beyond its slice and never reserves memory for a count it has not seen bytes for.

use narthex_model::varint::{put_varint, read_exact_varint, unzigzag};

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A field that no writer writes, or the end of the bytes within one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed(pub(crate) &'static str);

const ENDED: Malformed = Malformed("an entry that ends too early");

/// A cursor over untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns what is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or(ENDED)?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    pub(crate) fn take_bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(ENDED)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn double(&mut self) -> Result<f64, Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ENDED)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, len) = read_exact_varint(self.rest).ok_or(ENDED)?;
        self.take_bytes(len)?;
        Ok(value)
    }

    #[inline]
    pub(super) fn signed(&mut self) -> Result<i64, Malformed> {
        self.varint().map(unzigzag)
    }

    /// Reads a number below 2^32; `what` names it in the error.
    #[inline]
    pub(super) fn number(&mut self, what: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed(what))
    }

    /// Reads a length and that many bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.varint()?).map_err(|_| ENDED)?;
        self.take_bytes(len)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text that is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::varint::put_signed;

    #[test]
    fn fields_come_back_and_short_ones_do_not() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(u32::MAX));
        put_signed(&mut out, i64::MIN);
        out.extend_from_slice(&1.5_f64.to_le_bytes());
        put_bytes(&mut out, "é".as_bytes());
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let read = (
                reader.number("n")?,
                reader.signed()?,
                reader.double()?,
                reader.text()?.to_owned(),
            );
            Ok::<_, Malformed>((read, reader.is_empty()))
        };
        let whole = ((u32::MAX, i64::MIN, 1.5, "é".to_owned()), true);
        assert_eq!(read(&out), Ok(whole));
        for len in 0..out.len() {
            assert_eq!(read(&out[..len]), Err(ENDED), "{len}");
        }
        assert!(Reader::new(&[0xff; 10]).number("n").is_err());
        assert!(Reader::new(&[1, 0xff]).text().is_err());
    }
}
