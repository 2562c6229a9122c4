//! URLs of proxies, with their credentials.
//!
//! Invariant: a proxy's credentials are never shown; `Debug` and `Display` print `xxxxx` instead.

use std::fmt;

use crate::basic_auth::basic;
use crate::error::{NetError, invalid};
use crate::percent;
use crate::secret::Secret;
use crate::url::Url;

/// A proxy's URL: `http://` or `https://`, with optional credentials.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProxyUrl {
    /// Without credentials.
    url: Url,
    /// Value of `Proxy-Authorization`.
    authorization: Option<Secret>,
    user: Option<String>,
    has_password: bool,
}

impl ProxyUrl {
    /// Parses a proxy's URL.
    ///
    /// # Errors
    /// [`NetError::Config`] for another scheme (including `socks5`) or a malformed URL. A text with credentials is
    /// not repeated.
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
                percent::decode(part).ok_or_else(|| invalid("proxy_url: malformed credentials"))
            };
            let (user, secret) = (decode(user)?, decode(password.unwrap_or_default())?);
            proxy.authorization = Some(basic(&user, &secret));
            proxy.user = Some(String::from_utf8_lossy(&user).into_owned());
            proxy.has_password = password.is_some();
        }
        Ok(proxy)
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn authorization(&self) -> Option<&str> {
        self.authorization.as_ref().map(Secret::expose)
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
