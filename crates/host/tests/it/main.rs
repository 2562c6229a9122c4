//! Tests of the whole source: fixture trees, the real host, node_exporter beside it.

mod host;
