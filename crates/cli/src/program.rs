//! Programs and their commands.

use crate::{Flag, UsageError, Values};
use std::ffi::OsString;

/// A program whose commands read their values into an `A`.
#[derive(Debug)]
pub struct Program<A: 'static> {
    /// Name of the program.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Description, one sentence.
    pub about: &'static str,
    /// Commands, in the order of help.
    pub commands: &'static [Command<A>],
    /// Texts that it prints on request.
    pub topics: &'static [Topic],
    /// Name under which the binary offers only the commands of several words.
    pub tool: &'static str,
}

/// A command of a program.
#[derive(Debug)]
pub struct Command<A> {
    /// Name, one to three words.
    pub name: &'static str,
    /// Names under which the binary is this command.
    pub called_as: &'static [&'static str],
    /// Description, one sentence.
    pub about: &'static str,
    /// Flags, in groups.
    pub flags: &'static [&'static [Flag]],
    /// Reads the values into an `A`.
    pub read: fn(Values) -> Result<A, UsageError>,
}

/// A text that a program prints on request.
#[derive(Debug)]
pub struct Topic {
    /// Argument that asks for it, dashes included.
    pub name: &'static str,
    /// Description, one sentence; empty to keep it out of help.
    pub about: &'static str,
    /// Returns the text.
    pub text: fn() -> String,
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
    /// Returns the command that the first words name, at most three, and the number of words.
    pub(crate) fn command(
        &self,
        arguments: &[OsString],
        is_tool: bool,
    ) -> Result<(&'static Command<A>, usize), UsageError> {
        for words in [3, 2, 1] {
            let name = texts(arguments, words).join(" ");
            // Under the tool's name, only commands of several words exist.
            let mut commands = self.commands.iter();
            let found = commands.find(|command| {
                command.name == name
                    && command.name.split(' ').count() == words
                    && (!is_tool || words > 1)
            });
            if let Some(command) = found {
                return Ok((command, words));
            }
        }
        let words = texts(arguments, 3);
        let named: Vec<&str> = words
            .iter()
            .take_while(|word| !word.starts_with('-'))
            .copied()
            .collect();
        Err(UsageError::Command {
            name: named.join(" "),
        })
    }

    /// Returns the commands of several words that begin with `word`.
    pub(crate) fn subcommands(&self, word: &str) -> Vec<&'static Command<A>> {
        let begins = |command: &&Command<A>| {
            let words = command.name.split_once(' ');
            words.is_some_and(|(first, _)| first == word)
        };
        self.commands.iter().filter(begins).collect()
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

/// Returns the leading arguments that are UTF-8, at most `most`.
pub(crate) fn texts(arguments: &[OsString], most: usize) -> Vec<&str> {
    let texts = arguments.iter().take(most);
    texts.map_while(|argument| argument.to_str()).collect()
}
