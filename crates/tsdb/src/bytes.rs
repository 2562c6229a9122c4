//! Varints and checked reading for the bytes of the WAL and the manifest.
//!
//! **Invariant:** a reader never reads beyond its slice and never reserves memory for a count it has not seen bytes for.

use narthex_model::varint::{MAX_VARINT_BYTES, read_exact_varint, unzigzag};
pub(crate) use narthex_model::varint::{put_signed, put_varint};

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A defect in bytes and its offset.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Malformed {
    /// Offset within the slice that was read.
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
}

/// A cursor over untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed {
            offset: self.at,
            what,
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self
            .bytes
            .get(self.at)
            .ok_or_else(|| self.malformed("end of record"))?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn slice(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self
            .at
            .checked_add(len)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.malformed("end of record"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.slice(N)?.try_into().expect("as many bytes were taken"))
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let rest = &self.bytes[self.at..];
        if let Some((value, len)) = read_exact_varint(rest) {
            self.at += len;
            return Ok(value);
        }
        self.at += rest.len().min(MAX_VARINT_BYTES);
        let ended = rest.len() < MAX_VARINT_BYTES;
        Err(self.malformed(if ended { "end of record" } else { "varint" }))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        self.varint().map(unzigzag)
    }

    pub(crate) fn varint_u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.malformed(what))
    }

    /// Reads a length and that many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| self.malformed("length"))?;
        self.slice(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed("text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_round_trip() {
        let mut out = Vec::new();
        for value in [0, 1, 127, 128, 1 << 35, u64::MAX] {
            put_varint(&mut out, value);
            put_signed(&mut out, value as i64);
        }
        put_bytes(&mut out, "héllo".as_bytes());
        let mut reader = Reader::new(&out);
        for value in [0, 1, 127, 128, 1 << 35, u64::MAX] {
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.signed(), Ok(value as i64));
        }
        assert_eq!(reader.text(), Ok("héllo"));
        assert!(reader.is_empty());
        assert!(reader.byte().is_err());
        assert!(Reader::new(&[0xff; 11]).varint().is_err());
        assert!(Reader::new(&[0x85, 1]).bytes().is_err());
    }
}
