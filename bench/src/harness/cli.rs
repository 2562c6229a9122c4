//! A command's values: from the command line, else from a scenario file, else from the flag's declaration.
//!
//! **Invariant:** nothing is started before the whole line has been parsed and checked.

use super::{ScenarioFile, ServerKind, error::BenchError, machine};
use crate::record::{FORMAT, Parameter, Record, Subject, Tool};
use narthex_cli::{Flag, Surroundings, UsageError, Value, ValueKind, flags};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

flags! {
    /// Flags of every scenario.
    #[derive(Debug)]
    pub(crate) struct Common {
        /// How often everything is measured, in alternating order.
        repetitions: usize = "repetitions", default("1"), within(1, 100);
        /// What is generated: another seed gives other names and values.
        seed: u64 = "seed", default("1"), within(0, 0xffff_ffff);
        /// Where servers keep their data while they run. Default: the system's temporary directory.
        dir: Option<PathBuf> = "dir", directory();
        /// Where the JSON record goes.
        out: Option<PathBuf> = "out";
        /// Where the report goes, one page that loads nothing.
        html: Option<PathBuf> = "html";
    }
}

/// Flags that are paths, which a record omits.
const PATHS: &[&str] = &["dir", "out", "html"];
/// Longest time that a flag takes.
const LONGEST: Duration = Duration::from_hours(24);

/// Declares an enum whose variants are the values of a flag.
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        $vis:vis enum $choice:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $choice { $($(#[$doc])* $variant,)+ }

        impl narthex_cli::Value for $choice {
            const KIND: narthex_cli::ValueKind = narthex_cli::ValueKind::Text;
            const OFFERS: &'static [&'static str] = &[$($name),+];

            fn parse(text: &std::ffi::OsStr) -> Result<Self, String> {
                match text.to_str() {
                    $(Some($name) => Ok(Self::$variant),)+
                    _ => Err(format!("{text:?} is none of {}", Self::OFFERS.join(", "))),
                }
            }
        }
    };
}
pub(crate) use choices;

/// The values of one command.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) command: &'static str,
    flags: narthex_cli::Values,
    /// Names and positions, such as `storage.yml:3:5`, of the values from a scenario file.
    places: Vec<(&'static str, String)>,
    /// Kinds of server that the scenario file declares.
    pub(crate) kinds: Vec<ServerKind>,
    arguments: Vec<String>,
}

impl Values {
    /// Returns the values that `arguments` were parsed into.
    pub(crate) fn new(
        command: &'static str,
        flags: narthex_cli::Values,
        arguments: &[String],
    ) -> Self {
        Self {
            command,
            flags,
            places: Vec::new(),
            kinds: Vec::new(),
            arguments: arguments.to_vec(),
        }
    }

    /// Parses the arguments after a command's name by its flags.
    pub(crate) fn parse(
        command: &'static str,
        tables: &[&'static [Flag]],
        arguments: &[String],
    ) -> Result<Self, BenchError> {
        let line: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let flags = narthex_cli::Values::parse(tables, &line, Surroundings::process());
        Ok(Self::new(command, flags?, arguments))
    }

    /// Adds the values of a scenario file; the command line takes precedence.
    pub(crate) fn with_file(mut self, file: ScenarioFile) -> Result<Self, BenchError> {
        for entry in file.entries {
            let flag = self.flags.flag(&entry.name);
            let flag = flag.filter(|flag| !PATHS.contains(&flag.name));
            let flag = flag.ok_or_else(|| {
                let (place, name, command) = (&entry.place, &entry.name, self.command);
                usage(format!("{place}: {command} has no {name:?}"))
            })?;
            if entry.values.len() != 1 && !flag.is_repeatable {
                let (place, name) = (&entry.place, flag.name);
                return Err(usage(format!("{place}: {name} takes one value")));
            }
            if self.flags.is_given(flag.name) {
                continue;
            }
            for (value, place) in entry.values {
                self.flags.add(flag, value);
                self.places.push((flag.name, place));
            }
        }
        self.kinds = file.kinds;
        Ok(self)
    }

    /// Reads all values into a struct of flags.
    pub(crate) fn read<F>(
        &self,
        from_values: fn(narthex_cli::Values) -> Result<F, UsageError>,
    ) -> Result<F, BenchError> {
        for (name, text) in self.flags.in_effect() {
            let kind = self.flags.flag(&name).map(|flag| flag.kind);
            let time = || self.flags.get::<Duration>(&name).ok();
            if kind == Some(ValueKind::Duration) && time().is_none_or(|time| time > LONGEST) {
                let what = "is not a time of at most a day, such as 500ms, 5s, 2m or 1h";
                return Err(self.wrong(&name, format!("{text:?} {what}")));
            }
        }
        from_values(self.flags.clone()).map_err(|error| self.place(error))
    }

    /// Returns one value.
    pub(crate) fn get<T: Value>(&self, name: &str) -> Result<T, BenchError> {
        self.flags.get(name).map_err(|error| self.place(error))
    }

    /// Returns whether the command line or the file has a flag.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.flags.is_given(name)
    }

