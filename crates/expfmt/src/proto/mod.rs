//! The protobuf format: messages `io.prometheus.client.MetricFamily`, each preceded by its length.
//!
//! Decoded by hand: a steady round compares the encoded labels of a metric with the expected ones and reads numbers.

mod memory;
mod message;
mod pass;
mod wire;

pub(crate) use memory::MessageMemory;
pub(crate) use memory::Walked;
pub(crate) use pass::walk;
