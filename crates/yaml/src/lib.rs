//! YAML as a tree whose nodes know their places.
//!
//! A scalar keeps its text: the key it belongs to decides its type, as in Go's YAML library. Configurations and rule
//! files are read through this crate and compared with their schemas elsewhere; it knows no key.
//!
//! Limits: 64 levels of nesting and 1,000,000 nodes, aliases included.

#![forbid(unsafe_code)]

mod error;
#[doc(hidden)]
pub mod fuzz;
mod tree;

pub use error::YamlError;
pub use tree::{Document, Node, Scalar, Value, Word, read, read_all_keys};
