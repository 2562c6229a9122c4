//! The command line: each command's flags, and what the program runs for them.

mod check;
mod command;
mod features;
mod node_exporter;
mod push;
mod pushgateway;
mod query;
mod rules;
mod segment;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use check::{
    ConfigFlags, DiscoveryFlags, DoctorFlags, RulesFlags, ServerFlags, WebConfigFlags,
};
pub(crate) use command::{Invocation, dispatch};
pub(crate) use features::{
    CONCURRENT_RULES, DELAYED_NAME_REMOVAL, PER_STEP_STATS, QUERY_COST, SEARCH, START_STORAGE,
    START_ZEROS, Support, TYPE_AND_UNIT_LABELS, USE_START_TIMESTAMPS,
};
pub(crate) use node_exporter::NodeExporterOptions;
pub(crate) use push::PushFlags;
pub(crate) use pushgateway::PushOptions;
pub(crate) use query::{Ask, Format, Header, Moment, QueryCommand, RangeFlags};
pub(crate) use rules::{BackfillOptions, TestFlags};
pub(crate) use segment::{DumpFlags, SegmentCommand, SwitchFlags, SwitchState, WatchFlags};
pub(crate) use server::ServerOptions;
