//! The command line: each flag is one row of a table, from which parsing and help both come.
//!
//! **Invariant:** nothing is started before the whole line has been read and found right.

use crate::error::BenchError;
use std::time::Duration;

/// One flag.
#[derive(Debug)]
pub(crate) struct Flag {
    /// Its name without dashes.
    pub(crate) name: &'static str,
    /// What its value is called in help; empty for a switch.
    pub(crate) value: &'static str,
    /// Its value when it is not given.
    pub(crate) default: &'static str,
    /// What it does.
    pub(crate) help: &'static str,
}

/// The flags of `storage`.
pub(crate) static STORAGE: &[Flag] = &[
    Flag {
        name: "server",
        value: "NAME=PATH",
        default: "",
        help: "Server under test, repeatable, the first is the one others are compared with. NAME is a preset, or \
               preset@label for several of a kind. Default: the presets found beside this program or on PATH.",
    },
    Flag {
        name: "targets",
        value: "N",
        default: "850",
        help: "Targets of the fleet.",
    },
    Flag {
        name: "series",
        value: "N",
        default: "588",
        help: "Series of each target.",
    },
    Flag {
        name: "interval",
        value: "TIME",
        default: "5s",
        help: "Time between scrapes of a target.",
    },
    Flag {
        name: "warmup",
        value: "TIME",
        default: "30s",
        help: "Time before measuring starts.",
    },
    Flag {
        name: "duration",
        value: "TIME",
        default: "120s",
        help: "Time measured, for each server.",
    },
    Flag {
        name: "gzip",
        value: "",
        default: "false",
        help: "Compress the bodies.",
    },
    Flag {
        name: "line-labels",
        value: "",
        default: "false",
        help: "Write cluster, namespace, service, pod and node into every line, instead of giving them as target labels.",
    },
    Flag {
        name: "seed",
        value: "N",
        default: "1",
        help: "Which fleet: another seed has other pods and values.",
    },
    Flag {
        name: "dir",
        value: "DIR",
        default: "",
        help: "Where the servers keep their data while they run. Default: the system's temporary directory.",
    },
    Flag {
        name: "out",
        value: "FILE",
        default: "",
        help: "Where the JSON record goes.",
    },
];

/// The flags of `self-test`.
pub(crate) static SELF_TEST: &[Flag] = &[Flag {
    name: "dir",
    value: "DIR",
    default: "",
    help: "Where the known bytes are written. Default: the system's temporary directory.",
}];

/// The flags of `burn`, the process that `self-test` measures.
pub(crate) static BURN: &[Flag] = &[
    Flag {
        name: "cpu",
        value: "TIME",
        default: "0s",
        help: "CPU time to use up.",
    },
    Flag {
        name: "write",
        value: "BYTES",
        default: "0",
        help: "Bytes to write.",
    },
    Flag {
        name: "file",
        value: "FILE",
        default: "",
        help: "File to write them to.",
    },
];

/// The values of one command line.
#[derive(Debug)]
pub(crate) struct Values {
    flags: &'static [Flag],
    given: Vec<(&'static str, String)>,
}

impl Values {
    /// Reads `--name=value`, `--name value`, `--switch` and `--no-switch`.
    ///
    /// # Errors
    ///
    /// When an argument is no flag of the table, has no value, or is given twice without being repeatable.
    pub(crate) fn parse(
        flags: &'static [Flag],
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, BenchError> {
        let mut values = Self {
            flags,
            given: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument
                .strip_prefix("--")
                .ok_or_else(|| usage(format!("{argument:?} is not a flag")))?;
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let (flag, value) = values.value_of(name, value, &mut arguments)?;
            if flag.name != "server" && values.given.iter().any(|(name, _)| *name == flag.name) {
                return Err(usage(format!("--{} is given twice", flag.name)));
            }
            values.given.push((flag.name, value));
        }
        Ok(values)
    }

    fn value_of(
        &self,
        name: &str,
        value: Option<String>,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(&'static Flag, String), BenchError> {
        let find = |name: &str| self.flags.iter().find(|flag| flag.name == name);
        if let Some(flag) = name.strip_prefix("no-").and_then(find)
            && flag.value.is_empty()
            && value.is_none()
        {
            return Ok((flag, "false".to_owned()));
        }
        let flag = find(name).ok_or_else(|| usage(format!("--{name} is not known")))?;
        let value = match value {
            Some(value) => value,
            None if flag.value.is_empty() => "true".to_owned(),
            None => rest
                .next()
                .ok_or_else(|| usage(format!("--{name} needs a value: {}", flag.value)))?,
        };
        Ok((flag, value))
    }

    /// Returns a flag's value, its default when it was not given.
    ///
    /// # Panics
    ///
    /// When the table has no such flag.
    pub(crate) fn text(&self, name: &str) -> &str {
        let flag = self.flags.iter().find(|flag| flag.name == name);
        let default = flag.expect("callers name flags of their table").default;
        let given = self.given.iter().find(|(given, _)| *given == name);
        given.map_or(default, |(_, value)| value)
    }

    /// Returns all values of a repeatable flag.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let given = self.given.iter().filter(move |(given, _)| *given == name);
        given.map(|(_, value)| value.as_str())
    }

    /// Returns a whole number within `range`.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(crate) fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, BenchError> {
        let number = self.text(name).parse().ok();
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            usage(format!(
                "--{name}: {:?} is not a number from {} to {}",
                self.text(name),
                range.start(),
                range.end()
            ))
        })
    }

    /// Returns a time, such as `500ms`, `5s` or `2m`, of at most an hour.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(crate) fn time(&self, name: &str) -> Result<Duration, BenchError> {
        let text = self.text(name);
        parse_time(text)
            .filter(|time| *time <= Duration::from_secs(3600))
            .ok_or_else(|| {
                usage(format!(
                    "--{name}: {text:?} is not a time of at most an hour, such as 500ms, 5s or 2m"
                ))
            })
    }

    /// Returns whether a switch is on.
    ///
    /// # Errors
    ///
    /// When its value is neither true nor false.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, BenchError> {
        let text = self.text(name);
        text.parse()
            .map_err(|_| usage(format!("--{name}: {text:?} is neither true nor false")))
    }
}

