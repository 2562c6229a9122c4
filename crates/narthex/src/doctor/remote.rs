//! What running exporters and servers say of their hosts.
//!
//! An exporter has one host's page; ours adds the facts that only it can see if it is asked for them. A server has the
//! newest samples of many hosts, and an agent shows those of its own on a page; both add the facts of the one they run on.
//!
//! **Invariant:** samples of two hosts are never examined together.

use super::examine;
use crate::server_client::{ServerClient, block_on};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_host::{FACTS_PARAMETER, Finding};
use narthex_model::{ColumnId, Family, Frame, Label, LabelSet, METRIC_NAME, Schema};
use narthex_tsdb::{Clock as _, SystemClock};
use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

/// Selects everything that rules are about.
const FEDERATE: &str = "/federate?match[]=%7B__name__%3D~%22(node%7Cnarthex_host)_.%2B%22%7D";

/// What names of collectors' series begin with.
const COLLECTED: &str = "node_";
const INSTANCE: &str = "instance";

/// Examines an exporter's host, or all hosts that a server knows; returns each with its name.
///
/// # Errors
/// Fails if there is no page, or a rule cannot be evaluated.
pub(super) fn remote(address: &str) -> Result<Vec<(String, Vec<Finding>)>, String> {
    block_on(examined(address)).map_err(|error| error.to_string())?
}

async fn examined(address: &str) -> Result<Vec<(String, Vec<Finding>)>, String> {
    let server = ServerClient::open(address, None)?;
    let place = server.address.split_once("://");
    let has_path = place.is_some_and(|(_, rest)| rest.contains(['/', '?']));
    let page = if has_path { "" } else { "/metrics" };
    let separator = if server.address.contains('?') {
        '&'
    } else {
        '?'
    };
    let page = format!("{page}{separator}{FACTS_PARAMETER}=true");
    let mut pages = vec![fetch(&server, &page).await?];
    if !has_path && !pages.iter().any(|page| has_host(page))
        // What is no server has no such page.
        && let Ok(newest) = fetch(&server, FEDERATE).await
    {
        pages.push(newest);
    }
    let now_ms = SystemClock.now_ms();
    let frames = pages.iter().map(|page| parse(page, now_ms));
    let frames: Vec<Frame> = frames.collect::<Result<_, _>>()?;
    let hosts = hosts(&frames, now_ms);
    if hosts.is_empty() {
        let findings = examine(&frames.iter().collect::<Vec<_>>(), now_ms)?;
        return Ok(vec![(address.to_owned(), findings)]);
    }
    let all: Vec<LabelSet> = hosts.keys().cloned().collect();
    let mut hosts: Vec<(String, Frame)> = hosts
        .into_iter()
        .map(|(host, frame)| (named(&host, &all), frame))
        .collect();
    hosts.sort_by(|(one, _), (other, _)| one.cmp(other));
    let hosts = hosts.into_iter();
    hosts
        .map(|(name, frame)| Ok((name, examine(&[&frame], now_ms)?)))
        .collect()
}

/// Reports whether a page has series of a host.
fn has_host(page: &[u8]) -> bool {
    let mut lines = page.split(|byte| *byte == b'\n');
    lines.any(|line| line.starts_with(COLLECTED.as_bytes()))
}

/// Returns the hosts that pages of a server or an agent tell apart, by the labels of their targets, each with its series;
/// none if the pages are a single exporter's.
fn hosts(frames: &[Frame], now_ms: i64) -> BTreeMap<LabelSet, Frame> {
    let series = frames.iter().flat_map(|frame| {
        let present = frame.present().iter();
        let present = present.filter_map(|at| u32::try_from(at).ok().map(ColumnId));
        present.map(move |id| (frame, id, frame.schema().labels(id)))
    });
    let series: Vec<_> = series.collect();
    let collected = || {
        let labels = series.iter().map(|(_, _, labels)| labels);
        labels.filter(|labels| labels.metric_name().starts_with(COLLECTED))
    };
    // What all have is what their targets have.
    let names = collected().next().into_iter().flat_map(LabelSet::iter);
    let names: Vec<&str> = names
        .map(Label::name)
        .filter(|name| *name != METRIC_NAME)
        .filter(|name| collected().all(|labels| labels.get(name).is_some()))
        .collect();
    if !names.contains(&INSTANCE) {
        return BTreeMap::new();
    }
    let hosts = collected().map(|labels| (labels.only(&names), BTreeMap::new()));
    let mut hosts: BTreeMap<LabelSet, BTreeMap<_, _>> = hosts.collect();
    for (frame, id, labels) in &series {
        if labels.get(INSTANCE).is_none() {
            continue;
        }
        let value = (frame.schema().family(*id), frame.values()[id.index()]);
        if let Some(own) = hosts.get_mut(&labels.only(&names)) {
            own.insert(labels.clone(), value);
            continue;
        }
        // Facts lack the labels that a server adds to what others get of it, and rules compare them with what has them.
        for (host, own) in hosts.iter_mut().filter(|(host, _)| agree(host, labels)) {
            own.insert(labels.union(host), value);
        }
    }
    let frames = hosts.into_iter();
    frames
        .map(|(host, series)| (host, frame_of(&series, now_ms)))
        .collect()
}

