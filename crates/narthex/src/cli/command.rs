//! Which command a call means: by its first argument, or by the name the program was called by.
//!
//! **Invariant:** called as `prometheus`, the program is `narthex server`, so that images and units keep their paths.

use super::{
    check,
    flags::{Flag, UsageError},
    parse, reference,
    server::{self, ServerOptions},
};
use crate::role::{
    check_config::CheckConfig, check_discovery::CheckDiscovery, check_server::CheckServer,
};
use std::path::{Path, PathBuf};

/// A command of the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Command {
    Server,
    CheckConfig,
    CheckDiscovery,
    CheckHealthy,
    CheckMetrics,
    CheckReady,
    CheckWebConfig,
}

/// What a call asks for.
#[derive(Debug)]
pub(crate) enum Invocation {
    Server(Box<ServerOptions>),
    CheckConfig(CheckConfig),
    CheckDiscovery(CheckDiscovery),
    CheckServer(CheckServer),
    CheckWebConfig(Vec<PathBuf>),
    /// Check the page that comes from standard input.
    CheckMetrics,
    /// Text to print.
    Print(String),
}

struct Entry {
    command: Command,
    name: &'static str,
    /// Programs that are this command when the binary is called by their name.
    called_as: &'static [&'static str],
    about: &'static str,
    flags: &'static [Flag],
}

static COMMANDS: &[Entry] = &[
    Entry {
        command: Command::Server,
        name: "server",
        called_as: &["prometheus"],
        about: "Scrapes, stores, answers queries and shows a page; takes Prometheus' flags.",
        flags: server::FLAGS,
    },
    Entry {
        command: Command::CheckConfig,
        name: "check config",
        called_as: &[],
        about: "Says whether the server would take the configuration files that are named.",
        flags: check::CONFIG_FLAGS,
    },
    Entry {
        command: Command::CheckMetrics,
        name: "check metrics",
        called_as: &[],
        about: "Checks the page of metrics that comes from standard input.",
        flags: check::METRICS_FLAGS,
    },
    Entry {
        command: Command::CheckWebConfig,
        name: "check web-config",
        called_as: &[],
        about: "Says whether the server would take files for --web.config.file.",
        flags: check::WEB_CONFIG_FLAGS,
    },
    Entry {
        command: Command::CheckDiscovery,
        name: "check service-discovery",
        called_as: &[],
        about: "Prints what a job's service discovery finds: a configuration file and a job are named.",
        flags: check::DISCOVERY_FLAGS,
    },
    Entry {
        command: Command::CheckHealthy,
        name: "check healthy",
        called_as: &[],
        about: "Asks a server whether it is alive.",
        flags: check::SERVER_FLAGS,
    },
    Entry {
        command: Command::CheckReady,
        name: "check ready",
        called_as: &[],
        about: "Asks a server whether it is ready.",
        flags: check::SERVER_FLAGS,
    },
];

/// The program whose commands are those of this one that are made of two words.
const TOOL: &str = "promtool";

const LICENSES: &str = include_str!("../../../../THIRD_PARTY_LICENSES");

/// Finds out what a call asks for; `arguments` begins with the program's own name.
///
/// # Errors
/// Fails when the arguments make no sense.
pub(crate) fn dispatch(arguments: &[String]) -> Result<Invocation, UsageError> {
    let program = arguments.first().map(String::as_str).unwrap_or_default();
    let file_name = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if let Some(entry) = COMMANDS
        .iter()
        .find(|entry| entry.called_as.contains(&file_name))
    {
        return run(entry, &arguments[1..]);
    }
    let Some(first) = arguments.get(1) else {
        return Ok(Invocation::Print(overview()));
    };
    match first.as_str() {
        "-h" | "--help" | "help" => Ok(Invocation::Print(overview())),
        "--version" | "version" => Ok(Invocation::Print(version())),
        "--licenses" => Ok(Invocation::Print(LICENSES.to_owned())),
        "--reference" => Ok(Invocation::Print(reference::markdown(
            COMMANDS
                .iter()
                .map(|entry| (entry.name, entry.about, entry.flags)),
        ))),
        "--config-reference" => Ok(Invocation::Print(crate::config::markdown())),
        _ => command(&arguments[1..], file_name == TOOL),
    }
}

/// Finds the command that one or two words name.
fn command(arguments: &[String], tool: bool) -> Result<Invocation, UsageError> {
    for words in [2, 1] {
        let Some((name, rest)) = arguments.split_at_checked(words) else {
            continue;
        };
        let name = name.join(" ");
        // Called by the tool's name, the program is nothing else.
        let found = COMMANDS
            .iter()
            .find(|entry| entry.name == name && (!tool || words == 2));
        if let Some(entry) = found {
            return run(entry, rest);
        }
    }
    let named: Vec<&str> = arguments
        .iter()
        .take(2)
        .map(String::as_str)
        .take_while(|word| !word.starts_with('-'))
        .collect();
    Err(UsageError::Command {
        name: named.join(" "),
    })
}

fn run(entry: &Entry, arguments: &[String]) -> Result<Invocation, UsageError> {
    if arguments
        .iter()
        .any(|argument| matches!(argument.as_str(), "-h" | "--help" | "--help-long"))
    {
        return Ok(Invocation::Print(reference::help(
            entry.name,
            entry.about,
            entry.flags,
        )));
    }
    if arguments.iter().any(|argument| argument == "--version") {
        return Ok(Invocation::Print(version()));
    }
    match entry.command {
        Command::Server => {
            ServerOptions::parse(arguments).map(|options| Invocation::Server(Box::new(options)))
        }
        Command::CheckConfig => check::config(arguments).map(Invocation::CheckConfig),
        Command::CheckMetrics => {
            parse::parse(check::METRICS_FLAGS, arguments).map(|_| Invocation::CheckMetrics)
        }
        Command::CheckWebConfig => check::web_config(arguments).map(Invocation::CheckWebConfig),
        Command::CheckDiscovery => check::discovery(arguments).map(Invocation::CheckDiscovery),
        Command::CheckHealthy => {
            check::server("/-/healthy", arguments).map(Invocation::CheckServer)
        }
        Command::CheckReady => check::server("/-/ready", arguments).map(Invocation::CheckServer),
    }
}

fn overview() -> String {
    let mut text = "Narthex: metrics that never burn what they measure.\n\nUsage: narthex <command> [flags]\n\n".to_owned();
    for entry in COMMANDS {
        let names = match entry.called_as {
            [] => String::new(),
            names => format!(" (also when called as {})", names.join(", ")),
        };
        text.push_str(&format!("  {:23} {}{names}\n", entry.name, entry.about));
    }
    text.push_str(
        "\n  --version  What this is.\n  --licenses The licences of what is built in.\n\n",
    );
    text.push_str("`narthex <command> --help` lists a command's flags.\n");
    text
}

fn version() -> String {
    format!("narthex, version {}\n", env!("CARGO_PKG_VERSION"))
}