/// Returns the error of a command line.
pub(crate) fn usage(what: impl Into<String>) -> BenchError {
    BenchError::Usage(what.into())
}

/// Returns the help of all commands.
pub(crate) fn help() -> String {
    let mut text = "usage: narthex-bench <command> [<flags>]\n\n\
        Drives servers from outside, on loopback, and measures what they cost. Without a command: a short `storage`.\n"
        .to_owned();
    for (command, about, flags) in [
        (
            "storage",
            "Servers scrape the same fleet, one after another.",
            STORAGE,
        ),
        (
            "self-test",
            "Measures known CPU time and known bytes.",
            SELF_TEST,
        ),
    ] {
        text.push_str(&format!("\n{command}: {about}\n"));
        for flag in flags {
            let name = match (flag.value, flag.default) {
                ("", _) => format!("--[no-]{}", flag.name),
                (value, "") => format!("--{}={value}", flag.name),
                (_, default) => format!("--{}={default}", flag.name),
            };
            text.push_str(&format!("  {name}\n      {}\n", flag.help));
        }
    }
    text
}

fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Values, BenchError> {
        Values::parse(STORAGE, line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_are_read_in_every_form() {
        let values =
            parse("--targets=7 --series 9 --gzip --server a=b --server=c=d --interval 500ms")
                .unwrap();
        assert_eq!(values.number("targets", 1..=10).unwrap(), 7);
        assert_eq!(values.number("series", 1..=10).unwrap(), 9);
        assert_eq!(values.number("seed", 0..=10).unwrap(), 1);
        assert!(values.switch("gzip").unwrap());
        assert_eq!(values.all("server").collect::<Vec<_>>(), ["a=b", "c=d"]);
        assert_eq!(values.time("interval").unwrap(), Duration::from_millis(500));
        assert_eq!(values.time("duration").unwrap(), Duration::from_secs(120));
        assert!(!parse("--no-gzip").unwrap().switch("gzip").unwrap());
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_reason() {
        let refused = |line: &str| parse(line).unwrap_err().to_string();
        assert_eq!(refused("targets"), "\"targets\" is not a flag");
        assert_eq!(refused("--color"), "--color is not known");
        assert_eq!(refused("--no-targets"), "--no-targets is not known");
        assert_eq!(refused("--seed"), "--seed needs a value: N");
        assert_eq!(refused("--seed 1 --seed 2"), "--seed is given twice");
        let values = parse("--targets=0 --interval=5 --duration=9999s --gzip=maybe").unwrap();
        assert!(values.number("targets", 1..=5).is_err());
        assert!(values.time("interval").is_err());
        assert!(values.time("duration").is_err());
        assert!(values.switch("gzip").is_err());
    }

    #[test]
    fn help_names_every_flag() {
        let help = help();
        for flag in STORAGE.iter().chain(SELF_TEST) {
            assert!(help.contains(flag.help), "{}", flag.name);
        }
        assert!(help.contains("--targets=850\n") && help.contains("--[no-]gzip\n"));
    }
}
