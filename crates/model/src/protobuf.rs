//! A protobuf writer.
//!
//! **Invariant:** every given field is written, default values included, because some readers distinguish unset from
//! zero.

use crate::varint::{put_varint, zigzag};

/// A message under construction.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Writes an integer.
    pub fn integer(&mut self, field: u64, value: u64) {
        put_integer(&mut self.0, field, value);
    }

    /// Writes an integer in zigzag form.
    pub fn signed(&mut self, field: u64, value: i64) {
        put_integer(&mut self.0, field, zigzag(value));
    }

    /// Writes a double.
    pub fn double(&mut self, field: u64, value: f64) {
        put_double(&mut self.0, field, value);
    }

    /// Writes a string.
    pub fn text(&mut self, field: u64, text: &str) {
        put_bytes(&mut self.0, field, text.as_bytes());
    }

    /// Writes a message within this one.
    pub fn message(&mut self, field: u64, message: &Self) {
        put_bytes(&mut self.0, field, &message.0);
    }

    /// Writes integers as one packed field.
    pub fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let mut packed = Vec::new();
        values.for_each(|value| put_varint(&mut packed, value));
        put_bytes(&mut self.0, field, &packed);
    }

    /// Appends the fields of another message to this one's.
    pub fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Returns the bytes of the fields.
    #[must_use]
    pub fn into_fields(self) -> Vec<u8> {
        self.0
    }

    /// Returns the bytes of the fields.
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        &self.0
    }

    /// Appends the message to `out`, prefixed with its length.
    pub fn delimited(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        out.extend_from_slice(&self.0);
    }
}

/// Appends a field that is an integer.
#[inline]
pub fn put_integer(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

/// Appends a field that is a double.
#[inline]
pub fn put_double(out: &mut Vec<u8>, field: u64, value: f64) {
    put_varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a string, bytes or message field.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
