//! The protobuf format: messages `io.prometheus.client.MetricFamily`, each behind its length.
//!
//! Decoded by hand: a steady round compares the encoded labels of a metric with the expected ones and reads numbers.

mod memory;
mod message;
mod pass;
mod put;
mod wire;

pub(crate) use memory::MessageMemory;
pub(crate) use pass::{Walked, walk};
pub use put::Message;
pub(crate) use put::{put_bytes, put_double, put_integer, put_varint, zigzag};
