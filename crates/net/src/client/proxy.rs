//! Which proxy a request goes through, as Go's `httpproxy` decides it.
//!
//! Invariant: a proxy's credentials are shown nowhere; `Debug` and `Display` print `xxxxx` instead.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::config::{ProxyConfig, invalid};
use crate::base64;
use crate::error::NetError;
use crate::url::Url;

/// A proxy's URL: `http://` or `https://`, with optional credentials.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProxyUrl {
    /// Without credentials.
    url: Url,
    /// What `Proxy-Authorization` says.
    authorization: Option<String>,
    user: Option<String>,
    has_password: bool,
}

impl ProxyUrl {
    /// Parses a proxy's URL.
    ///
    /// # Errors
    /// [`NetError::Config`] for another scheme (`socks5` too) or a malformed URL. The text is not
    /// repeated when it holds credentials.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        let text = text.trim();
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| invalid("proxy_url: no scheme (want http://host:port)"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let plain = format!("{scheme}://{host}{path}");
        let url = Url::parse(&plain).map_err(|error| match error {
            NetError::Url { reason, .. } => invalid(format!("proxy_url {plain:?}: {reason}")),
            other => other,
        })?;
        let mut proxy = Self {
            url,
            authorization: None,
            user: None,
            has_password: false,
        };
        if let Some(userinfo) = userinfo {
            let (user, password) = match userinfo.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (userinfo, None),
            };
            let decode = |part: &str| {
                percent_decode(part).ok_or_else(|| invalid("proxy_url: malformed credentials"))
            };
            let (user, secret) = (decode(user)?, decode(password.unwrap_or_default())?);
            let token = base64::encode([&user[..], b":", &secret[..]].concat());
            proxy.authorization = Some(format!("Basic {token}"));
            proxy.user = Some(String::from_utf8_lossy(&user).into_owned());
            proxy.has_password = password.is_some();
        }
        Ok(proxy)
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_str();
        let Some(user) = &self.user else {
            return f.write_str(url);
        };
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let password = if self.has_password { ":xxxxx" } else { "" };
        write!(f, "{scheme}://{user}{password}@{rest}")
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The proxies that the process' environment names, for `proxy_from_environment`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyEnvironment {
    http: Option<ProxyUrl>,
    https: Option<ProxyUrl>,
    no_proxy: String,
}

