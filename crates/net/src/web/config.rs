//! The web configuration file: structure and validation.
//!
//! Invariant: exactly the keys in the toolkit's documentation are accepted. Errors are the toolkit's, preceded by
//! line and column if the parser knows them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::auth::cost;
use super::rate_limit::RateLimit;
use crate::error::{NetError, invalid};
use crate::secret::Secret;
use crate::tls::server::{ServerTls, ServerTlsConfig};
use crate::yaml::read_yaml;

/// A web configuration as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    tls_server_config: Option<ServerTlsConfig>,
    http_server_config: Option<HttpSection>,
    basic_auth_users: Option<BTreeMap<String, Secret>>,
    rate_limit: Option<RateSection>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpSection {
    /// Accepted, but connections always use HTTP/1.1.
    http2: Option<bool>,
    headers: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RateSection {
    burst: u32,
    interval: Option<String>,
}

/// Headers that may be set, with their allowed values; an empty list allows any value.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
    ("Content-Security-Policy", &[]),
];

impl WebConfig {
    /// Parses a text; relative paths in it are resolved against the directory of `path`, its file.
    ///
    /// # Errors
    /// [`NetError::Config`] with the file's name and, for an invalid document, line and column.
    pub fn parse(text: &str, path: &Path) -> Result<Self, NetError> {
        let in_file = |message: String| invalid(format!("{}: {message}", path.display()));
        let mut config: Self = read_yaml(text).map_err(in_file)?.unwrap_or_default();
        config.check().map_err(in_file)?;
        let directory = path.parent().unwrap_or_else(|| Path::new(""));
        if let Some(tls) = &mut config.tls_server_config {
            tls.set_directory(directory);
        }
        Ok(config)
    }

    pub(super) fn users(&self) -> &BTreeMap<String, Secret> {
        static NOBODY: BTreeMap<String, Secret> = BTreeMap::new();
        self.basic_auth_users.as_ref().unwrap_or(&NOBODY)
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let http = self.http_server_config.as_ref();
        let headers = http.and_then(|http| http.headers.as_ref());
        headers
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn rate_limit(&self) -> Option<RateLimit> {
        let section = self.rate_limit.as_ref()?;
        let interval = go_duration(section.interval.as_deref()?).ok()?;
        (!interval.is_zero()).then_some(RateLimit {
            burst: section.burst,
            interval,
        })
    }

    /// Returns `None` if the file does not configure TLS.
    pub(super) fn server_tls(&self) -> Result<Option<ServerTls>, NetError> {
        let tls = self.tls_server_config.as_ref();
        let tls = tls.filter(|tls| tls.is_enabled());
        tls.cloned().map(ServerTls::new).transpose()
    }

    fn check(&self) -> Result<(), String> {
        for (name, value) in self.headers() {
            let known = HEADERS.iter().find(|(known, _)| *known == name);
            let (_, allowed) =
                known.ok_or_else(|| format!("HTTP header {name:?} can not be configured"))?;
            if !allowed.is_empty() && !allowed.contains(&value) {
                let list = allowed.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>();
                return Err(format!(
                    "invalid value for {name}. Expected one of: [{}], but got: {value:?}",
                    list.join(" ")
                ));
            }
        }
        for (user, hash) in self.users() {
            cost(hash.expose()).map_err(|reason| format!("basic_auth_users: {user}: {reason}"))?;
        }
        if let Some(limit) = &self.rate_limit {
            go_duration(limit.interval.as_deref().unwrap_or("0"))?;
        }
        if let Some(tls) = &self.tls_server_config {
            tls.check()?;
        }
        Ok(())
    }
}

/// Parses a duration in Go's format: `1h30m`, `1.5s`, `100ms`; a bare number is nanoseconds.
fn go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    if let Ok(nanoseconds) = text.parse::<u64>() {
        return Ok(Duration::from_nanos(nanoseconds));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = 0.0;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(end.ok_or_else(invalid)?);
        let number: f64 = number.parse().map_err(|_invalid| invalid())?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(invalid()),
        };
        total += number * seconds;
        rest = after;
    }
    Duration::try_from_secs_f64(total).map_err(|_too_long| invalid())
}

/// Parses a text or rejects it with a one-line error, for the fuzz target.
pub(crate) fn fuzz_parse(text: &str) {
    match WebConfig::parse(text, Path::new("/nowhere/web.yml")) {
        Ok(config) => {
            let _tls = config.server_tls();
            let _limit = config.rate_limit();
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

#[cfg(test)]
mod tests;