/// Reports whether no label of a host has another value in a series.
fn agree(host: &LabelSet, series: &LabelSet) -> bool {
    let mut labels = host.iter();
    labels.all(|label| {
        let other = series.get(label.name());
        other.is_none_or(|value| value == label.value())
    })
}

fn frame_of(series: &BTreeMap<LabelSet, (&Family, f64)>, now_ms: i64) -> Frame {
    let mut schema = Schema::new(LabelSet::empty()).edit();
    let columns = series.iter().map(|(labels, (family, value))| {
        let family = schema.family((*family).clone());
        (schema.push(labels, family), *value)
    });
    let columns: Vec<_> = columns.collect();
    let mut frame = Frame::new(schema.finish(), now_ms);
    for (column, value) in columns {
        frame.set(column, value);
    }
    frame
}

/// Returns a host's job and instance, and other labels that not all hosts have alike.
fn named(host: &LabelSet, all: &[LabelSet]) -> String {
    let label = |name| host.get(name).unwrap_or_default();
    let mut name = format!("{} {}", label("job"), label(INSTANCE));
    for label in host.without(&["job", INSTANCE]).iter() {
        let value = Some(label.value());
        if all.iter().any(|other| other.get(label.name()) != value) {
            let _ = write!(name, " {label}");
        }
    }
    name
}

/// Parses a page as one of `now_ms`: its own clock may be wrong.
fn parse(page: &[u8], now_ms: i64) -> Result<Frame, String> {
    let mut options = ParseOptions::default();
    options.honor_timestamps = false;
    Parser::new(LabelSet::empty(), options)
        .parse(Format::Text, page, now_ms, &mut KeepLabels)
        .map(|round| round.frame)
        .map_err(|error| format!("not a page of metrics: {error}"))
}

async fn fetch(server: &ServerClient, path: &str) -> Result<Vec<u8>, String> {
    let request = server.request(path, Duration::from_secs(10))?;
    match server.get(&request).await? {
        (200, body) => Ok(body),
        (status, _) => Err(format!("{} answered {status}", request.url)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series_by_host(page: &str) -> Vec<(String, usize)> {
        let frame = parse(page.as_bytes(), 1).unwrap();
        let hosts = hosts(&[frame], 1);
        let all: Vec<LabelSet> = hosts.keys().cloned().collect();
        let hosts = hosts.iter();
        hosts
            .map(|(host, frame)| (named(host, &all), frame.schema().len()))
            .collect()
    }

    #[test]
    fn hosts_are_told_apart_by_what_all_their_series_have() {
        let page = "\
            node_load1{instance=\"a:1\",job=\"node\",region=\"w\",zone=\"1\"} 1\n\
            node_cpu{cpu=\"0\",instance=\"a:1\",job=\"node\",region=\"w\",zone=\"1\"} 1\n\
            node_load1{instance=\"a:1\",job=\"node\",region=\"w\",zone=\"2\"} 1\n\
            node_load1{instance=\"b:1\",job=\"node\",rack=\"r\",region=\"w\",zone=\"2\"} 1\n\
            narthex_host_local_ports{instance=\"b:1\",job=\"node\"} 7\n\
            up{job=\"node\"} 1\n";
        let expected = [
            ("node a:1 zone=\"1\"", 2),
            ("node a:1 zone=\"2\"", 1),
            ("node b:1 zone=\"2\"", 2),
        ];
        assert_eq!(
            series_by_host(page),
            expected.map(|(name, len)| (name.to_owned(), len))
        );
    }

    /// A file of text may name instances of something else.
    #[test]
    fn an_exporters_page_is_one_hosts() {
        assert_eq!(
            series_by_host("node_load1 1\nnode_backup{instance=\"x\"} 1\n"),
            []
        );
        assert_eq!(series_by_host("up 1\n"), []);
    }
}