impl ProxyEnvironment {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` (or their lower case) from `variable`.
    ///
    /// # Errors
    /// [`NetError::Config`] when a proxy's URL cannot be used.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, NetError> {
        let either = |upper: &str| {
            variable(upper)
                .filter(|v| !v.is_empty())
                .or_else(|| variable(&upper.to_ascii_lowercase()))
                .unwrap_or_default()
        };
        // A CGI's environment gets HTTP_PROXY from a request's header, so it is not believed.
        let cgi = variable("REQUEST_METHOD").is_some_and(|v| !v.is_empty());
        let parse = |text: String| -> Result<Option<ProxyUrl>, NetError> {
            match text.as_str() {
                "" => Ok(None),
                url if url.contains("://") => ProxyUrl::parse(url).map(Some),
                host => ProxyUrl::parse(&format!("http://{host}")).map(Some),
            }
        };
        Ok(Self {
            http: parse(if cgi {
                String::new()
            } else {
                either("HTTP_PROXY")
            })?,
            https: parse(either("HTTPS_PROXY"))?,
            no_proxy: either("NO_PROXY"),
        })
    }
}

/// Decides for each URL.
#[derive(Debug)]
pub(super) struct Proxies {
    http: Option<ProxyUrl>,
    https: Option<ProxyUrl>,
    /// Hosts reached directly; none when a `proxy_url` stands alone, which then holds for all.
    exempt: Option<NoProxy>,
}

impl Proxies {
    /// Returns none when every request goes directly.
    pub(super) fn new(config: &ProxyConfig, environment: &ProxyEnvironment) -> Option<Self> {
        if config.from_environment {
            let exempt = Some(NoProxy::parse(&environment.no_proxy));
            let (http, https) = (environment.http.clone(), environment.https.clone());
            return (http.is_some() || https.is_some()).then_some(Self {
                http,
                https,
                exempt,
            });
        }
        let url = config.url.clone()?;
        Some(Self {
            http: Some(url.clone()),
            https: Some(url),
            exempt: (!config.no_proxy.is_empty()).then(|| NoProxy::parse(&config.no_proxy)),
        })
    }

    /// Returns the proxy for a URL.
    pub(super) fn of(&self, url: &Url) -> Option<&ProxyUrl> {
        let proxy = if url.is_https() {
            self.https.as_ref()
        } else {
            self.http.as_ref()
        }?;
        let exempt = self
            .exempt
            .as_ref()
            .is_some_and(|exempt| exempt.matches(url.host(), url.port()));
        (!exempt).then_some(proxy)
    }
}

/// A parsed `NO_PROXY`.
#[derive(Debug, Default)]
pub(crate) struct NoProxy {
    all: bool,
    rules: Vec<Rule>,
}

#[derive(Debug)]
enum Rule {
    Network {
        address: IpAddr,
        bits: u8,
    },
    Address {
        address: IpAddr,
        port: Option<u16>,
    },
    /// `.example.com`; with `itself` also `example.com`.
    Domain {
        suffix: String,
        itself: bool,
        port: Option<u16>,
    },
}

impl NoProxy {
    pub(crate) fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        for entry in text.split(',') {
            let entry = entry.trim().to_ascii_lowercase();
            if entry == "*" {
                parsed.all = true;
            } else if !entry.is_empty() {
                parsed.rules.extend(rule(&entry));
            }
        }
        parsed
    }

    /// Returns whether a host is reached directly. This machine always is.
    pub(crate) fn matches(&self, host: &str, port: u16) -> bool {
        let address = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        if self.all || host == "localhost" || address.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        self.rules.iter().any(|rule| match (rule, address) {
            (Rule::Network { address, bits }, Some(ip)) => in_network(ip, *address, *bits),
            (Rule::Address { address, port: p }, Some(ip)) => {
                ip == *address && p.is_none_or(|p| p == port)
            }
            (
                Rule::Domain {
                    suffix,
                    itself,
                    port: p,
                },
                None,
            ) => {
                let below = host.ends_with(suffix.as_str());
                let same = *itself && suffix.get(1..) == Some(host);
                (below || same) && p.is_none_or(|p| p == port)
            }
            _ => false,
        })
    }
}

fn rule(entry: &str) -> Option<Rule> {
    if let Some((address, bits)) = entry.split_once('/')
        && let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u8>())
        && bits <= if address.is_ipv4() { 32 } else { 128 }
    {
        return Some(Rule::Network { address, bits });
    }
    let (host, port) = split_port(entry)?;
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = address.to_canonical();
        return Some(Rule::Address { address, port });
    }
    let host = match host.strip_prefix('*') {
        Some(rest) if rest.starts_with('.') => rest,
        _ => host,
    };
    let itself = !host.starts_with('.');
    let suffix = if itself {
        format!(".{host}")
    } else {
        host.to_owned()
    };
    Some(Rule::Domain {
        suffix,
        itself,
        port,
    })
}

/// Splits `host:port`, `[v6]:port`, or takes the whole for a host.
fn split_port(entry: &str) -> Option<(&str, Option<u16>)> {
    if entry.parse::<Ipv6Addr>().is_ok() {
        return Some((entry, None));
    }
    if let Some(rest) = entry.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => Some((host, None)),
        };
    }
    match entry.rsplit_once(':') {
        Some(("", _)) => None,
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((entry, None)),
    }
}

fn in_network(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let shift = width.saturating_sub(u32::from(bits));
        shift >= width || a >> shift == b >> shift
    };
    match (ip, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => bits == 0 || same(a.into(), b.into(), 128),
        _ => false,
    }
}

/// Returns none for a `%` without two digits.
pub(super) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(out)
}

#[cfg(test)]
mod tests;
