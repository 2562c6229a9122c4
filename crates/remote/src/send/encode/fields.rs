//! Protobuf fields as Go's encoder writes them: default values are left out.

use narthex_model::{
    protobuf::{put_bytes, put_double, put_integer},
    varint::put_varint,
};

#[inline]
pub(super) fn integer(out: &mut Vec<u8>, field: u64, value: u64) {
    if value != 0 {
        put_integer(out, field, value);
    }
}

#[inline]
pub(super) fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    if value.to_bits() != 0 {
        put_double(out, field, value);
    }
}

/// Writes a message that `write` fills; it must be shorter than 128 bytes.
#[inline]
pub(super) fn short_message(out: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(out, field << 3 | 2);
    let at = out.len();
    out.push(0);
    write(out);
    let len = out.len() - at - 1;
    debug_assert!(len < 0x80, "the length takes one byte");
    out[at] = len as u8;
}

/// Writes a message of any length that `write` fills.
pub(super) fn message(out: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    put_bytes(out, field, &inner);
}

/// Writes integers as one packed field, nothing if there are none.
pub(super) fn packed(out: &mut Vec<u8>, field: u64, values: impl Iterator<Item = u64>) {
    let mut bytes = Vec::new();
    values.for_each(|value| put_varint(&mut bytes, value));
    if !bytes.is_empty() {
        put_bytes(out, field, &bytes);
    }
}

/// Writes doubles as one packed field, nothing if there are none.
pub(super) fn packed_doubles(out: &mut Vec<u8>, field: u64, values: &[f64]) {
    if !values.is_empty() {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        put_bytes(out, field, &bytes);
    }
}
