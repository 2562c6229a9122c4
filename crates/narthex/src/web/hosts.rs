//! Host names the server answers to: with `--web.allowed-hosts`, a defence against DNS rebinding.
//!
//! If the owner of a site lets its name point at this machine, browsers treat its pages as having the server's own
//! origin, so neither CORS nor `Sec-Fetch-Site` reveals them. Only the host name of the request does.
//!
//! **Invariant:** addresses and `localhost` always pass, since no other site's name can be one of those; without the
//! flag every name passes, as in Prometheus, because many run the server behind names it does not know.

use super::respond_status;
use http::{HeaderMap, StatusCode, Uri, header};
use narthex_net::axum::{extract::Request, middleware::Next, response::Response};
use std::{net::IpAddr, sync::Arc};

/// Names of `--web.allowed-hosts`; all by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Arc<[String]>);

impl Hosts {
    /// Takes names without ports; an empty list allows all.
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| plain(name)).collect())
    }

    /// Reports whether a request's host is allowed.
    fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if self.0.is_empty() {
            return true;
        }
        // The authority of an absolute URL overrides the header.
        let asked = match uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => headers
                .get(header::HOST)
                .and_then(|host| host.to_str().ok()),
        };
        // Only HTTP/1.0 clients send no host.
        let Some(asked) = asked else { return true };
        let name = plain(without_port(asked));
        let address = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || address.parse::<IpAddr>().is_ok() || self.0.contains(&name)
    }
}

/// Returns a name in the form used for comparison.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A bracket at the end means an IPv6 address without a port.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}

/// Refuses requests for other hosts.
pub(super) async fn check(hosts: Hosts, request: Request, next: Next) -> Response {
    if hosts.allow(request.uri(), request.headers()) {
        return next.run(request).await;
    }
    let text = "this host is not named by --web.allowed-hosts\n";
    respond_status(StatusCode::MISDIRECTED_REQUEST, text, request.headers())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn allows(names: &[&str], uri: &'static str, host: Option<&'static str>) -> bool {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, HeaderValue::from_static(host));
        }
        Hosts::new(&names).allow(&Uri::from_static(uri), &headers)
    }

    #[test]
    fn only_named_hosts_and_addresses_are_answered() {
        let names = ["Metrics.example.org", "prom."];
        for host in [
            "metrics.example.org",
            "METRICS.example.org:9090",
            "metrics.example.org.:9090",
            "prom",
            "localhost",
            "LocalHost:9090",
            "127.0.0.1:9090",
            "192.0.2.7",
            "[::1]:9090",
            "[::1]",
        ] {
            assert!(allows(&names, "/", Some(host)), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9090",
            "metrics.example.org.evil.example",
            "x.metrics.example.org",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "[::1].evil.example",
            "[evil]",
            "",
        ] {
            assert!(!allows(&names, "/", Some(host)), "{host}");
            assert!(allows(&[], "/", Some(host)), "{host}");
        }
        assert!(allows(&names, "/", None));
        assert!(!allows(&names, "http://evil.example/", Some("prom")));
        assert!(allows(&names, "http://prom:1/", Some("evil.example")));
    }
}
