//! Real exporters' scrapes, recorded once and served again, for honest bytes a sample.

mod corpus;
mod delta;
mod line;
mod number;
mod scrub;
