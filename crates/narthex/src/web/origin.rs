//! Cross-origin access from browsers: CORS, and refusal of cross-site requests.
//!
//! **Invariant:** without `--web.cors.origin` no page of another origin can read or change anything here; with it, only
//! matching origins can. Programs other than browsers send neither `Origin` nor `Sec-Fetch-Site` and are never refused.

use super::respond_status;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use narthex_net::axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};

/// Prometheus' default pattern, which is answered with `*` instead of the origin.
const ANY: &str = ".*";

/// Origins that match `--web.cors.origin`; none by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    allowed: Option<regex::Regex>,
    any: bool,
}

impl Origins {
    /// Compiles an anchored pattern; an empty one matches no origin.
    ///
    /// # Errors
    /// Fails on an invalid pattern.
    pub(crate) fn read(pattern: &str) -> Result<Self, regex::Error> {
        let anchored = (!pattern.is_empty()).then(|| format!("^(?:{pattern})$"));
        Ok(Self {
            allowed: anchored.as_deref().map(regex::Regex::new).transpose()?,
            any: pattern == ANY,
        })
    }

    fn allow(&self, origin: &HeaderValue) -> bool {
        let allowed = self.allowed.as_ref();
        allowed.is_some_and(|pattern| origin.to_str().is_ok_and(|text| pattern.is_match(text)))
    }
}

/// Lets pages of allowed origins read the API.
pub(super) async fn allow(origins: Origins, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    if let Some(origin) = origin.filter(|origin| origins.allow(origin)) {
        let shown = if origins.any {
            HeaderValue::from_static("*")
        } else {
            origin
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, shown);
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                "Accept, Authorization, Content-Type, Origin",
            ),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    response
}

/// Refuses requests that may change something and come from another site's page.
pub(crate) async fn protect(origins: Origins, request: Request, next: Next) -> Response {
    match foreign(&origins, request.method(), request.headers()) {
        None => next.run(request).await,
        Some(reason) => {
            let text = format!("cross-site request refused: {reason}\n");
            respond_status(StatusCode::FORBIDDEN, text, request.headers())
        }
    }
}

/// Returns the sign that another site made a request, if any, by the rules of Go's `CrossOriginProtection`.
fn foreign(origins: &Origins, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let origin = headers.get(header::ORIGIN);
    if origin.is_some_and(|origin| origins.allow(origin)) {
        return None;
    }
    // Browsers send this header to `https` and to this machine, and pages cannot set it.
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => return None,
        Some(_) => return Some("Sec-Fetch-Site names another site"),
        None => {}
    }
    let host = origin_host(origin?.as_bytes());
    // A proxy may change `Host`. No page can set the second header unless CORS allows it.
    let ours = [header::HOST.as_str(), "x-forwarded-host"];
    let same = ours
        .iter()
        .filter_map(|name| headers.get(*name))
        .any(|own| !host.is_empty() && own.as_bytes().eq_ignore_ascii_case(host));
    (!same).then_some("Origin names another host")
}

/// Returns host and port of an origin; empty for `null` or an invalid one.
fn origin_host(origin: &[u8]) -> &[u8] {
    [&b"http://"[..], b"https://"]
        .iter()
        .find_map(|scheme| origin.strip_prefix(*scheme))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(pattern: &str, method: &Method, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        foreign(&Origins::read(pattern).unwrap(), method, &map).is_some()
    }

    #[test]
    fn requests_of_other_sites_are_told_from_ones_own() {
        let host = ("host", "m.example:9090");
        let (same, cross) = ("http://m.example:9090", "https://evil.example");
        for (headers, refused) in [
            // Not a browser.
            (vec![host], false),
            (vec![host, ("sec-fetch-site", "same-origin")], false),
            (vec![host, ("sec-fetch-site", "none")], false),
            (vec![host, ("sec-fetch-site", "cross-site")], true),
            (vec![host, ("sec-fetch-site", "same-site")], true),
            (vec![host, ("sec-fetch-site", "new-value")], true),
            (vec![host, ("origin", same)], false),
            (vec![host, ("origin", "http://M.EXAMPLE:9090")], false),
            (vec![host, ("origin", cross)], true),
            (vec![host, ("origin", "http://m.example")], true),
            (vec![host, ("origin", "null")], true),
            (vec![host, ("origin", "")], true),
            (vec![("origin", "null")], true),
            (vec![("host", ""), ("origin", "http://")], true),
            // `Sec-Fetch-Site` overrides names, which a proxy may have changed.
            (
                vec![host, ("origin", cross), ("sec-fetch-site", "same-origin")],
                false,
            ),
            (
                vec![host, ("origin", same), ("sec-fetch-site", "cross-site")],
                true,
            ),
            (
                vec![
                    ("host", "backend:80"),
                    ("x-forwarded-host", "m.example"),
                    ("origin", "https://m.example"),
                ],
                false,
            ),
        ] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
                assert_eq!(
                    is_refused("", &method, &headers),
                    refused,
                    "{method} {headers:?}"
                );
            }
            for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
                assert!(!is_refused("", &method, &headers), "{method} {headers:?}");
            }
        }
    }

    #[test]
    fn named_origins_may_do_everything() {
        let from = |origin: &str| {
            [
                ("host", "x"),
                ("origin", origin),
                ("sec-fetch-site", "cross-site"),
            ]
            .map(|(a, b)| (a, b.to_owned()))
        };
        let refused = |pattern: &str, origin: &str| {
            let headers = from(origin);
            let headers: Vec<_> = headers.iter().map(|(a, b)| (*a, b.as_str())).collect();
            is_refused(pattern, &Method::POST, &headers)
        };
        assert!(!refused(".*", "https://a.example"));
        assert!(!refused("https://(a|b)[.]example", "https://b.example"));
        assert!(refused("https://(a|b)[.]example", "https://c.example"));
        assert!(refused("https://a[.]example", "https://a.example.org"));
        assert!(refused("", "https://a.example"));
    }
}
