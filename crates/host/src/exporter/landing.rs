//! The landing page.
//!
//! **Invariant:** it loads nothing and runs no script.

use http::{HeaderMap, HeaderValue, header};
use narthex_net::axum::response::Response;
use narthex_net::respond;

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Node Exporter</title><style>\
body{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff}</style></head><body><h1>Node Exporter</h1>\n";

pub(super) fn page(telemetry_path: &str, headers: &HeaderMap) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let path = html(telemetry_path);
    let body = format!(
        "{HEAD}<p>Narthex {version}: metrics of this host with node_exporter's names.</p>\n\
         <ul><li><a href=\"{path}\">Metrics</a></ul></body></html>\n"
    );
    let mut response = respond("text/html; charset=utf-8", body.into(), headers);
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// Escapes text for HTML.
fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