    fn place(&self, error: UsageError) -> BenchError {
        match error {
            UsageError::Value { flag, reason } => self.wrong(flag.trim_start_matches('-'), reason),
            other => other.into(),
        }
    }

    /// Returns the error of a flag's value, with its position in the file or its name on the command line.
    pub(crate) fn wrong(&self, name: &str, what: impl AsRef<str>) -> BenchError {
        let place = self.places.iter().find(|(placed, _)| *placed == name);
        let what = what.as_ref();
        match place {
            None => usage(format!("--{name}: {what}")),
            Some((_, place)) => usage(format!("{place}: {name}: {what}")),
        }
    }

    /// Returns the base directory, on a disk, of the servers' directories.
    pub(crate) fn dir(&self) -> Result<PathBuf, BenchError> {
        let dir: Option<PathBuf> = self.get("dir")?;
        let dir = dir.unwrap_or_else(std::env::temp_dir);
        let shown = dir.display();
        if !dir.is_dir() {
            return Err(self.wrong("dir", format!("{shown} is no directory")));
        }
        if machine::is_in_memory(&dir) {
            return Err(usage(format!(
                "{shown} lies in memory, where written bytes are not counted: name another directory with --dir"
            )));
        }
        // Servers are started in directories of their own.
        std::path::absolute(&dir).map_err(BenchError::io(format!("find {shown}")))
    }

    /// Returns the output file that a flag names, if any.
    pub(crate) fn output(&self, name: &str) -> Result<Option<PathBuf>, BenchError> {
        let path: Option<PathBuf> = self.get(name)?;
        let directory = path.as_deref().and_then(Path::parent);
        let directory = directory.filter(|dir| !dir.as_os_str().is_empty());
        if directory.is_some_and(|dir| !dir.is_dir()) {
            let path = path.unwrap_or_default();
            let what = format!("the directory of {} does not exist", path.display());
            return Err(self.wrong(name, what));
        }
        Ok(path)
    }

    /// Returns a record with everything known before measuring. `title` describes the measurement in one sentence,
    /// without its full stop.
    pub(crate) fn record(
        &self,
        title: String,
        subjects: Vec<Subject>,
        notes: Vec<String>,
    ) -> Record {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let shown = |text: &str| {
            let parts: Vec<String> = text.split(", ").map(without_path).collect();
            parts.join(", ")
        };
        let listed = self.flags.in_effect().into_iter();
        let listed = listed.filter(|(name, _)| !PATHS.contains(&name.as_str()));
        let parameters = listed.map(|(name, value)| Parameter {
            value: shown(&value),
            name,
        });
        Record {
            format: FORMAT,
            tool: Tool {
                name: env!("CARGO_PKG_NAME").to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                profile: machine::profile().to_owned(),
            },
            command: std::iter::once(format!("{} {}", env!("CARGO_PKG_NAME"), self.command))
                .chain(self.arguments.iter().map(|argument| without_path(argument)))
                .collect::<Vec<_>>()
                .join(" "),
            time_s: now.unwrap_or_default().as_secs(),
            seed: self.get("seed").unwrap_or_default(),
            machine: machine::facts(),
            scenario: self.command.to_owned(),
            title,
            parameters: parameters.collect(),
            subjects,
            runs: Vec::new(),
            differences: Vec::new(),
            notes,
        }
    }
}

/// Returns an argument whose path is reduced to its last part. Addresses are not paths.
fn without_path(argument: &str) -> String {
    let last = |path: &str| {
        let name = Path::new(path).file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    if argument.contains("://") {
        return argument.to_owned();
    }
    match argument.rsplit_once('=') {
        Some((name, path)) if path.contains('/') => format!("{name}={}", last(path)),
        None if argument.contains('/') => last(argument),
        _ => argument.to_owned(),
    }
}

/// Returns the error of a command line.
pub(crate) fn usage(what: impl Into<String>) -> BenchError {
    BenchError::Usage(what.into())
}

impl From<UsageError> for BenchError {
    fn from(error: UsageError) -> Self {
        usage(match error {
            UsageError::Command { name } => format!("{name:?} is no command"),
            UsageError::Value { flag, reason } => format!("{flag}: {reason}"),
            other => other.to_string(),
        })
    }
}

#[cfg(test)]
mod tests;
