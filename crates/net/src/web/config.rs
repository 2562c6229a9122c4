//! The web configuration file: structure and validation.
//!
//! Invariant: exactly the keys in the toolkit's documentation are accepted. Errors are the toolkit's, preceded by
//! line and column if the parser knows them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::auth::cost;
use super::rate_limit::RateLimit;
use crate::client::config::TlsVersion;
use crate::error::{NetError, invalid};
use crate::secret::Secret;
use crate::tls::server::{ClientAuthType, ServerTls, ServerTlsConfig};
use crate::yaml::read_yaml;

/// A web configuration as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    tls_server_config: Option<TlsSection>,
    http_server_config: Option<HttpSection>,
    basic_auth_users: Option<BTreeMap<String, Secret>>,
    rate_limit: Option<RateSection>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TlsSection {
    cert: String,
    key: Secret,
    client_ca: String,
    cert_file: String,
    key_file: String,
    client_auth_type: String,
    client_ca_file: String,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    min_version: Option<String>,
    max_version: Option<String>,
    prefer_server_cipher_suites: Option<bool>,
    client_allowed_sans: Option<Vec<String>>,
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
            for file in [
                &mut tls.cert_file,
                &mut tls.key_file,
                &mut tls.client_ca_file,
            ] {
                if !file.is_empty() {
                    *file = directory.join(&*file).to_string_lossy().into_owned();
                }
            }
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
        let Some(section) = self.tls_server_config.as_ref().filter(|s| s.is_enabled()) else {
            return Ok(None);
        };
        section.server_tls().map(Some)
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

impl TlsSection {
    fn is_enabled(&self) -> bool {
        let texts = [
            &self.cert,
            &self.cert_file,
            &self.key_file,
            &self.client_ca,
            &self.client_ca_file,
            &self.client_auth_type,
        ];
        texts.iter().any(|text| !text.is_empty()) || !self.key.is_empty()
    }

    fn check(&self) -> Result<(), String> {
        for version in [&self.min_version, &self.max_version].into_iter().flatten() {
            TlsVersion::parse(version).map_err(|error| error.to_string())?;
        }
        let ciphers = self.cipher_suites.iter().flatten();
        crate::tls::server::check_ciphers(ciphers.map(String::as_str))?;
        let curves = self.curve_preferences.iter().flatten();
        crate::tls::server::check_curves(curves.map(String::as_str))
    }

    fn server_tls(&self) -> Result<ServerTls, NetError> {
        if self.cert.is_empty() && self.cert_file.is_empty() {
            return Err(invalid("missing one of cert or cert_file"));
        }
        if self.key.is_empty() && self.key_file.is_empty() {
            return Err(invalid("missing one of key or key_file"));
        }
        let client_auth = match self.client_auth_type.as_str() {
            "" | "NoClientCert" => ClientAuthType::None,
            "RequestClientCert" => ClientAuthType::Request,
            "RequireAnyClientCert" | "RequireClientCert" => ClientAuthType::RequireAny,
            "VerifyClientCertIfGiven" => ClientAuthType::VerifyIfGiven,
            "RequireAndVerifyClientCert" => ClientAuthType::RequireAndVerify,
            other => return Err(invalid(format!("invalid ClientAuth: {other}"))),
        };
        let has_ca = !self.client_ca.is_empty() || !self.client_ca_file.is_empty();
        if has_ca && client_auth == ClientAuthType::None {
            return Err(invalid(
                "client CA's have been configured without a Client Auth Policy",
            ));
        }
        let file = |file: &str| (!file.is_empty()).then(|| PathBuf::from(file));
        let version = |text: &Option<String>| -> Result<Option<TlsVersion>, NetError> {
            text.as_deref().map(TlsVersion::parse).transpose()
        };
        ServerTls::new(ServerTlsConfig {
            cert: self.cert.clone(),
            cert_file: file(&self.cert_file),
            key: self.key.clone(),
            key_file: file(&self.key_file),
            client_ca: self.client_ca.clone(),
            client_ca_file: file(&self.client_ca_file),
            client_auth,
            allowed_sans: self.client_allowed_sans.clone(),
            cipher_suites: self.cipher_suites.clone().unwrap_or_default(),
            curves: self.curve_preferences.clone().unwrap_or_default(),
            min_version: version(&self.min_version)?,
            max_version: version(&self.max_version)?,
            prefer_server_order: self.prefer_server_cipher_suites.unwrap_or(true),
        })
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
