//! Turns arguments into what a program does or prints.

use crate::{
    Command, Program, Surroundings, UsageError, Values, complete, expand::expand, help, man,
    program::texts,
};
use std::{ffi::OsString, path::Path};

/// Outcome of a command line.
#[derive(Debug)]
pub enum Call<A> {
    /// A command to run.
    Run(A),
    /// Text to print.
    Print(String),
}

impl<A> Program<A> {
    /// Parses a command line; `arguments` begin with the program's own name.
    ///
    /// # Errors
    /// Fails on invalid arguments.
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
        // Words to complete are not parsed, whatever they begin with.
        if let ["completion", "words"] = *texts(arguments, 2) {
            return Ok(Call::Print(complete::candidates(self, &arguments[2..])));
        }
        let mut arguments = expand(arguments, around.read)?;
        self.join_words(&mut arguments);
        match self.printed(&arguments)? {
            Some(text) => Ok(Call::Print(text)),
            None => {
                let (command, words) = self.command(&arguments, called_as == self.tool)?;
                self.run(command, &arguments[words..], around)
            }
        }
    }

    /// Returns the text that the arguments ask for, if any.
    fn printed(&self, arguments: &[OsString]) -> Result<Option<String>, UsageError> {
        let first = texts(arguments, 1).first().copied().unwrap_or("help");
        let rest = arguments.get(1..).unwrap_or_default();
        Ok(Some(match (first, rest) {
            ("-h" | "--help" | "help", []) => help::overview(self),
            (word, _) if self.lists_subcommands(word, rest) => help::subcommands(self, word),
            ("help", [word]) if self.lists_subcommands(&word.to_string_lossy(), &[]) => {
                help::subcommands(self, &word.to_string_lossy())
            }
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

    /// Returns whether a command line asks which commands begin with a word: it has nothing else, or asks for help.
    fn lists_subcommands(&self, word: &str, rest: &[OsString]) -> bool {
        let asks = rest
            .iter()
            .all(|argument| argument == "-h" || argument == "--help" || argument == "--help-long");
        asks && !self.subcommands(word).is_empty()
    }

    /// Moves flags between the first two words of a command behind these: `test --junit=FILE rules` is `test rules`.
    fn join_words(&self, arguments: &mut [OsString]) {
        let Some((first, rest)) = arguments.split_first_mut() else {
            return;
        };
        let is_flag = |argument: &OsString| argument.to_string_lossy().starts_with('-');
        let (commands, end) = (
            self.subcommands(&first.to_string_lossy()),
            OsString::from("--"),
        );
        if !rest.first().is_some_and(is_flag) || rest.first() == Some(&end) {
            return;
        }
        let is_second = |argument: &OsString| {
            let second = |command: &&Command<A>| command.name.split(' ').nth(1);
            let mut seconds = commands.iter().filter_map(second);
            seconds.any(|second| *argument == *second)
        };
        if let Some(at) = rest.iter().position(is_second) {
            rest[..=at].rotate_right(1);
        }
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
}
