//! The exposition formats against reference bodies and against mutated ones.

mod corpus;
mod fuzz;
mod messages;
mod openmetrics;
mod oracle;
mod protobuf;
mod random;
