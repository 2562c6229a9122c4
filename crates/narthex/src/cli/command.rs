//! The commands of the program.
//!
//! **Invariant:** called as `prometheus`, the program is `narthex server`, so that images and units keep their paths.

use super::{
    check::{
        self, ConfigFlags, DiscoveryFlags, DoctorFlags, MetricsFlags, RulesFlags, ServerFlags,
        WebConfigFlags,
    },
    node_exporter::{NodeExporterOptions, WebFlags},
    push::PushFlags,
    pushgateway::PushOptions,
    query::{
        self, AnalyzeFlags, AskFlags, InstantFlags, LabelsFlags, QueryCommand, RangeFlags,
        SeriesFlags,
    },
    rules::{self, BackfillOptions, TestFlags},
    segment::{DumpFlags, ListFlags, SegmentCommand, SwitchFlags, WatchFlags},
    server::ServerOptions,
};
use crate::role::{
    check_config::CheckConfig, check_rules::CheckRules, push::PushCommand, test_rules::TestRules,
};
use narthex_cli::{Call, Command, Program, Surroundings, Topic, UsageError, Values};
use narthex_host::CollectorKind;
use std::ffi::OsString;

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Invocation {
    Server(Box<ServerOptions>),
    Agent(Box<ServerOptions>),
    Pushgateway(Box<PushOptions>),
    NodeExporter(Box<NodeExporterOptions>),
    Push(PushCommand),
    CheckConfig(CheckConfig),
    CheckDiscovery(DiscoveryFlags),
    CheckRules(CheckRules),
    /// Ask at this path.
    CheckServer(&'static str, ServerFlags),
    TestRules(TestRules),
    Backfill(Box<BackfillOptions>),
    Doctor(DoctorFlags),
    CheckWebConfig(WebConfigFlags),
    /// Check the page on standard input.
    CheckMetrics,
    Segment(SegmentCommand),
    Query(Box<QueryCommand>),
    /// Text to print.
    Print(String),
}

pub(super) static PROGRAM: Program<Invocation> = Program {
    name: "narthex",
    version: env!("CARGO_PKG_VERSION"),
    about: "Narthex: metrics that never burn what they measure.",
    commands: &[
        Command {
            name: "server",
            called_as: &["prometheus"],
            about: "Scrapes and stores metrics, answers queries and serves a web page; accepts Prometheus' flags.",
            flags: &[ServerOptions::FLAGS],
            read: |values| {
                let options = Box::new(ServerOptions::read(values)?);
                Ok(if options.is_agent {
                    Invocation::Agent(options)
                } else {
                    Invocation::Server(options)
                })
            },
        },
        Command {
            name: "agent",
            called_as: &[],
            about: "Scrapes and sends to remote ends through queues on disk; stores and queries nothing. Accepts the flags of Prometheus' agent.",
            flags: &[ServerOptions::FLAGS],
            read: |values| {
                ServerOptions::read_agent(values)
                    .map(Box::new)
                    .map(Invocation::Agent)
            },
        },
        Command {
            name: "pushgateway",
            called_as: &["pushgateway", "prometheus-pushgateway"],
            about: "Holds metrics pushed by short-lived processes until they are scraped; accepts the Pushgateway's flags.",
            flags: &[PushOptions::FLAGS],
            read: |values| {
                PushOptions::read(values)
                    .map(Box::new)
                    .map(Invocation::Pushgateway)
            },
        },
        Command {
            name: "node-exporter",
            called_as: &["node_exporter", "prometheus-node-exporter"],
            about: "Serves metrics of this host; takes node_exporter's flags.",
            flags: &[WebFlags::FLAGS, narthex_host::FLAGS, CollectorKind::FLAGS],
            read: |values| {
                NodeExporterOptions::read(values)
                    .map(Box::new)
                    .map(Invocation::NodeExporter)
            },
        },
        Command {
            name: "push",
            called_as: &[],
            about: "Pushes files of metrics to a push gateway: merged, compressed, in one request.",
            flags: &[PushFlags::FLAGS],
            read: |values| PushFlags::read(values).map(Invocation::Push),
        },
        Command {
            name: "check config",
            called_as: &[],
            about: "Checks configuration files.",
            flags: &[ConfigFlags::FLAGS],
            read: |values| check::config(values).map(Invocation::CheckConfig),
        },
        Command {
            name: "check rules",
            called_as: &[],
            about: "Checks rule files, or standard input.",
            flags: &[RulesFlags::FLAGS],
            read: |values| check::rules(values).map(Invocation::CheckRules),
        },
        Command {
            name: "test rules",
            called_as: &[],
            about: "Runs unit tests of rules.",
            flags: &[TestFlags::FLAGS],
            read: |values| rules::test(values).map(Invocation::TestRules),
        },
        Command {
            name: "check metrics",
            called_as: &[],
            about: "Checks a page of metrics read from standard input.",
            flags: &[MetricsFlags::FLAGS],
            read: |_| Ok(Invocation::CheckMetrics),
        },
        Command {
            name: "check web-config",
            called_as: &[],
            about: "Checks files for --web.config.file.",
            flags: &[WebConfigFlags::FLAGS],
            read: |values| WebConfigFlags::from_values(values).map(Invocation::CheckWebConfig),
        },
        Command {
            name: "check service-discovery",
            called_as: &[],
            about: "Prints the targets that a job's service discovery finds.",
            flags: &[DiscoveryFlags::FLAGS],
            read: |values| DiscoveryFlags::from_values(values).map(Invocation::CheckDiscovery),
        },
        Command {
            name: "check healthy",
            called_as: &[],
            about: "Checks whether a server is healthy.",
            flags: &[ServerFlags::FLAGS],
            read: |values| check_server("/-/healthy", values),
        },
        Command {
            name: "check ready",
            called_as: &[],
            about: "Checks whether a server is ready.",
            flags: &[ServerFlags::FLAGS],
            read: |values| check_server("/-/ready", values),
        },
        Command {
            name: "tsdb backfill rules",
            called_as: &[],
            about: "Evaluates recording rules over the past and writes the results as blocks.",
            flags: &[BackfillOptions::FLAGS],
            read: read_backfill,
        },
        Command {
            name: "tsdb create-blocks-from rules",
            called_as: &[],
            about: "Promtool's name of tsdb backfill rules.",
            flags: &[BackfillOptions::FLAGS],
            read: read_backfill,
        },
        Command {
            name: "doctor",
            called_as: &[],
            about: "Examines this host, or the metrics page of one, and says what would help.",
            flags: &[DoctorFlags::FLAGS],
            read: |values| DoctorFlags::from_values(values).map(Invocation::Doctor),
        },
        Command {
            name: "query instant",
            called_as: &[],
            about: "Evaluates a query at one time, by a server or over a data directory.",
            flags: &[InstantFlags::FLAGS, AskFlags::FLAGS],
            read: |values| query::instant(values).map(|ask| Invocation::Query(Box::new(ask))),
        },
        Command {
            name: "query range",
            called_as: &[],
            about: "Evaluates a query over a range of time, and plots it on a terminal.",
            flags: &[RangeFlags::FLAGS, AskFlags::FLAGS],
            read: |values| query::range(values).map(|ask| Invocation::Query(Box::new(ask))),
        },
        Command {
            name: "query series",
            called_as: &[],
            about: "Lists the series that selectors match.",
            flags: &[SeriesFlags::FLAGS, AskFlags::FLAGS],
            read: |values| query::series(values).map(|ask| Invocation::Query(Box::new(ask))),
        },
        Command {
            name: "query labels",
            called_as: &[],
            about: "Lists the values of a label, or label names.",
            flags: &[LabelsFlags::FLAGS, AskFlags::FLAGS],
            read: |values| query::labels(values).map(|ask| Invocation::Query(Box::new(ask))),
        },
        Command {
            name: "query analyze",
            called_as: &[],
            about: "Reports how many buckets of histograms are used.",
            flags: &[AnalyzeFlags::FLAGS, AskFlags::FLAGS],
            read: |values| query::analyze(values).map(|ask| Invocation::Query(Box::new(ask))),
        },
        Command {
            name: "segment ls",
            called_as: &[],
            about: "Lists the segments of a directory: who writes them, and what is in them.",
            flags: &[ListFlags::FLAGS],
            read: |values| {
                ListFlags::from_values(values)
                    .map(SegmentCommand::List)
                    .map(Invocation::Segment)
            },
        },
        Command {
            name: "segment dump",
            called_as: &[],
            about: "Prints the metrics in a directory's segments in the text format.",
            flags: &[DumpFlags::FLAGS],
            read: |values| {
                DumpFlags::from_values(values)
                    .map(SegmentCommand::Dump)
                    .map(Invocation::Segment)
            },
        },
        Command {
            name: "segment watch",
            called_as: &[],
            about: "Shows the series in a directory's segments that change fastest.",
            flags: &[WatchFlags::FLAGS],
            read: |values| {
                WatchFlags::from_values(values)
                    .map(SegmentCommand::Watch)
                    .map(Invocation::Segment)
            },
        },
        Command {
            name: "segment switch",
            called_as: &[],
            about: "Switches a metric of a running program on or off.",
            flags: &[SwitchFlags::FLAGS],
            read: |values| {
                SwitchFlags::from_values(values)
                    .map(SegmentCommand::Switch)
                    .map(Invocation::Segment)
            },
        },
    ],
    topics: &[
        Topic {
            name: "--licenses",
            about: "Prints the licences of bundled code.",
            text: || include_str!("../../../../THIRD_PARTY_LICENSES").to_owned(),
        },
        Topic {
            name: "--config-reference",
            about: "",
            text: crate::config::markdown,
        },
    ],
    tool: "promtool",
};

fn check_server(path: &'static str, values: Values) -> Result<Invocation, UsageError> {
    ServerFlags::from_values(values).map(|flags| Invocation::CheckServer(path, flags))
}

fn read_backfill(values: Values) -> Result<Invocation, UsageError> {
    rules::backfill(values).map(|options| Invocation::Backfill(Box::new(options)))
}

/// Parses a command line; `arguments` begin with the program's own name.
///
/// # Errors
/// Fails on invalid arguments.
pub(crate) fn dispatch(arguments: &[OsString]) -> Result<Invocation, UsageError> {
    Ok(match PROGRAM.call(arguments, Surroundings::process())? {
        Call::Run(invocation) => invocation,
        Call::Print(text) => Invocation::Print(text),
    })
}
