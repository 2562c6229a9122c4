//! Entry points for fuzzers: each takes arbitrary bytes and must return.
//!
//! **Invariant:** no input makes them panic, hang, or allocate more than a small multiple of its size.

use crate::encode::Format;
use crate::registry::Registry;

/// Parses the bytes as files of `/proc`.
pub fn fuzz_proc(data: &[u8]) {
    crate::process::fuzz(data);
}

/// Chooses a format for the bytes as an `Accept` header.
pub fn fuzz_accept(data: &[u8]) {
    let _ = Format::negotiate(&String::from_utf8_lossy(data));
}

/// Exposes the text as a help text and label values in every format, and checks that each line of the exposition stays
/// whole, and that the messages have the values.
///
/// # Panics
///
/// If the text breaks out of its line or message: the bug that fuzzing looks for.
pub fn fuzz_escape(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let registry = Registry::new();
    let values = [text.to_string(), text.chars().rev().collect()];
    crate::register_info(
        &registry,
        "fuzz_info",
        "Facts.",
        &["a", "b"],
        values.clone(),
    )
    .expect("valid names");
    for (format, ends) in [(Format::Text, 4), (Format::OpenMetrics, 5)] {
        let mut out = Vec::new();
        registry.encode(format, &mut out);
        let out = String::from_utf8(out).expect("text from text");
        let lines: Vec<&str> = out.split('\n').collect();
        assert_eq!(lines.len(), ends, "{out}");
        assert!(
            lines[2].starts_with("fuzz_info{a=\"") && lines[2].ends_with("\"} 1"),
            "{out}"
        );
    }
    let mut out = Vec::new();
    registry.encode(Format::Protobuf, &mut out);
    let mut found = Vec::new();
    let family = message(&out);
    fields(family, &mut |field, metric| {
        let mut pair = |field: u64, pair: &[u8]| {
            fields(pair, &mut |part, text| {
                if (field, part) == (1, 2) {
                    found.push(text.to_vec());
                }
            });
        };
        if field == 4 {
            fields(metric, &mut pair);
        }
    });
    assert_eq!(found, values.map(String::into_bytes));
}

/// Returns the one delimited message of these bytes.
fn message(bytes: &[u8]) -> &[u8] {
    let (length, rest) = varint(bytes);
    assert_eq!(length, rest.len());
    rest
}

/// Passes each field of a message that has bytes.
fn fields(mut message: &[u8], each: &mut dyn FnMut(u64, &[u8])) {
    while !message.is_empty() {
        let (key, rest) = varint(message);
        message = match key & 7 {
            0 => varint(rest).1,
            1 => &rest[8..],
            2 => {
                let (length, rest) = varint(rest);
                each(key as u64 >> 3, &rest[..length]);
                &rest[length..]
            }
            other => panic!("wire type {other}"),
        };
    }
}

fn varint(bytes: &[u8]) -> (usize, &[u8]) {
    let end = bytes.iter().position(|byte| *byte < 0x80);
    let (number, rest) = bytes.split_at(end.expect("a number ends") + 1);
    let value = number
        .iter()
        .rev()
        .fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    (value, rest)
}
