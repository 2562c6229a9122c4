//! `narthex check config`: reads configuration files as the server would and reports whether it would accept them.
//!
//! The rule files that a configuration names are checked too, although the server refuses such a configuration.
//!
//! **Invariant:** exit codes are promtool's: 0 if all files are valid, 1 if one is not, 3 if only lint found something
//! and `--lint-fatal` is set.

use super::check_rules::{Findings, RuleLints, check_files as check_rule_files};
use crate::cli::ConfigFlags;
use crate::config::{Config, Features, Job, RuleSettings};
use narthex_discovery::{SdConfig, TargetGroup};
use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

/// Files to check, and options.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    pub(crate) flags: ConfigFlags,
    /// Names in `--lint` that are unknown.
    pub(crate) unknown_lints: Vec<String>,
    /// What is looked for in rule files.
    pub(crate) rule_lints: RuleLints,
    /// Lookback to compare scrape intervals with, beyond which series turn stale between scrapes; `None` without that
    /// lint.
    pub(crate) lookback_delta: Option<Duration>,
}

/// Checks all files, writes the findings to `out` and `error`, and returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn run(
    check: &CheckConfig,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    let mut findings = Findings::default();
    for lint in &check.unknown_lints {
        writeln!(out, "WARNING: unknown lint option: {lint:?}")?;
    }
    let syntax_only = check.flags.syntax_only;
    for path in &check.flags.files {
        let shown = path.display();
        writeln!(out, "Checking {shown}")?;
        let config = match read(path, syntax_only) {
            Ok((config, warnings)) => {
                for warning in warnings {
                    writeln!(out, "  WARNING: {warning}")?;
                }
                let rules = config.rules.files.len();
                if rules > 0 {
                    writeln!(out, "  SUCCESS: {rules} rule files found")?;
                }
                writeln!(
                    out,
                    " SUCCESS: {shown} is valid prometheus config file syntax"
                )?;
                config
            }
            Err(reason) => {
                writeln!(error, "  FAILED: {reason}")?;
                writeln!(out)?;
                findings.failed = true;
                continue;
            }
        };
        writeln!(out)?;
        let is_too_rare = |job: &&Job| {
            let lookback = check.lookback_delta;
            lookback.is_some_and(|delta| job.scrape.scrape_interval >= delta)
        };
        if let Some(job) = config.jobs.iter().find(is_too_rare) {
            writeln!(
                error,
                "  FAILED: too long scrape interval found, data point will be marked as stale - job: {}, interval: {}",
                job.scrape.job_name,
                crate::config::show_period(job.scrape.scrape_interval)
            )?;
            findings.linted = true;
        }
        if !syntax_only {
            let files = &config.rules.files;
            check_rule_files(files, check.rule_lints, &mut findings, out, error)?;
        }
    }
    Ok(findings.code(check.flags.lint_fatal))
}

/// Rejects a path of rules that names no file; a pattern may match none.
fn check_rule_paths(rules: &RuleSettings) -> Result<(), String> {
    let mut paths = rules.patterns.iter().filter(|path| !path.contains('*'));
    match paths.find(|path| !rules.files.iter().any(|file| file == Path::new(path))) {
        Some(path) => Err(format!("{path:?} does not point to an existing file")),
        None => Ok(()),
    }
}

/// Reads a file; returns its configuration and warnings.
fn read(path: &Path, syntax_only: bool) -> Result<(Config, Vec<String>), String> {
    let features = Features {
        skips_job_files: syntax_only,
        ..Features::default()
    };
    let config = Config::load(path, &crate::reload::environment, features)
        .map_err(|error| error.to_string())?;
    if let Some(reason) = &config.remote_write.unusable {
        return Err(reason.clone());
    }
    if !syntax_only {
        check_rule_paths(&config.rules)?;
    }
    let mut warnings = config.warnings.clone();
    for job in &config.jobs {
        if !syntax_only {
            check_files(job)?;
        }
        let owner = format!("scrape job {:?}", job.scrape.job_name);
        let check = |groups: &[TargetGroup]| check_groups(job, groups);
        warnings.extend(check_discovery(&owner, &job.discovery, syntax_only, check)?);
    }
    for set in &config.alerting.sets {
        let check = |groups: &[TargetGroup]| {
            let mut checked = groups.iter().map(|group| set.check_group(group));
            checked.try_for_each(|one| one)
        };
        let owner = "alertmanager config";
        warnings.extend(check_discovery(owner, &set.discovery, syntax_only, check)?);
    }
    Ok((config, warnings))
}

/// Fails if a file that a job's client needs is missing.
fn check_files(job: &Job) -> Result<(), String> {
    let http = &job.scrape.http;
    let credentials = http
        .authorization
        .as_ref()
        .and_then(|authorization| authorization.credentials_file.as_ref());
    for (what, file) in [
        ("authorization credentials or bearer token", credentials),
        ("client cert", http.tls.cert_file.as_ref()),
        ("client key", http.tls.key_file.as_ref()),
    ] {
        if let Some(file) = file {
            std::fs::metadata(file).map_err(|error| {
                let shown = file.display().to_string();
                format!("error checking {what} file {shown:?}: {error}")
            })?;
        }
    }
    Ok(())
}

/// Checks the targets that are listed for `owner`, also in files; returns a warning for each pattern without a match.
fn check_discovery(
    owner: &str,
    discovery: &[SdConfig],
    syntax_only: bool,
    check: impl Fn(&[TargetGroup]) -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let mut patterns = Vec::new();
    for one in discovery {
        match one {
            SdConfig::Static(groups) => check(groups)?,
            SdConfig::File(lists) if !syntax_only => patterns.extend(&lists.files),
            _ => {}
        }
    }
    let mut warnings = Vec::new();
    for pattern in patterns {
        let found = narthex_net::glob::glob(pattern)?;
        if found.is_empty() {
            warnings.push(format!(
                "file {pattern:?} for file_sd in {owner} does not exist"
            ));
        }
        for file in found {
            let groups = narthex_discovery::read_file(&file)
                .map_err(|error| format!("checking SD file {pattern:?}: {error}"))?;
            check(&groups)?;
        }
    }
    Ok(warnings)
}

/// Fails if relabelling a target gives invalid labels.
fn check_groups(job: &Job, groups: &[TargetGroup]) -> Result<(), String> {
    for group in groups {
        for (at, preview) in job.scrape.preview(group).into_iter().enumerate() {
            if let Some(reason) = preview.error {
                return Err(format!("instance {at} in group {}: {reason}", group.source));
            }
        }
    }
    Ok(())
}
