//! Proxy selection for requests, with the rules of Go's `httpproxy`.

use std::net::IpAddr;

use super::config::ProxyConfig;
use super::proxy_url::ProxyUrl;
use crate::error::{NetError, invalid};
use crate::url::Url;

/// The proxies in the process' environment, for `proxy_from_environment`.
///
/// An invalid proxy is an error only for a client with `proxy_from_environment`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyEnvironment {
    http: Option<EnvironmentProxy>,
    https: Option<EnvironmentProxy>,
    no_proxy: String,
}

/// A variable's proxy, or the reason why it is invalid.
type EnvironmentProxy = Result<ProxyUrl, String>;

fn parse(variable: &str, text: &str) -> Option<EnvironmentProxy> {
    let parsed = match text {
        "" => return None,
        url if url.contains("://") => ProxyUrl::parse(url),
        host => ProxyUrl::parse(&format!("http://{host}")),
    };
    Some(parsed.map_err(|error| format!("{variable}: {error}")))
}

impl ProxyEnvironment {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` (or their lower case) through `variable`.
    #[must_use]
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |upper: &str| {
            variable(upper)
                .filter(|v| !v.is_empty())
                .or_else(|| variable(&upper.to_ascii_lowercase()))
                .unwrap_or_default()
        };
        // In a CGI's environment, HTTP_PROXY comes from a request header, so it is ignored.
        let cgi = variable("REQUEST_METHOD").is_some_and(|v| !v.is_empty());
        let http = parse("HTTP_PROXY", &either("HTTP_PROXY"));
        Self {
            http: http.filter(|_| !cgi),
            https: parse("HTTPS_PROXY", &either("HTTPS_PROXY")),
            no_proxy: either("NO_PROXY"),
        }
    }

    /// Returns the environment's proxy for a URL, or `None` to connect directly.
    ///
    /// # Errors
    /// [`NetError::Config`] when a variable holds an invalid proxy.
    pub fn proxy_of(&self, url: &Url) -> Result<Option<ProxyUrl>, NetError> {
        let config = ProxyConfig {
            from_environment: true,
            ..ProxyConfig::default()
        };
        let proxies = Proxies::new(&config, self)?;
        Ok(proxies.and_then(|proxies| proxies.proxy_for(url).cloned()))
    }
}

/// Selects the proxy for each URL.
#[derive(Debug)]
pub(super) struct Proxies {
    http: Option<ProxyUrl>,
    https: Option<ProxyUrl>,
    /// Hosts to connect to directly; `None` for a `proxy_url` alone, which then applies to all.
    exempt: Option<NoProxy>,
}

impl Proxies {
    /// Returns `None` when every request goes directly.
    ///
    /// # Errors
    /// [`NetError::Config`] when the environment is used and holds an invalid proxy.
    pub(super) fn new(
        config: &ProxyConfig,
        environment: &ProxyEnvironment,
    ) -> Result<Option<Self>, NetError> {
        if config.from_environment {
            let usable =
                |proxy: &Option<EnvironmentProxy>| proxy.clone().transpose().map_err(invalid);
            let (http, https) = (usable(&environment.http)?, usable(&environment.https)?);
            let any = http.is_some() || https.is_some();
            return Ok(any.then(|| Self {
                http,
                https,
                exempt: Some(NoProxy::parse(&environment.no_proxy)),
            }));
        }
        let of_url = |url: &ProxyUrl| Self {
            http: Some(url.clone()),
            https: Some(url.clone()),
            exempt: (!config.no_proxy.is_empty()).then(|| NoProxy::parse(&config.no_proxy)),
        };
        Ok(config.url.as_ref().map(of_url))
    }

    /// Returns the proxy for a URL.
    pub(super) fn proxy_for(&self, url: &Url) -> Option<&ProxyUrl> {
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

/// One entry; a port is compared as text, and an empty one matches all.
#[derive(Debug)]
enum Rule {
    Network {
        address: IpAddr,
        bits: u8,
    },
    Address {
        address: IpAddr,
        port: String,
    },
    /// `.example.com`; with `itself` set, also `example.com`.
    Domain {
        suffix: String,
        itself: bool,
        port: String,
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

    /// Returns whether to connect to a host directly. This is always so for the local machine.
    pub(crate) fn matches(&self, host: &str, port: u16) -> bool {
        let address = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        if self.all || host == "localhost" || address.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        let port = port.to_string();
        let on_port = |wanted: &str| wanted.is_empty() || wanted == port;
        self.rules.iter().any(|rule| match (rule, address) {
            (Rule::Network { address, bits }, Some(ip)) => in_network(ip, *address, *bits),
            (Rule::Address { address, port }, Some(ip)) => ip == *address && on_port(port),
            (
                Rule::Domain {
                    suffix,
                    itself,
                    port,
                },
                None,
            ) => {
                let below = host.ends_with(suffix.as_str());
                let same = *itself && suffix.get(1..) == Some(host);
                (below || same) && on_port(port)
            }
            _ => false,
        })
    }
}

fn rule(entry: &str) -> Option<Rule> {
    if let Some((address, bits)) = entry.split_once('/')
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u8>())
        && bits <= if address.is_ipv4() { 32 } else { 128 }
    {
        return Some(Rule::Network { address, bits });
    }
    let (host, port) = split_port(entry).unwrap_or((entry, ""));
    let port = port.to_owned();
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = address.to_canonical();
        return Some(Rule::Address { address, port });
    }
    let host = match host.strip_prefix('*') {
        Some(rest) if rest.starts_with('.') => rest,
        _ => host,
    };
    let suffix = match host {
        "" => return None,
        _ if host.starts_with('.') => host.to_owned(),
        _ => format!(".{host}"),
    };
    Some(Rule::Domain {
        itself: !host.starts_with('.'),
        suffix,
        port,
    })
}

/// Splits `host:port` and `[host]:port`; returns `None` without a port or when malformed, which Go treats as a name.
fn split_port(entry: &str) -> Option<(&str, &str)> {
    let (front, port) = entry.rsplit_once(':')?;
    let bracket = |c| matches!(c, '[' | ']');
    match front.strip_prefix('[') {
        Some(inside) => {
            let host = inside.strip_suffix(']')?;
            (!host.contains(bracket) && !port.contains(bracket)).then_some((host, port))
        }
        None => (!front.contains(':') && !entry.contains(bracket)).then_some((front, port)),
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

#[cfg(test)]
mod tests;
