//! Integration tests of the query engine.

mod promqltest;
