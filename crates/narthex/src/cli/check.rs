//! Flags of `narthex check`, which are promtool's, and of `narthex doctor`.

use crate::role::{
    check_config::CheckConfig,
    check_rules::{CheckRules, RuleLints},
};
use narthex_cli::{UsageError, Values, flags};
use std::{path::PathBuf, time::Duration};

const LATER: &str = "this version does not have it";

flags! {
    /// What `check config` takes.
    #[derive(Debug)]
    pub(crate) struct ConfigFlags {
        /// Check the syntax only, not the files that the configuration names.
        syntax_only: bool = "syntax-only";
        /// Comma-separated lints: all, duplicate-rules, too-long-scrape-interval or none.
        lint: String = "lint", default("duplicate-rules"),
            offers(&["all", "duplicate-rules", "too-long-scrape-interval", "none"]);
        /// Exit with code 3 if lint finds a problem.
        lint_fatal: bool = "lint-fatal";
        /// The server's lookback delta, with which lint compares scrape intervals.
        lookback_delta: Duration = "query.lookback-delta", default("5m");
        /// Skip unknown keys in rule files.
        ignore_unknown_fields: bool = "ignore-unknown-fields";
        /// Configuration files.
        files: Vec<PathBuf> = "config-files", positional();
    }
    refused {
        LATER => "agent": bool;
    }
}

flags! {
    /// What `check rules` takes.
    #[derive(Debug)]
    pub(crate) struct RulesFlags {
        /// Comma-separated lints: all, duplicate-rules or none.
        lint: String = "lint", default("duplicate-rules"), offers(&["all", "duplicate-rules", "none"]);
        /// Exit with code 3 if lint finds a problem.
        lint_fatal: bool = "lint-fatal";
        /// Skip unknown keys instead of rejecting them.
        ignore_unknown_fields: bool = "ignore-unknown-fields";
        /// Rule files; standard input without them.
        files: Vec<PathBuf> = "rule-files", positional(), optional();
    }
}

flags! {
    /// What `check metrics` takes.
    pub(crate) struct MetricsFlags {}
    refused {
        LATER => "extended": bool, "lint": String;
    }
}

flags! {
    /// What `check web-config` takes.
    #[derive(Debug)]
    pub(crate) struct WebConfigFlags {
        /// Files for --web.config.file.
        files: Vec<PathBuf> = "web-config-files", positional();
    }
}

flags! {
    /// What `check healthy` and `check ready` take.
    #[derive(Debug)]
    pub(crate) struct ServerFlags {
        /// File with HTTP client settings.
        http_config: Option<PathBuf> = "http.config.file";
        /// URL of the server.
        url: String = "url", default("http://localhost:9090");
    }
}

flags! {
    /// What `doctor` takes.
    #[derive(Debug)]
    pub(crate) struct DoctorFlags {
        /// Address of an exporter or a server, or of its metrics page; without one, this host is examined.
        urls: Vec<String> = "url", positional(), optional();
        /// procfs of this host.
        procfs: PathBuf = "path.procfs", default("/proc"), directory();
        /// Root of this host's file systems.
        rootfs: PathBuf = "path.rootfs", default("/"), directory();
        /// sysfs of this host.
        sysfs: PathBuf = "path.sysfs", default("/sys"), directory();
    }
}

flags! {
    /// What `check service-discovery` takes.
    #[derive(Debug)]
    pub(crate) struct DiscoveryFlags {
        /// How long to wait for discovered targets; static ones are available at once.
        timeout: Duration = "timeout", default("30s");
        /// The configuration file.
        file: PathBuf = "config-file", positional();
        /// Name of the job.
        job: String = "job", positional();
    }
}

/// Reads the values of `check rules`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn rules(values: Values) -> Result<CheckRules, UsageError> {
    let flags = RulesFlags::from_values(values)?;
    let (mut duplicate_rules, mut unknown_lints) = (false, Vec::new());
    for lint in flags.lint.split(',') {
        match lint {
            "all" | "duplicate-rules" => duplicate_rules = true,
            "" | "none" => {}
            other => unknown_lints.push(other.to_owned()),
        }
    }
    Ok(CheckRules {
        unknown_lints,
        lints: RuleLints {
            duplicate_rules,
            ignore_unknown_fields: flags.ignore_unknown_fields,
        },
        flags,
    })
}

/// Reads the values of `check config`.
///
/// # Errors
/// Fails on the first invalid value.
pub(crate) fn config(values: Values) -> Result<CheckConfig, UsageError> {
    let flags = ConfigFlags::from_values(values)?;
    let (mut interval, mut none, mut unknown_lints) = (false, false, Vec::new());
    let mut duplicate_rules = false;
    for lint in flags.lint.split(',').map(str::trim) {
        match lint {
            "all" => (interval, duplicate_rules) = (true, true),
            "too-long-scrape-interval" => interval = true,
            "duplicate-rules" => duplicate_rules = true,
            "none" => none = true,
            "" => {}
            other => unknown_lints.push(other.to_owned()),
        }
    }
    if none {
        (interval, duplicate_rules, unknown_lints) = (false, false, Vec::new());
    }
    let is_linted = interval && !flags.syntax_only && !flags.lookback_delta.is_zero();
    Ok(CheckConfig {
        unknown_lints,
        rule_lints: RuleLints {
            duplicate_rules,
            ignore_unknown_fields: flags.ignore_unknown_fields,
        },
        lookback_delta: is_linted.then_some(flags.lookback_delta),
        flags,
    })
}
