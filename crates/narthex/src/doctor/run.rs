//! `narthex doctor`: examines this host, or what a running exporter or server says of its own.
//!
//! **Invariant:** the exit code is that of the severest finding: 0 for none or a notice, 1 for a warning, 2 for a
//! critical one; 3 if there was no page to examine.

use super::{examine, remote::remote, worst};
use crate::{cli::DoctorFlags, host_facts::HostFacts};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_host::{Finding, HostConfig, HostSource, Severity};
use narthex_model::{Frame, LabelSet};
use narthex_tsdb::{Clock as _, SystemClock};
use std::io::{self, Write};

const NO_PAGE: u8 = 3;

/// Examines, writes the findings to `out` and failures to `error`; returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn run(
    flags: &DoctorFlags,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    if flags.urls.is_empty() {
        return match this_host(flags) {
            Ok(findings) => report(&findings, out),
            Err(reason) => writeln!(error, "{reason}").map(|()| NO_PAGE),
        };
    }
    let mut worst = 0;
    for url in &flags.urls {
        let hosts = match remote(url) {
            Ok(hosts) => hosts,
            Err(reason) => {
                writeln!(error, "{reason}")?;
                worst = NO_PAGE;
                continue;
            }
        };
        for (name, findings) in &hosts {
            if flags.urls.len() > 1 || hosts.len() > 1 {
                writeln!(out, "{name}:")?;
            }
            worst = worst.max(report(findings, out)?);
        }
    }
    Ok(worst)
}

/// Writes findings; returns the exit code for the severest.
fn report(findings: &[Finding], out: &mut dyn Write) -> io::Result<u8> {
    if findings.is_empty() {
        writeln!(out, "Nothing to advise.")?;
    }
    for finding in findings {
        let severity = finding.severity.name();
        writeln!(out, "{severity} {}: {}", finding.rule, finding.text)?;
        writeln!(out, "    {}", finding.help)?;
    }
    Ok(match worst(findings) {
        None | Some(Severity::Notice) => 0,
        Some(Severity::Warning) => 1,
        Some(Severity::Critical) => 2,
    })
}

/// Collects here, with what pages of exporters do not have.
fn this_host(flags: &DoctorFlags) -> Result<Vec<Finding>, String> {
    let now_ms = SystemClock.now_ms();
    let config = HostConfig {
        procfs: flags.procfs.clone(),
        rootfs: flags.rootfs.clone(),
        sysfs: flags.sysfs.clone(),
        ..crate::host::defaults()
    };
    let facts = HostFacts::new(&config, LabelSet::empty());
    let mut host = HostSource::new(config).map_err(|error| error.to_string())?;
    let facts = facts.page();
    examine_with(host.warm_up(now_ms), &facts, now_ms)
}

/// Examines a round of the host together with facts in the text format.
///
/// # Errors
/// As [`examine`].
pub(super) fn examine_with(
    frame: &Frame,
    facts: &str,
    now_ms: i64,
) -> Result<Vec<Finding>, String> {
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let round = parser
        .parse(Format::Text, facts.as_bytes(), now_ms, &mut KeepLabels)
        .map_err(|error| error.to_string())?;
    examine(&[frame, &round.frame], now_ms)
}
