//! Programs and their commands.

use crate::{Flag, UsageError, Values};
use std::ffi::OsString;

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
pub(crate) fn texts(arguments: &[OsString], most: usize) -> Vec<&str> {
    let texts = arguments.iter().take(most);
    texts.map_while(|argument| argument.to_str()).collect()
}
