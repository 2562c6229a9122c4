//! Additions of a configured client to its requests: credentials, headers, a proxy, TLS.
//!
//! A client without any of these pays nothing for them.
//!
//! Invariant: credentials are those in the files at the time of the request, and none of them goes to a host outside
//! the first one's domain.

use std::sync::Arc;

use super::config::HttpClientConfig;
use super::connect::Route;
use super::head::push_header;
use super::oauth2::TokenSource;
use super::proxy::Proxies;
use super::proxy_url::ProxyUrl;
use super::request::ClientConfig;
use crate::basic_auth::basic;
use crate::error::{NetError, invalid};
use crate::file_cache::{CachedFile, TextSource};
use crate::secret::Secret;
use crate::tls::client::ClientTls;
use crate::url::Url;

#[derive(Debug)]
pub(super) struct ClientAuth {
    credentials: Option<Credentials>,
    headers: Vec<HeaderLine>,
    proxies: Option<Proxies>,
    connect_headers: Vec<(String, Vec<Secret>)>,
    tls: ClientTls,
    pub(super) follow_redirects: bool,
}

#[derive(Debug)]
enum Credentials {
    Basic {
        username: Option<TextSource>,
        password: Option<TextSource>,
    },
    /// A scheme and its credentials.
    Plain {
        kind: String,
        credentials: Option<TextSource>,
    },
    OAuth2(Box<TokenSource>),
}

#[derive(Debug)]
struct HeaderLine {
    name: String,
    value: TextSource,
    private: bool,
}

impl ClientAuth {
    /// Reads all files once, so that a wrong path fails at the start. `config` must be valid.
    pub(super) fn new(client: &ClientConfig, config: &HttpClientConfig) -> Result<Self, NetError> {
        let credentials = if let Some(basic) = &config.basic_auth {
            let (user, password) = (&basic.username, &basic.password);
            Some(Credentials::Basic {
                username: TextSource::new(
                    user,
                    basic.username_file.as_deref(),
                    "basic auth username",
                ),
                password: TextSource::new(
                    password.expose(),
                    basic.password_file.as_deref(),
                    "basic auth password",
                ),
            })
        } else if let Some(authorization) = &config.authorization {
            Some(Credentials::Plain {
                kind: authorization.kind.clone(),
                credentials: TextSource::new(
                    authorization.credentials.expose(),
                    authorization.credentials_file.as_deref(),
                    "authorization credentials",
                ),
            })
        } else if let Some(oauth2) = &config.oauth2 {
            let source = TokenSource::new(client, oauth2)?;
            Some(Credentials::OAuth2(Box::new(source)))
        } else {
            None
        };
        let mut headers = Vec::new();
        for (name, sources) in &config.headers {
            let mut add = |value, private| {
                headers.push(HeaderLine {
                    name: name.clone(),
                    value,
                    private,
                });
            };
            for value in &sources.values {
                add(TextSource::Inline(value.as_str().into()), false);
            }
            for secret in &sources.secrets {
                add(TextSource::Inline(secret.expose().into()), true);
            }
            for file in &sources.files {
                add(
                    TextSource::File(CachedFile::new(file, "headers file")),
                    true,
                );
            }
        }
        Ok(Self {
            credentials,
            headers,
            proxies: Proxies::new(&config.proxy, &client.environment)?,
            connect_headers: config.proxy.connect_headers.clone(),
            tls: ClientTls::new(&config.tls)?,
            follow_redirects: config.follow_redirects,
        })
    }

    /// Returns the `Authorization` of the next request; fetches a token if there is no valid one.
    pub(super) async fn authorization(&self) -> Result<Option<Secret>, NetError> {
        let read = |text: &Option<TextSource>| -> Result<Arc<str>, NetError> {
            text.as_ref().map_or_else(|| Ok("".into()), TextSource::get)
        };
        let authorization = match &self.credentials {
            None => return Ok(None),
            Some(Credentials::Basic { username, password }) => {
                let (username, password) = (read(username)?, read(password)?);
                basic(username.as_bytes(), password.as_bytes())
            }
            Some(Credentials::Plain { kind, credentials }) => {
                let credentials = read(credentials)?;
                header_value(format!("{kind} {credentials}"), "authorization credentials")?
            }
            Some(Credentials::OAuth2(source)) => source.authorization().await?,
        };
        Ok(Some(authorization))
    }

    /// Writes the header lines of one hop.
    pub(super) fn write_headers(
        &self,
        authorization: Option<&Secret>,
        trusted: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), NetError> {
        if let Some(authorization) = authorization {
            push_header(out, "authorization", authorization.expose().as_bytes());
        }
        for line in &self.headers {
            let private = line.private || is_sensitive(&line.name);
            if trusted || !private {
                let value = header_value(line.value.get()?.to_string(), "headers file")?;
                push_header(out, &line.name, value.expose().as_bytes());
            }
        }
        Ok(())
    }

    /// Returns the proxy to which plain requests for this URL are sent.
    pub(super) fn proxy(&self, url: &Url) -> Option<&ProxyUrl> {
        self.proxies.as_ref()?.proxy_for(url)
    }

    /// Returns the route to a URL, and whether earlier connections must not be reused.
    pub(super) fn route<'a>(
        &'a self,
        url: &'a Url,
        client: &ClientConfig,
    ) -> Result<(Route<'a>, bool), NetError> {
        let proxy = self.proxy(url);
        let proxy_tls = proxy.is_some_and(|proxy| proxy.url().is_https());
        let mut changed = false;
        let mut current = None;
        if url.is_https() || proxy_tls {
            let (tls, is_new) = self.tls.current()?;
            (current, changed) = (Some(tls), is_new);
        }
        let route = Route {
            url,
            proxy,
            tls: current.clone().filter(|_| url.is_https()),
            proxy_tls: current.filter(|_| proxy_tls),
            server_name: self.tls.server_name(),
            connect_headers: &self.connect_headers,
            timeout: client.connect_timeout,
            round_robin: client.round_robin,
        };
        Ok((route, changed))
    }
}

/// Reports whether Go removes this header when a redirect leads to another host.
pub(super) fn is_sensitive(name: &str) -> bool {
    [
        "authorization",
        "cookie",
        "cookie2",
        "proxy-authorization",
        "proxy-authenticate",
        "www-authenticate",
    ]
    .iter()
    .any(|sensitive| name.eq_ignore_ascii_case(sensitive))
}

/// Returns whether a host is the first request's host or a subdomain of it.
pub(super) fn is_same_domain(host: &str, first: &str) -> bool {
    if host == first {
        return true;
    }
    // Addresses, and names that only look like one, have no parent domain.
    let below = host
        .strip_suffix(first)
        .is_some_and(|rest| rest.ends_with('.'));
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    below && !first.is_empty() && !host.contains([':', '%']) && !is_address
}

/// Rejects a line end in a file's contents, without showing the value.
fn header_value(value: String, what: &str) -> Result<Secret, NetError> {
    if http::HeaderValue::try_from(value.as_str()).is_err() {
        return Err(invalid(format!("{what}: not a header's value")));
    }
    Ok(Secret::new(value))
}
