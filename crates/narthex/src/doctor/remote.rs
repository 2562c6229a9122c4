//! What running exporters and servers say of their hosts.
//!
//! An exporter has one host's page; ours adds the facts that only it can see if it is asked for them. A server has the
//! newest samples of many hosts.
//!
//! **Invariant:** samples of two hosts are never examined together.

use super::examine;
use crate::reload;
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser, Resolver};
use narthex_host::{FACTS_PARAMETER, Finding};
use narthex_model::{Frame, LabelSet};
use narthex_net::{Client, HttpClientConfig, Request, Url};
use narthex_tsdb::{Clock as _, SystemClock};
use std::{collections::BTreeSet, time::Duration};

/// Selects everything that rules are about.
const FEDERATE: &str = "/federate?match[]=%7B__name__%3D~%22(node%7Cnarthex_host)_.%2B%22%7D";

/// Examines an exporter's host, or all hosts that a server knows; returns each with its name.
///
/// # Errors
/// Fails if there is no page, or a rule cannot be evaluated.
pub(super) fn remote(address: &str) -> Result<Vec<(String, Vec<Finding>)>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let examined = runtime.block_on(examined(address));
    // Does not wait for a pending name lookup.
    runtime.shutdown_background();
    examined
}

async fn examined(address: &str) -> Result<Vec<(String, Vec<Finding>)>, String> {
    let base = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let base = base.trim_end_matches('/');
    let has_path = base
        .split_once("://")
        .is_some_and(|(_, rest)| rest.contains(['/', '?']));
    let page = if has_path {
        base.to_owned()
    } else {
        format!("{base}/metrics")
    };
    let separator = if page.contains('?') { '&' } else { '?' };
    let page = fetch(&format!("{page}{separator}{FACTS_PARAMETER}=true")).await?;
    if !has_path && !page.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"node_"))
        // What is no server has no such page.
        && let Ok(newest) = fetch(&format!("{base}{FEDERATE}")).await
    {
        let hosts = of_each_host(&newest)?;
        if !hosts.is_empty() {
            return Ok(hosts);
        }
    }
    Ok(vec![(
        address.to_owned(),
        examine_page(&page, &mut KeepLabels)?,
    )])
}

/// Examines each host of a page that has several.
fn of_each_host(page: &[u8]) -> Result<Vec<(String, Vec<Finding>)>, String> {
    let mut hosts = Hosts(BTreeSet::new());
    parse(page, 0, &mut hosts)?;
    let examined = hosts.0.into_iter().map(|host| {
        let findings = examine_page(page, &mut OneOf(&host))?;
        Ok((host.to_string(), findings))
    });
    examined.collect()
}

/// The labels by which a server tells hosts apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Host {
    job: String,
    instance: String,
}

impl Host {
    fn of(labels: &LabelSet) -> Self {
        let label = |name| labels.get(name).unwrap_or_default().to_owned();
        Self {
            job: label("job"),
            instance: label("instance"),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.job, self.instance)
    }
}

/// Finds the hosts of a page.
struct Hosts(BTreeSet<Host>);

impl Resolver for Hosts {
    fn resolve(&mut self, parsed: &LabelSet, _: &LabelSet) -> Result<Option<LabelSet>, String> {
        self.0.insert(Host::of(parsed));
        Ok(None)
    }
}

/// Leaves out the others' series.
struct OneOf<'a>(&'a Host);

impl Resolver for OneOf<'_> {
    fn resolve(&mut self, parsed: &LabelSet, _: &LabelSet) -> Result<Option<LabelSet>, String> {
        Ok((Host::of(parsed) == *self.0).then(|| parsed.clone()))
    }
}

fn examine_page(page: &[u8], resolver: &mut impl Resolver) -> Result<Vec<Finding>, String> {
    let now_ms = SystemClock.now_ms();
    let frame = parse(page, now_ms, resolver)?;
    examine(&[&frame], now_ms)
}

/// Parses a page as one of `now_ms`: its own clock may be wrong.
fn parse(page: &[u8], now_ms: i64, resolver: &mut impl Resolver) -> Result<Frame, String> {
    let mut options = ParseOptions::default();
    options.honor_timestamps = false;
    Parser::new(LabelSet::empty(), options)
        .parse(Format::Text, page, now_ms, resolver)
        .map(|round| round.frame)
        .map_err(|error| format!("not a page of metrics: {error}"))
}

async fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
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
