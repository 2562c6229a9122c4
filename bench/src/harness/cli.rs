//! The command line: each flag is one row of a table that parsing, scenario files and help all use.
//!
//! **Invariant:** nothing is started before the whole line has been parsed and checked. A value comes from the command
//! line, else from the scenario file, else from the table's default.

use super::{ScenarioFile, ServerKind, error::BenchError, machine};
use crate::record::{FORMAT, Parameter, Record, Tool};
use narthex_cli::Surroundings;
use std::{
    ffi::OsString,
    fmt::Display,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(crate) use narthex_cli::Flag;

/// The flags of every scenario.
pub(crate) static COMMON: &[Flag] = &[
    Flag::new(
        "repetitions",
        "N",
        "1",
        "How often everything is measured, in alternating order.",
    ),
    Flag::new(
        "seed",
        "N",
        "1",
        "What is generated: another seed gives other names and values.",
    ),
    Flag::new(
        "dir",
        "DIR",
        "",
        "Where servers keep their data while they run. Default: the system's temporary directory.",
    ),
    Flag::new("out", "FILE", "", "Where the JSON record goes."),
    Flag::new(
        "html",
        "FILE",
        "",
        "Where the report goes, one page that loads nothing.",
    ),
];

/// Flags that are paths, which a record omits.
const PLACES: &[&str] = &["dir", "out", "html"];

/// The values of one command.
#[derive(Debug)]
pub(crate) struct Values {
    command: &'static str,
    tables: [&'static [Flag]; 2],
    given: Vec<Given>,
    kinds: Vec<ServerKind>,
    arguments: Vec<String>,
}

/// An explicit value.
#[derive(Debug)]
struct Given {
    name: &'static str,
    value: String,
    /// Position in the scenario file, such as `storage.yml:3:5`; empty for the command line.
    place: String,
}

impl Values {
    /// Parses `--name=value`, `--name value`, `--switch` and `--no-switch` against the flags of a command.
    pub(crate) fn parse(
        command: &'static str,
        tables: [&'static [Flag]; 2],
        arguments: &[String],
    ) -> Result<Self, BenchError> {
        let line: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let parsed = narthex_cli::Values::parse(&tables, &line, Surroundings::process());
        let parsed = parsed.map_err(|error| usage(error.to_string()))?;
        let given = parsed.given().map(|(name, value)| {
            let value = value.to_str().map(str::to_owned);
            Ok(Given {
                name,
                value: value.ok_or_else(|| usage(format!("--{name}: not UTF-8")))?,
                place: String::new(),
            })
        });
        Ok(Self {
            command,
            tables,
            given: given.collect::<Result<_, BenchError>>()?,
            kinds: Vec::new(),
            arguments: arguments.to_vec(),
        })
    }

    /// Adds the values of a scenario file; the command line takes precedence.
    pub(crate) fn with_file(mut self, file: ScenarioFile) -> Result<Self, BenchError> {
        let by_hand: Vec<&str> = self.given.iter().map(|given| given.name).collect();
        for entry in file.entries {
            let flag = self
                .flag(&entry.name)
                .filter(|flag| !PLACES.contains(&flag.name))
                .ok_or_else(|| {
                    let (place, name, command) = (&entry.place, &entry.name, self.command);
                    usage(format!("{place}: {command} has no {name:?}"))
                })?;
            if entry.values.len() != 1 && !flag.is_repeatable {
                let (place, name) = (&entry.place, flag.name);
                return Err(usage(format!("{place}: {name} takes one value")));
            }
            if by_hand.contains(&flag.name) {
                continue;
            }
            for (value, place) in entry.values {
                self.give(flag, value, place)?;
            }
        }
        self.kinds = file.kinds;
        Ok(self)
    }

    fn give(&mut self, flag: &Flag, value: String, place: String) -> Result<(), BenchError> {
        let is_twice = self.given.iter().any(|given| given.name == flag.name);
        if is_twice && !flag.is_repeatable {
            return Err(usage(format!("--{} is given twice", flag.name)));
        }
        let flag = self.flag(flag.name).expect("the flag is of the tables");
        self.given.push(Given {
            name: flag.name,
            value,
            place,
        });
        Ok(())
    }

    fn flag(&self, name: &str) -> Option<&'static Flag> {
        self.flags().find(|flag| flag.name == name)
    }

    fn flags(&self) -> impl Iterator<Item = &'static Flag> {
        self.tables.into_iter().flatten()
    }

    /// Returns a flag's value, or its default.
    ///
    /// # Panics
    ///
    /// If the tables have no such flag.
    pub(crate) fn text(&self, name: &str) -> &str {
        let default = self.flag(name).expect("callers name flags of their table");
        let given = self.given.iter().find(|given| given.name == name);
        given.map_or(default.default, |given| &given.value)
    }

    /// Returns all values of a list.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let given = self.given.iter().filter(move |given| given.name == name);
        given.map(|given| given.value.as_str())
    }

    /// Returns the kinds of server that the scenario file declares.
    pub(crate) fn kinds(&self) -> &[ServerKind] {
        &self.kinds
    }

    /// Returns the error of a flag's value, with its position in the file or its name on the command line.
    pub(crate) fn wrong(&self, name: &str, what: impl AsRef<str>) -> BenchError {
        let given = self.given.iter().find(|given| given.name == name);
        let what = what.as_ref();
        match given.map(|given| given.place.as_str()) {
            None | Some("") => usage(format!("--{name}: {what}")),
            Some(place) => usage(format!("{place}: {name}: {what}")),
        }
    }

    /// Returns a whole number within `range`.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64, BenchError> {
        self.within(name, &range)
    }

    /// Returns a number, possibly with a fraction, within `range`.
    pub(crate) fn real(&self, name: &str, range: RangeInclusive<f64>) -> Result<f64, BenchError> {
        self.within(name, &range)
    }

    fn within<T>(&self, name: &str, range: &RangeInclusive<T>) -> Result<T, BenchError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.text(name);
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (start, end) = (range.start(), range.end());
            let what = format!("{text:?} is not a number from {start} to {end}");
            self.wrong(name, what)
        })
    }

    /// Returns a time, such as `500ms`, `5s`, `2m` or `1h`, of at most a day.
    pub(crate) fn time(&self, name: &str) -> Result<Duration, BenchError> {
        let text = self.text(name);
        parse_time(text)
            .filter(|time| *time <= Duration::from_secs(86_400))
            .ok_or_else(|| {
                let what = "is not a time of at most a day, such as 500ms, 5s, 2m or 1h";
                self.wrong(name, format!("{text:?} {what}"))
            })
    }

    /// Returns whether a switch is on.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, BenchError> {
        let text = self.text(name);
        text.parse()
            .map_err(|_| self.wrong(name, format!("{text:?} is neither true nor false")))
    }

    /// Returns the choice that a flag names.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&'static str, T)],
    ) -> Result<T, BenchError> {
        let text = self.text(name);
        let found = choices.iter().find(|(choice, _)| *choice == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.wrong(name, format!("{text:?} is none of {}", names.join(", ")))
        })
    }

    /// Returns the number of repetitions.
    pub(crate) fn repetitions(&self) -> Result<usize, BenchError> {
        Ok(self.number("repetitions", 1..=100)? as usize)
    }

    /// Returns the seed, which fits 32 bits.
    pub(crate) fn seed(&self) -> Result<u64, BenchError> {
        self.number("seed", 0..=u64::from(u32::MAX))
    }

    /// Returns the base directory, on a disk, of the servers' directories.
    pub(crate) fn dir(&self) -> Result<PathBuf, BenchError> {
        let dir = match self.text("dir") {
            "" => std::env::temp_dir(),
            dir => PathBuf::from(dir),
        };
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
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        let directory = Path::new(text).parent();
        let directory = directory.filter(|dir| !dir.as_os_str().is_empty());
        if directory.is_some_and(|dir| !dir.is_dir()) {
            return Err(self.wrong(name, format!("the directory of {text} does not exist")));
        }
        Ok(Some(PathBuf::from(text)))
    }

    /// Returns a record with everything known before measuring. `title` describes the measurement in one sentence,
    /// without its full stop.
    pub(crate) fn record(&self, title: String) -> Record {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let listed = self.flags().filter(|flag| !PLACES.contains(&flag.name));
        let parameter = |flag: &Flag| Parameter {
            name: flag.name.to_owned(),
            value: if flag.is_repeatable {
                self.all(flag.name)
                    .map(without_path)
                    .collect::<Vec<_>>()
                    .join(", ")
            } else {
                without_path(self.text(flag.name))
            },
        };
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
            seed: self.seed().unwrap_or_default(),
            machine: machine::facts(),
            scenario: self.command.to_owned(),
            title,
            parameters: listed.map(parameter).collect(),
            subjects: Vec::new(),
            runs: Vec::new(),
            differences: Vec::new(),
            notes: Vec::new(),
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

/// Appends the help of one command's flags.
pub(crate) fn help_of(flags: &[Flag], text: &mut String) {
    for flag in flags {
        text.push_str(&format!("  {}\n      {}\n", flag.usage(), flag.help));
    }
}

/// Parses a duration, such as `500ms`, `5s`, `2m` or `1h`.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    static FLAGS: &[Flag] = &[
        Flag::list("server", "NAME=PATH", "Server."),
        Flag::new("targets", "N", "850", "Targets."),
        Flag::new("interval", "TIME", "5s", "Interval."),
        Flag::switch("gzip", "Compress."),
    ];

    fn parse(line: &str) -> Result<Values, BenchError> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Values::parse("storage", [FLAGS, COMMON], &arguments)
    }

    #[test]
    fn flags_are_read_in_every_form() {
        let values =
            parse("--targets=7 --seed 9 --gzip --server a=b --server=c=d --interval 500ms")
                .unwrap();
        assert_eq!(values.number("targets", 1..=10).unwrap(), 7);
        assert_eq!(values.seed().unwrap(), 9);
        assert_eq!(values.number("repetitions", 0..=10).unwrap(), 1);
        assert!(values.switch("gzip").unwrap());
        assert_eq!(values.all("server").collect::<Vec<_>>(), ["a=b", "c=d"]);
        assert_eq!(values.time("interval").unwrap(), Duration::from_millis(500));
        assert!(!parse("--no-gzip").unwrap().switch("gzip").unwrap());
        assert_eq!(values.real("targets", 0.0..=7.5).unwrap(), 7.0);
        let choice = values.choice("targets", &[("6", false), ("7", true)]);
        assert!(choice.unwrap());
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_reason() {
        let refused = |line: &str| parse(line).unwrap_err().to_string();
        assert_eq!(refused("targets"), "unexpected \"targets\"");
        assert_eq!(refused("--color"), "unknown long flag '--color'");
        assert_eq!(
            refused("--no-targets"),
            "unknown long flag '--no-targets'; did you mean '--targets'?"
        );
        assert_eq!(refused("--seed"), "expected argument for flag '--seed'");
        assert_eq!(
            refused("--seed 1 --seed 2"),
            "flag '--seed' cannot be repeated"
        );
        let values = parse("--targets=0 --interval=5 --gzip=maybe").unwrap();
        assert!(values.number("targets", 1..=5).is_err());
        assert!(values.time("interval").is_err());
        assert!(values.switch("gzip").is_err());
        let choice = values.choice("targets", &[("6", 6), ("7", 7)]).unwrap_err();
        assert_eq!(choice.to_string(), "--targets: \"0\" is none of 6, 7");
    }

    #[test]
    fn the_command_line_goes_before_the_file_and_the_file_before_the_default() {
        let text =
            "scenario: storage\ntargets: 12\ninterval: 9\nserver:\n  - narthex\n  - prometheus\n";
        let file = || ScenarioFile::parse(text, "x.yml").unwrap();
        let values = parse("--server=a=b").unwrap().with_file(file()).unwrap();
        assert_eq!(values.all("server").collect::<Vec<_>>(), ["a=b"]);
        assert_eq!(values.number("targets", 1..=20).unwrap(), 12);
        assert_eq!(
            values.number("targets", 1..=5).unwrap_err().to_string(),
            "x.yml:2:10: targets: \"12\" is not a number from 1 to 5"
        );
        let values = parse("--targets=3").unwrap().with_file(file()).unwrap();
        assert_eq!(
            values.all("server").collect::<Vec<_>>(),
            ["narthex", "prometheus"]
        );
        assert_eq!(values.text("targets"), "3");
        assert_eq!(values.text("seed"), "1");
        let refused = |text: &str| {
            let file = ScenarioFile::parse(text, "x.yml").unwrap();
            parse("").unwrap().with_file(file).unwrap_err().to_string()
        };
        assert_eq!(
            refused("scenario: storage\n  \ntarget: 12\n"),
            "x.yml:3:1: storage has no \"target\""
        );
        assert_eq!(
            refused("scenario: storage\nout: /x\n"),
            "x.yml:2:1: storage has no \"out\""
        );
        assert_eq!(
            refused("scenario: storage\ntargets: [1, 2]\n"),
            "x.yml:2:1: targets takes one value"
        );
    }

    #[test]
    fn a_directory_is_named_from_the_root() {
        let arguments = ["--dir=src".to_owned()];
        let values = Values::parse("storage", [FLAGS, COMMON], &arguments).unwrap();
        let dir = values.dir().unwrap();
        assert!(dir.is_absolute() && dir.ends_with("src"), "{dir:?}");
    }

    #[test]
    fn a_record_has_no_paths_of_the_machine() {
        let arguments = [
            "--server",
            "narthex=/a/b/narthex",
            "--server=prometheus=/x/prometheus",
            "--dir",
            "/t/u",
        ];
        let arguments = arguments.map(str::to_owned);
        let values = Values::parse("storage", [FLAGS, COMMON], &arguments).unwrap();
        let record = values.record("x".to_owned());
        assert_eq!(
            record.command,
            "narthex-bench storage --server narthex=narthex --server=prometheus=prometheus --dir u"
        );
        let names: Vec<&str> = record.parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "server",
                "targets",
                "interval",
                "gzip",
                "repetitions",
                "seed"
            ]
        );
        assert_eq!(
            record.parameters[0].value,
            "narthex=narthex, prometheus=prometheus"
        );
        assert_eq!(
            without_path("--url=http://127.0.0.1/x"),
            "--url=http://127.0.0.1/x"
        );
    }
}
