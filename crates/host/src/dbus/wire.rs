//! Values as the message bus encodes them: aligned numbers, texts with lengths, variants with their type.
//!
//! Invariant: reading never leaves the message; a value beyond its end is `None`.

/// A basic value of a variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    /// Any whole number that is not negative.
    Number(u64),
    /// A string, a path or a signature.
    Text(String),
    /// A negative or fractional number.
    Other(f64),
}

/// Reads values in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big_endian: bool,
}

impl<'a> Cursor<'a> {
    /// `bytes` begin at a multiple of 8 in their message.
    pub(crate) fn new(bytes: &'a [u8], is_big_endian: bool) -> Self {
        Self {
            bytes,
            at: 0,
            is_big_endian,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn align(&mut self, to: usize) -> Option<()> {
        self.at = self.at.next_multiple_of(to);
        (self.at <= self.bytes.len()).then_some(())
    }

    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.take_bytes(count).map(|_| ())
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take_bytes(1)?.first().copied()
    }

    /// Reads a number of this size as little-endian bytes.
    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.align(N)?;
        let mut bytes: [u8; N] = self.take_bytes(N)?.try_into().ok()?;
        if self.is_big_endian {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.number().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number().map(u64::from_le_bytes)
    }

    /// Reads a string or a path.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        self.terminated(len)
    }

    fn signature(&mut self) -> Option<&'a str> {
        let len = usize::from(self.u8()?);
        self.terminated(len)
    }

    /// Returns a cursor over an array's elements, whose type is aligned to `alignment`.
    pub(crate) fn array(&mut self, alignment: usize) -> Option<Self> {
        let len = self.u32()? as usize;
        self.align(alignment)?;
        let end = self.at.checked_add(len)?;
        let elements = Self {
            bytes: self.bytes.get(..end)?,
            ..*self
        };
        self.at = end;
        Some(elements)
    }

    /// Reads a variant; `None` also for types that are not basic.
    pub(crate) fn variant(&mut self) -> Option<Value> {
        Some(match self.signature()? {
            "y" => Value::Number(self.u8()?.into()),
            "b" => Value::Bool(self.u32()? != 0),
            "q" => Value::Number(self.u16()?.into()),
            "u" => Value::Number(self.u32()?.into()),
            "t" => Value::Number(self.u64()?),
            "n" => signed(self.u16()?.cast_signed().into()),
            "i" => signed(self.u32()?.cast_signed().into()),
            "x" => signed(self.u64()?.cast_signed()),
            "d" => Value::Other(f64::from_bits(self.u64()?)),
            "s" | "o" => Value::Text(self.text()?.to_owned()),
            "g" => Value::Text(self.signature()?.to_owned()),
            _ => return None,
        })
    }

    fn terminated(&mut self, len: usize) -> Option<&'a str> {
        let text = std::str::from_utf8(self.take_bytes(len)?).ok()?;
        self.skip(1)?;
        Some(text)
    }

    fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}

fn signed(number: i64) -> Value {
    match u64::try_from(number) {
        Ok(number) => Value::Number(number),
        Err(_) => Value::Other(number as f64),
    }
}

/// Writes values in order, little-endian.
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    pub(crate) fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.align(4);
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).expect("names are short"));
        self.bytes(text.as_bytes());
        self.bytes(&[0]);
    }

    pub(crate) fn signature(&mut self, signature: &str) {
        self.bytes(&[u8::try_from(signature.len()).expect("signatures are short")]);
        self.bytes(signature.as_bytes());
        self.bytes(&[0]);
    }

    /// Writes an array whose elements are aligned to `alignment`.
    pub(crate) fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Self)) {
        self.u32(0);
        let at = self.bytes.len() - 4;
        self.align(alignment);
        let start = self.bytes.len();
        elements(self);
        let len = u32::try_from(self.bytes.len() - start).expect("messages are small");
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&len.to_le_bytes());
        }
    }

    /// Writes a field of a message's header: its number and a variant.
    pub(crate) fn field(&mut self, code: u8, signature: &str, text: &str) {
        self.align(8);
        self.bytes(&[code]);
        self.signature(signature);
        match signature {
            "g" => self.signature(text),
            _ => self.text(text),
        }
    }
}
