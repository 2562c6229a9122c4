//! Which command a call means: by its first argument, or by the name the program was called by.
//!
//! **Invariant:** called as `prometheus`, the program is `narthex server`, so that images and units keep their paths.

use super::{
    flags::{Flag, UsageError},
    reference,
    server::{self, ServerOptions},
};
use std::path::Path;

/// A command of the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Command {
    Server,
}

/// What a call asks for.
#[derive(Debug)]
pub(crate) enum Invocation {
    Server(Box<ServerOptions>),
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

static COMMANDS: &[Entry] = &[Entry {
    command: Command::Server,
    name: "server",
    called_as: &["prometheus"],
    about: "Scrapes, stores, answers queries and shows a page; takes Prometheus' flags.",
    flags: server::FLAGS,
}];

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
        name => match COMMANDS.iter().find(|entry| entry.name == name) {
            Some(entry) => run(entry, &arguments[2..]),
            None => Err(UsageError::Command {
                name: name.to_owned(),
            }),
        },
    }
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
    }
}

fn overview() -> String {
    let mut text = "Narthex: metrics that never burn what they measure.\n\nUsage: narthex <command> [flags]\n\n".to_owned();
    for entry in COMMANDS {
        let names = entry.called_as.join(", ");
        text.push_str(&format!(
            "  {:10} {} (also when called as {names})\n",
            entry.name, entry.about
        ));
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
