//! Flags of `narthex push`.

use crate::role::push::{Action, Compression, PushCommand, Target};
use narthex_cli::{List, UsageError, Values, flags};
use narthex_push::{GaugeMode, Grouping, Timestamps};
use std::{path::PathBuf, time::Duration};

flags! {
    /// What `push` takes.
    #[derive(Debug)]
    pub(crate) struct PushFlags {
        /// Where the gateway is.
        gateway: String = "gateway", default("http://localhost:9091"), value("URL");
        /// Job that the metrics are of.
        job: String = "job";
        /// Further label of their group, NAME=VALUE; may be repeated.
        labels: Vec<String> = "label", value("NAME=VALUE");
        /// Instead of --job and --label: labels of the series themselves that name their groups, separated by commas and job
        /// among them; all groups are pushed in one request.
        group_by: List = "group-by";
        /// Replace families of the same name only, not all of the group: POST instead of PUT.
        add: bool = "add";
        /// Delete the group instead of pushing.
        delete: bool = "delete";
        /// How long the group lives without another push; 0 for ever.
        ttl: Option<Duration> = "ttl";
        /// Longest time until the next push, after which the gateway counts the group as silent.
        interval: Option<Duration> = "interval";
        /// Let the gateway add the push to what the group has, and gauges become: last, sum, min or max.
        aggregate: Option<String> = "aggregate", offers(&["last", "sum", "min", "max"]);
        /// What becomes of timestamps in the files: refuse, strip or keep.
        timestamps: String = "timestamps", default("refuse"), offers(&["refuse", "strip", "keep"]);
        /// How the request is compressed: gzip, zstd or none. A Pushgateway does not read zstd.
        compression: String = "compression", default("gzip"), offers(&["gzip", "zstd", "none"]);
        /// File of HTTP client settings: TLS, credentials, proxy.
        http_config: Option<PathBuf> = "http.config.file";
        /// Longest time for one request.
        timeout: Duration = "timeout", default("10s");
        /// Time after which no further attempt begins while the gateway is busy or does not answer; 0 for a single one.
        max_time: Duration = "max-time", default("1m");
        /// Files in the text format, OpenMetrics or protobuf; patterns of files; - for standard input.
        inputs: Vec<String> = "file", positional(), optional(), file();
    }
}

impl PushFlags {
    /// Reads the values of `push`.
    ///
    /// # Errors
    /// Fails on the first invalid value.
    pub(crate) fn read(values: Values) -> Result<PushCommand, UsageError> {
        let flags = Self::from_values(values)?;
        let target = flags.target()?;
        let action = match (flags.delete, flags.add) {
            (true, true) => return Err(invalid("add", "a group that is deleted gets nothing")),
            (true, false) => Action::Delete,
            (false, true) => Action::Add,
            (false, false) => Action::Replace,
        };
        if flags.delete != flags.inputs.is_empty() {
            return Err(if flags.delete {
                invalid("delete", "no files are pushed")
            } else {
                UsageError::Missing { what: "file" }
            });
        }
        let aggregate = flags.aggregate.as_deref();
        if let Some(mode) = aggregate.filter(|mode| GaugeMode::from_name(mode).is_none()) {
            return Err(unknown("aggregate", mode));
        }
        let timestamps = match flags.timestamps.as_str() {
            "refuse" => Timestamps::Refuse,
            "strip" => Timestamps::Strip,
            "keep" => Timestamps::Keep,
            other => return Err(unknown("timestamps", other)),
        };
        let compression = match flags.compression.as_str() {
            "gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            "none" => Compression::None,
            other => return Err(unknown("compression", other)),
        };
        Ok(PushCommand {
            flags,
            target,
            action,
            timestamps,
            compression,
        })
    }

    fn target(&self) -> Result<Target, UsageError> {
        if !self.group_by.0.is_empty() {
            if !self.job.is_empty() || !self.labels.is_empty() || self.delete {
                return Err(invalid("group-by", "the series name their groups"));
            }
            if !self.group_by.0.iter().any(|name| name == "job") {
                return Err(invalid("group-by", "job is not among the labels"));
            }
            return Ok(Target::Groups(self.group_by.0.clone()));
        }
        if self.job.is_empty() {
            return Err(UsageError::Missing { what: "--job" });
        }
        let mut pairs = vec![("job".to_owned(), self.job.clone())];
        for label in &self.labels {
            let Some((name, value)) = label.split_once('=') else {
                return Err(invalid("label", &format!("not NAME=VALUE: {label:?}")));
            };
            if name.is_empty() || name == "job" || name.starts_with("__") {
                return Err(invalid("label", &format!("improper label name {name:?}")));
            }
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Ok(Target::Group(Grouping::new(pairs)))
    }
}

fn unknown(flag: &str, value: &str) -> UsageError {
    invalid(flag, &format!("unknown: {value:?}"))
}

fn invalid(flag: &str, reason: &str) -> UsageError {
    UsageError::Value {
        flag: format!("--{flag}"),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn read(arguments: &str) -> Result<PushCommand, String> {
        let arguments: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
        let around = narthex_cli::Surroundings::process();
        let values = Values::parse(&[PushFlags::FLAGS], &arguments, around);
        let values = values.map_err(|error| error.to_string())?;
        PushFlags::read(values).map_err(|error| error.to_string())
    }

    #[test]
    fn a_group_is_named_by_job_and_labels() {
        let command = read("--job=j --label=b=2=3 --label=a= f g").unwrap();
        let Target::Group(grouping) = &command.target else {
            panic!("{command:?}")
        };
        assert_eq!(
            grouping.path(false),
            "metrics/job/j/a@base64/=/b@base64/Mj0z"
        );
        assert_eq!(command.flags.inputs, ["f", "g"]);
        assert_eq!(command.action, Action::Replace);
        let command = read("--group-by=job,zone --add -").unwrap();
        assert_eq!(
            command.target,
            Target::Groups(vec!["job".to_owned(), "zone".to_owned()])
        );
        assert_eq!(command.action, Action::Add);
        assert_eq!(read("--job=j --delete").unwrap().action, Action::Delete);
    }

    #[test]
    fn contradictions_are_refused() {
        for (arguments, reason) in [
            ("--job=j", "file"),
            ("f", "--job"),
            ("--job=j --label=a f", "not NAME=VALUE: \"a\""),
            ("--job=j --label=job=b f", "improper label name \"job\""),
            ("--job=j --delete f", "no files are pushed"),
            ("--job=j --delete --add", "gets nothing"),
            ("--job=j --group-by=job f", "the series name their groups"),
            ("--group-by=zone f", "job is not among the labels"),
            ("--job=j --aggregate=mean f", "unknown: \"mean\""),
            ("--job=j --timestamps=no f", "unknown: \"no\""),
            ("--job=j --compression=lz4 f", "unknown: \"lz4\""),
        ] {
            let refused = read(arguments).unwrap_err();
            assert!(refused.contains(reason), "{arguments}: {refused}");
        }
    }
}
