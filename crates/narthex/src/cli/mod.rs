//! The command line: each command's flags, and what the program runs for them.

mod check;
mod command;
mod node_exporter;
mod push;
mod pushgateway;
mod query;
mod rules;
mod segment;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use command::{Invocation, dispatch};
pub(crate) use node_exporter::NodeExporterOptions;
pub(crate) use pushgateway::PushOptions;
pub(crate) use query::Moment;
pub(crate) use rules::BackfillOptions;
pub(crate) use server::{CONCURRENT_RULES, PER_STEP_STATS, SEARCH, ServerOptions};
