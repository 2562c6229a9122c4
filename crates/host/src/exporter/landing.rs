//! The landing page: where the metrics are, what each collector costs, and what to do about it.
//!
//! **Invariant:** it loads nothing and runs no script.

use std::cmp::Reverse;
use std::fmt::Write as _;

use http::{HeaderMap, HeaderValue, header};
use narthex_net::axum::response::Response;
use narthex_net::{escape_html, respond};

use super::Finding;
use super::advice::{advice, bytes, percent, thousands};
use crate::cost::CollectorCost;

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Node Exporter</title><style>\
body{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff}table{border-collapse:collapse}\
th,td{padding:.15em .8em;text-align:right}th:first-child,td:first-child,td:last-child{text-align:left}\
tr:nth-child(even){background:#f3f3f3}</style></head><body><h1>Node Exporter</h1>\n";

pub(super) fn page(
    telemetry_path: &str,
    findings: &[Finding],
    costs: &[CollectorCost],
    headers: &HeaderMap,
) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let path = escape_html(telemetry_path);
    let body = format!(
        "{HEAD}<p>Narthex {version}: metrics of this host with node_exporter's names.</p>\n\
         <ul><li><a href=\"{path}\">Metrics</a></ul>\n{}{}</body></html>\n",
        list(findings, &advice(costs)),
        table(costs),
    );
    let mut response = respond("text/html; charset=utf-8", body.into(), headers);
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// Returns the advice, that on the host first.
fn list(findings: &[Finding], lines: &[String]) -> String {
    if findings.is_empty() && lines.is_empty() {
        return String::new();
    }
    let found = findings.iter().map(|finding| {
        let (text, help) = (escape_html(&finding.text), escape_html(&finding.help));
        format!(
            "<li>{} {}: {text}<br>{help}\n",
            finding.severity.name(),
            finding.rule
        )
    });
    let lines = lines
        .iter()
        .map(|line| format!("<li>{}\n", escape_html(line)));
    let items: String = found.chain(lines).collect();
    format!("<h2>Advice</h2>\n<ul>\n{items}</ul>\n")
}

/// Returns the collectors with their costs, those with the largest share of the page first.
fn table(costs: &[CollectorCost]) -> String {
    let mut costs: Vec<&CollectorCost> = costs.iter().collect();
    costs.sort_by_key(|cost| Reverse(cost.page_bytes));
    let page_bytes: usize = costs.iter().map(|cost| cost.page_bytes).sum();
    let mut out = String::from(
        "<h2>What a scrape costs</h2>\n<table><tr><th>Collector<th>Series<th>Page<th>Share<th>CPU<th>System calls\
         <th>Read<th></tr>\n",
    );
    for one in costs {
        let [cpu, calls, read] = one.cost.map_or_else(Default::default, |cost| {
            let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
            [
                format!("{} µs", thousands(count(cost.cpu.as_micros() as u64))),
                thousands(count(cost.calls)),
                bytes(count(cost.read_bytes)),
            ]
        });
        let age = one.age.map(|age| format!("{} s old", age.as_secs()));
        let notes: Vec<String> = one.error.clone().into_iter().chain(age).collect();
        let (series, size) = (thousands(one.series), bytes(one.page_bytes));
        let share = percent(one.page_bytes as f64, page_bytes as f64);
        let _ = writeln!(
            out,
            "<tr><td>{}<td>{series}<td>{size}<td>{share} %<td>{cpu}<td>{calls}<td>{read}<td>{}</tr>",
            one.kind.name(),
            escape_html(&notes.join("; ")),
        );
    }
    out.push_str("</table>\n");
    out
}
