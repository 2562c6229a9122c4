//! `narthex doctor`: examines this host, or the page of a running exporter or server.
//!
//! **Invariant:** the exit code is that of the severest finding: 0 for none or a notice, 1 for a warning, 2 for a
//! critical one; 3 if there was no page to examine.

use super::{examine, facts, worst};
use crate::reload;
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_host::{Finding, HostConfig, HostSource, Severity};
use narthex_model::{Frame, LabelSet};
use narthex_net::{Client, HttpClientConfig, Request, Url};
use narthex_tsdb::{Clock as _, SystemClock};
use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

/// What to examine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Doctor {
    /// Pages, or addresses whose `/metrics` are; this host if there are none.
    pub(crate) urls: Vec<String>,
}

const NO_PAGE: u8 = 3;

/// Examines, writes the findings to `out` and failures to `error`; returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn run(doctor: &Doctor, out: &mut dyn Write, error: &mut dyn Write) -> io::Result<u8> {
    if doctor.urls.is_empty() {
        return report(this_host(), out, error);
    }
    let mut worst = 0;
    for url in &doctor.urls {
        if doctor.urls.len() > 1 {
            writeln!(out, "{url}:")?;
        }
        worst = worst.max(report(remote(url), out, error)?);
    }
    Ok(worst)
}

fn report(
    findings: Result<Vec<Finding>, String>,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    match findings {
        Ok(findings) => {
            write(&findings, out)?;
            Ok(code(worst(&findings)))
        }
        Err(reason) => writeln!(error, "{reason}").map(|()| NO_PAGE),
    }
}

fn code(worst: Option<Severity>) -> u8 {
    match worst {
        None | Some(Severity::Notice) => 0,
        Some(Severity::Warning) => 1,
        Some(Severity::Critical) => 2,
    }
}

fn write(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    if findings.is_empty() {
        return writeln!(out, "Nothing to advise.");
    }
    for finding in findings {
        let severity = finding.severity.name();
        writeln!(out, "{severity} {}: {}", finding.rule, finding.text)?;
        writeln!(out, "    {}", finding.help)?;
    }
    Ok(())
}

/// Collects here, with what pages of exporters do not have.
fn this_host() -> Result<Vec<Finding>, String> {
    let now_ms = SystemClock.now_ms();
    let mut host = HostSource::new(HostConfig::default()).map_err(|error| error.to_string())?;
    let facts = facts::page(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
    examine_with(host.collect(now_ms), &facts, now_ms)
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

fn remote(url: &str) -> Result<Vec<Finding>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let page = runtime.block_on(fetch(url));
    // Does not wait for a pending name lookup.
    runtime.shutdown_background();
    examine_page(&page?)
}

fn examine_page(page: &[u8]) -> Result<Vec<Finding>, String> {
    let now_ms = SystemClock.now_ms();
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let round = parser
        .parse(Format::Text, page, now_ms, &mut KeepLabels)
        .map_err(|error| format!("not a page of metrics: {error}"))?;
    examine(&[&round.frame], now_ms)
}

async fn fetch(address: &str) -> Result<Vec<u8>, String> {
    let base = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let has_path = base
        .split_once("://")
        .is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
    let url = match has_path {
        true => base,
        false => format!("{}/metrics", base.trim_end_matches('/')),
    };
    let url = Url::parse(&url).map_err(|error| error.to_string())?;
    let mut request = Request::new(url.clone());
    request.timeout = Duration::from_secs(10);
    let http = HttpClientConfig::default();
    let client =
        Client::with_http(reload::client_config(), http).map_err(|error| error.to_string())?;
    let mut body = Vec::new();
    let head = client.get(&request, &mut body).await;
    let head = head.map_err(|error| error.to_string())?;
    match head.status {
        200 => Ok(body),
        status => Err(format!("{url} answered {status}")),
    }
}
