//! The web page: groups with ages, sizes and failures, a button to delete each, flags and build.
//!
//! **Invariant:** pushed data appears only as escaped text. The page loads its one script from the gateway and nothing
//! else.

use crate::{
    grouping::{Grouping, quoted},
    json::{Status, time},
    store::Store,
};
use http::{HeaderMap, HeaderValue, header};
use narthex_model::duration;
use narthex_net::{axum::response::Response, escape_html, respond};

const SCRIPT: &str = include_str!("push.js");
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Push gateway</title><style>\
body{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff}table{border-collapse:collapse;margin:1em 0}\
th,td{padding:.3em .8em;text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right}.failed{color:#b00020}\
code{white-space:pre-wrap}</style><script src=\"SCRIPT\" defer></script></head><body><h1>Push gateway</h1>\n";

/// What the page shows of a gateway that is a process of its own.
pub(crate) struct Process<'a> {
    /// Flags and build.
    pub(crate) status: &'a Status,
    /// Whether all groups may be deleted at once.
    pub(crate) may_wipe: bool,
}

/// Renders the page, with a process' flags and build unless it is a part of another. `script` is the path of its script.
pub(crate) fn page(
    store: &Store,
    process: Option<&Process<'_>>,
    script: &str,
    headers: &HeaderMap,
) -> Response {
    let now_ns = store.now_ns();
    let groups = store.groups();
    let utf8 = store.config().utf8_names;
    let mut out = HEAD.replace("SCRIPT", script);
    let noun = if groups.len() == 1 { "group" } else { "groups" };
    out.push_str(&format!("<p>{} {noun}.</p>\n", groups.len()));
    out.push_str("<table><tr><th>Group<th>Last push<th>Age<th>Series<th>Families<th>Body<th>Kept for<th>Expected every<th>State<th></tr>\n");
    for group in &groups {
        let state = group.state();
        let age_ns = now_ns - state.pushed_ns;
        let (at, age) = if state.pushed_ns == 0 {
            ("never".to_owned(), String::new())
        } else {
            (
                time(state.pushed_ns / 1_000_000_000 * 1_000_000_000),
                seconds(age_ns / 1_000_000),
            )
        };
        let period = |ms: u64| duration::format(ms.cast_signed());
        let kept = state.settings.ttl_ms.map(period);
        let expected = state.settings.interval_ms.map(period);
        let state_cell = if !state.is_last_push_stored() {
            let at = time(state.failed_ns / 1_000_000_000 * 1_000_000_000);
            format!("<span class=\"failed\">Last push failed! {at}</span>")
        } else if state.is_up(now_ns) == Some(false) {
            "<span class=\"failed\">Late</span>".to_owned()
        } else {
            "ok".to_owned()
        };
        out.push_str(&format!(
            "<tr><td><code>{}</code><td>{at}<td class=\"n\">{age}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{} B<td class=\"n\">{}<td class=\"n\">{}<td>{state_cell}\
<td><button data-method=\"DELETE\" data-path=\"{}\" data-question=\"Delete this group?\">Delete</button></tr>\n",
            escape_html(&shown(&group.grouping)),
            state.series(),
            state.contents.layout.families.len(),
            state.body_bytes,
            kept.as_deref().unwrap_or("ever"),
            expected.as_deref().unwrap_or_default(),
            escape_html(&group.grouping.path(utf8)),
        ));
    }
    out.push_str("</table>\n");
    if let Some(process) = process {
        if process.may_wipe && !groups.is_empty() {
            out.push_str("<p><button data-method=\"PUT\" data-path=\"api/v1/admin/wipe\" data-question=\"Delete all groups?\">Delete all</button></p>\n");
        }
        put_status(&mut out, process.status);
    }
    out.push_str("</body></html>\n");
    let mut response = respond("text/html; charset=utf-8", out.into(), headers);
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// Writes the flags and the build.
fn put_status(out: &mut String, status: &Status) {
    out.push_str("<h2>Flags</h2><table>\n");
    for (name, value) in &status.flags {
        out.push_str(&format!(
            "<tr><td>{}<td><code>{}</code></tr>\n",
            escape_html(name),
            escape_html(value)
        ));
    }
    out.push_str("</table>\n<h2>Build</h2><table>\n");
    for (name, value) in &status.build {
        out.push_str(&format!("<tr><td>{name}<td>{}</tr>\n", escape_html(value)));
    }
    out.push_str(&format!(
        "<tr><td>started<td>{}</tr></table>\n",
        escape_html(&status.started)
    ));
}

/// Returns the page's script.
pub(crate) fn script(headers: &HeaderMap) -> Response {
    respond("text/javascript; charset=utf-8", SCRIPT.into(), headers)
}

fn seconds(ms: i64) -> String {
    format!("{} s", ms / 1000)
}

/// Formats the labels of a group, `job` first.
fn shown(grouping: &Grouping) -> String {
    let (job, others): (Vec<_>, Vec<_>) = grouping
        .labels()
        .iter()
        .partition(|(name, _)| name == "job");
    let pairs = job
        .iter()
        .chain(&others)
        .map(|(name, value)| format!("{name}={}", quoted(value)));
    pairs.collect::<Vec<_>>().join(" ")
}
