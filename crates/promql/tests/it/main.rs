//! Integration tests of the query engine.

mod engine;
mod fuzz;
mod generate;
mod promqltest;
