//! Entry points for fuzzers and for the seeded mutator in the tests.
//!
//! **Invariant:** no input causes a panic or exceeds the limits of a tree.

use crate::{Node, Value, read, read_all_keys};

/// Parses bytes as YAML in both ways and looks at every node.
///
/// # Panics
/// Panics when an error has no text, or when the ways disagree about a text that repeats no key.
pub fn fuzz_tree(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let all = read_all_keys(&text);
    match read(&text) {
        Ok(node) => {
            look(&node);
            assert!(all.is_ok(), "{all:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(document) = all {
        look(&document.root);
    }
}

fn look(node: &Node) {
    let _ = (node.shown(), node.is_null());
    match &node.value {
        Value::Scalar(scalar) => {
            let _ = (scalar.boolean(), scalar.integer(), scalar.float());
        }
        Value::List(items) => items.iter().for_each(look),
        Value::Map(pairs) => pairs.iter().for_each(|(_, node)| look(node)),
        Value::Null => {}
    }
}
