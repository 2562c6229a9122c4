//! Entry points for fuzzers: each takes arbitrary bytes and must return.
//!
//! **Invariant:** no input makes them panic, hang, or allocate more than a small multiple of its size.

use crate::registry::Registry;

/// Parses the bytes as files of `/proc`.
pub fn fuzz_proc(data: &[u8]) {
    crate::process::fuzz(data);
}

/// Exposes the text as a help text and label values, and checks that each line of the exposition stays whole.
///
/// # Panics
///
/// If the text breaks out of its line: the bug that fuzzing looks for.
pub fn fuzz_escape(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut out = Vec::new();
    let registry = Registry::new();
    let values = [text.to_string(), text.chars().rev().collect()];
    crate::register_info(&registry, "fuzz_info", "Facts.", &["a", "b"], values)
        .expect("valid names");
    registry.encode_text(&mut out);
    let out = String::from_utf8(out).expect("text from text");
    let lines: Vec<&str> = out.split('\n').collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(
        lines[2].starts_with("fuzz_info{a=\"") && lines[2].ends_with("\"} 1"),
        "{out}"
    );
}
