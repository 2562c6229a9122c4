//! The part of protobuf's wire format that clients write.

/// Appends a number as a varint.
pub fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends an unsigned field.
pub fn number(out: &mut Vec<u8>, field: u64, number: u64) {
    varint(out, field << 3);
    varint(out, number);
}

/// Returns a number in zigzag encoding.
#[must_use]
pub fn zigzag(signed: i64) -> u64 {
    (signed << 1 ^ signed >> 63).cast_unsigned()
}

/// Appends a signed field in zigzag encoding (`sint32`, `sint64`).
pub fn signed(out: &mut Vec<u8>, field: u64, signed: i64) {
    number(out, field, zigzag(signed));
}

/// Appends a double.
pub fn double(out: &mut Vec<u8>, field: u64, double: f64) {
    varint(out, field << 3 | 1);
    out.extend_from_slice(&double.to_bits().to_le_bytes());
}

/// Appends a text, or an encoded message.
pub fn bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
