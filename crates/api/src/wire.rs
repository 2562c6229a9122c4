//! Protobuf messages, written.
//!
//! **Invariant:** fields are written as they are given, defaults included: a reader that tells unset from zero sees
//! what was meant.

/// A message under construction.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Writes an integer.
    pub(crate) fn integer(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        varint(&mut self.0, value);
    }

    /// Writes an integer in zigzag form.
    pub(crate) fn signed(&mut self, field: u32, value: i64) {
        self.integer(field, (value << 1 ^ value >> 63).cast_unsigned());
    }

    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    pub(crate) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub(crate) fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }

    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Appends the message behind its length.
    pub(crate) fn delimited(&self, out: &mut Vec<u8>) {
        varint(out, self.0.len() as u64);
        out.extend_from_slice(&self.0);
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        varint(&mut self.0, u64::from(field) << 3 | wire_type);
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 128")]
    out.push(value as u8);
}
