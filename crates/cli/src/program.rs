//! Programs and their commands: which one a call means.

use crate::{Flag, Surroundings, UsageError, Values, complete, expand::expand, help, man};
use std::{ffi::OsString, path::Path};

/// A program whose commands come to an `A`.
#[derive(Debug)]
pub struct Program<A: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Its release.
    pub version: &'static str,
    /// What it is, one sentence.
    pub about: &'static str,
    /// Its commands, in the order of help.
    pub commands: &'static [Command<A>],
    /// What it prints when it is asked for.
    pub topics: &'static [Topic],
    /// The name by which only the commands of two words are called.
    pub tool: &'static str,
}

/// A command of a program.
#[derive(Debug)]
pub struct Command<A> {
    /// Its name, one word or two.
    pub name: &'static str,
    /// Programs that are this command when the binary is called by their name.
    pub called_as: &'static [&'static str],
    /// What it does, one sentence.
    pub about: &'static str,
    /// Its flags.
    pub flags: &'static [&'static [Flag]],
    /// Makes of the values what is to be done.
    pub read: fn(Values) -> Result<A, UsageError>,
}

/// A text that a program prints.
#[derive(Debug)]
pub struct Topic {
    /// The argument that asks for it, dashes included.
    pub name: &'static str,
    /// What it is, one sentence; empty to keep it out of help.
    pub about: &'static str,
    /// Makes the text.
    pub text: fn() -> String,
}

/// What a call comes to.
#[derive(Debug)]
pub enum Call<A> {
    /// Something to do.
    Run(A),
    /// Text to print.
    Print(String),
}

/// The commands that every program has.
pub(crate) const BUILT_IN: &[(&str, &str)] = &[
    ("help", "Prints the help of a command."),
    ("man", "Prints the manual page of a command, in roff."),
    (
        "completion",
        "Prints the completion script of a shell: bash, zsh or fish.",
    ),
];

impl<A> Program<A> {
    /// Finds out what a call asks for; `arguments` begin with the program's own name.
    ///
    /// # Errors
    /// Fails when the arguments make no sense.
    pub fn call(
        &self,
        arguments: &[OsString],
        around: Surroundings<'_>,
    ) -> Result<Call<A>, UsageError> {
        let (program, arguments) = arguments.split_first().unzip();
        let arguments = arguments.unwrap_or_default();
        let called_as = program.map(Path::new).and_then(Path::file_name);
        let called_as = called_as.and_then(|name| name.to_str()).unwrap_or_default();
        let mut commands = self.commands.iter();
        if let Some(command) = commands.find(|command| command.called_as.contains(&called_as)) {
            return self.run(command, arguments, around);
        }
        // Words to complete are not to be read, whatever they begin with.
        if let ["completion", "words"] = *texts(arguments, 2) {
            return Ok(Call::Print(complete::candidates(self, &arguments[2..])));
        }
        let arguments = expand(arguments, around.read)?;
        match self.printed(&arguments)? {
            Some(text) => Ok(Call::Print(text)),
            None => {
                let (command, words) = self.command(&arguments, called_as == self.tool)?;
                self.run(command, &arguments[words..], around)
            }
        }
    }

    /// Returns the text that is asked for, if one is.
    fn printed(&self, arguments: &[OsString]) -> Result<Option<String>, UsageError> {
        let first = texts(arguments, 1).first().copied().unwrap_or("help");
        let rest = arguments.get(1..).unwrap_or_default();
        Ok(Some(match (first, rest) {
            ("-h" | "--help" | "help", []) => help::overview(self),
            ("help", _) => help::command(self, self.command(rest, false)?.0, true),
            ("--help-long", _) => help::long(self),
            ("man" | "--help-man", []) => man::overview(self),
            ("man", _) => man::command(self, self.command(rest, false)?.0),
            ("--version" | "version", _) => self.version(),
            ("--reference", _) => help::markdown(self),
            ("completion", [shell]) => {
                let script = complete::script(self.name, &shell.to_string_lossy());
                script.ok_or_else(|| UsageError::Value {
                    flag: "completion".to_owned(),
                    reason: format!("not bash, zsh or fish: {shell:?}"),
                })?
            }
            ("completion", _) => return Err(UsageError::Missing { what: "shell" }),
            (name, _) => {
                let topic = self.topics.iter().find(|topic| topic.name == name);
                return Ok(topic.map(|topic| (topic.text)()));
            }
        }))
    }

    /// Finds the command that one or two words name, and how many they are.
    pub(crate) fn command(
        &self,
        arguments: &[OsString],
        is_tool: bool,
    ) -> Result<(&'static Command<A>, usize), UsageError> {
        for words in [2, 1] {
            let name = texts(arguments, words).join(" ");
            // Called by the tool's name, the program is nothing else.
            let mut commands = self.commands.iter();
            let found = commands.find(|command| {
                command.name == name
                    && command.name.split(' ').count() == words
                    && (!is_tool || words == 2)
            });
            if let Some(command) = found {
                return Ok((command, words));
            }
        }
        let words = texts(arguments, 2);
        let named: Vec<&str> = words
            .iter()
            .take_while(|word| !word.starts_with('-'))
            .copied()
            .collect();
        Err(UsageError::Command {
            name: named.join(" "),
        })
    }

    fn run(
        &self,
        command: &'static Command<A>,
        arguments: &[OsString],
        around: Surroundings<'_>,
    ) -> Result<Call<A>, UsageError> {
        for argument in arguments.iter().take_while(|argument| *argument != "--") {
            let text = match argument.to_str() {
                Some("-h" | "--help") => help::command(self, command, false),
                Some("--help-long") => help::command(self, command, true),
                Some("--help-man") => man::command(self, command),
                Some("--version") => self.version(),
                _ => continue,
            };
            return Ok(Call::Print(text));
        }
        let values = Values::parse(command.flags, arguments, around)?;
        (command.read)(values).map(Call::Run)
    }

    pub(crate) fn version(&self) -> String {
        format!("{}, version {}\n", self.name, self.version)
    }
}

impl<A> Command<A> {
    /// Lists the flags and positional arguments.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Flag> + use<A> {
        self.flags.iter().copied().flatten()
    }
}

/// Returns the arguments in front that are texts, at most `most`.
fn texts(arguments: &[OsString], most: usize) -> Vec<&str> {
    let texts = arguments.iter().take(most);
    texts.map_while(|argument| argument.to_str()).collect()
}
