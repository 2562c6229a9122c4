//! The HTTP client configuration of scrapes, service discovery and remote endpoints, as plain data.
//!
//! Names, defaults and errors are those of Prometheus' common configuration. The caller parses the YAML;
//! [`HttpClientConfig::validate`] checks the combination of keys.
//!
//! Invariant: `Debug` shows no secrets, including a proxy's password.

use std::path::PathBuf;

use super::proxy_url::ProxyUrl;
use crate::error::{NetError, invalid};
use crate::secret::Secret;

/// Authentication, TLS and proxy of requests (Prometheus' `<http_config>`).
#[derive(Debug, Clone, PartialEq)]
pub struct HttpClientConfig {
    /// `basic_auth`.
    pub basic_auth: Option<BasicAuth>,
    /// `authorization`.
    pub authorization: Option<Authorization>,
    /// `oauth2`.
    pub oauth2: Option<Box<OAuth2>>,
    /// `bearer_token`, the older form of `authorization.credentials`.
    pub bearer_token: Secret,
    /// `bearer_token_file`, the older form of `authorization.credentials_file`.
    pub bearer_token_file: Option<PathBuf>,
    /// `tls_config`.
    pub tls: TlsConfig,
    /// `follow_redirects`. True.
    pub follow_redirects: bool,
    /// `enable_http2`: accepted, but requests always use HTTP/1.1. True.
    pub enable_http2: bool,
    /// `proxy_url` and related keys.
    pub proxy: ProxyConfig,
    /// `http_headers`: names and values, in the order they are sent.
    pub headers: Vec<(String, HeaderSources)>,
}

impl Default for HttpClientConfig {
    fn default() -> Self {
        Self {
            basic_auth: None,
            authorization: None,
            oauth2: None,
            bearer_token: Secret::default(),
            bearer_token_file: None,
            tls: TlsConfig::default(),
            follow_redirects: true,
            enable_http2: true,
            proxy: ProxyConfig::default(),
            headers: Vec::new(),
        }
    }
}

/// A user and a password, each inline or in a file that is reread when it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BasicAuth {
    /// `username`.
    pub username: String,
    /// `username_file`.
    pub username_file: Option<PathBuf>,
    /// `password`.
    pub password: Secret,
    /// `password_file`.
    pub password_file: Option<PathBuf>,
}

/// Contents of the `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authorization {
    /// `type`; empty means `Bearer`.
    pub kind: String,
    /// `credentials`.
    pub credentials: Secret,
    /// `credentials_file`.
    pub credentials_file: Option<PathBuf>,
}

/// Settings for fetching a token (`client_credentials`, or an assertion as in RFC 7523).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuth2 {
    /// `client_id`.
    pub client_id: String,
    /// `client_secret`.
    pub client_secret: Secret,
    /// `client_secret_file`.
    pub client_secret_file: Option<PathBuf>,
    /// `client_certificate_key_id`, the assertion's `kid`.
    pub client_certificate_key_id: String,
    /// `client_certificate_key`, an RSA key in PEM.
    pub client_certificate_key: Secret,
    /// `client_certificate_key_file`.
    pub client_certificate_key_file: Option<PathBuf>,
    /// `grant_type`; empty means `client_credentials`.
    pub grant_type: String,
    /// `signature_algorithm`: `RS256`, `RS384`, `RS512`; empty means `RS256`.
    pub signature_algorithm: String,
    /// `iss`; empty means the client id.
    pub iss: String,
    /// `audience`; empty means the token URL.
    pub audience: String,
    /// `claims` added to the assertion.
    pub claims: serde_json::Map<String, serde_json::Value>,
    /// `scopes`.
    pub scopes: Vec<String>,
    /// `token_url`.
    pub token_url: String,
    /// `endpoint_params`.
    pub endpoint_params: Vec<(String, String)>,
    /// `tls_config` for the token URL.
    pub tls: TlsConfig,
    /// `proxy_url` and related keys for the token URL.
    pub proxy: ProxyConfig,
    /// How tokens are asked for, where it is not as in the keys above. Not a key.
    pub request: TokenRequest,
}

/// How tokens are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TokenRequest {
    /// As the grant type says.
    #[default]
    Standard,
    /// With the assertion in a file, instead of a client secret (RFC 7523 §2.2).
    AssertionFile(PathBuf),
    /// With a GET, as the metadata service of Azure's machines wants it.
    Metadata,
    /// With a GET, as the metadata service of Google's machines wants it.
    GoogleMetadata,
}

/// Settings for signing requests as AWS asks for (Signature Version 4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SigV4Config {
    /// `region`; empty means that of the environment, or of the profile.
    pub region: String,
    /// `access_key`; empty means the first credentials that AWS' tools would find.
    pub access_key: String,
    /// `secret_key`.
    pub secret_key: Secret,
    /// `profile` in the files that AWS' tools share.
    pub profile: String,
    /// `role_arn`, a role to assume.
    pub role_arn: String,
    /// `external_id` of the role.
    pub external_id: String,
    /// `session_name` of the role.
    pub session_name: String,
    /// `tags` of the session.
    pub tags: Vec<(String, String)>,
    /// `use_fips_sts_endpoint`.
    pub use_fips_sts_endpoint: bool,
    /// `service_name`; empty means `aps`.
    pub service_name: String,
}

impl SigV4Config {
    /// Checks the combination of keys.
    ///
    /// # Errors
    /// [`NetError::Config`] with Prometheus' text.
    pub fn validate(&self) -> Result<(), NetError> {
        refuse_if(
            self.access_key.is_empty() != self.secret_key.is_empty(),
            "must provide a AWS SigV4 Access key and Secret Key if credentials are specified in the SigV4 config",
        )?;
        refuse_if(
            !self.external_id.is_empty() && self.role_arn.is_empty(),
            "external_id can only be used with role_arn",
        )?;
        refuse_if(
            !self.session_name.is_empty() && self.role_arn.is_empty(),
            "session_name can only be used with role_arn",
        )?;
        let name = self.session_name.as_bytes();
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(byte);
        let is_good = (2..=64).contains(&name.len()) && name.iter().all(fits);
        refuse_if(
            !name.is_empty() && !is_good,
            "session_name must match ^[\\w+=,.@-]{2,64}$ (2-64 alphanumeric and +=,.@- characters)",
        )?;
        refuse_if(
            !self.tags.is_empty() && self.role_arn.is_empty(),
            "tags can only be used with role_arn",
        )?;
        for (name, value) in &self.tags {
            refuse_if(name.is_empty(), "tag key must not be empty")?;
            if name.len() > 128 {
                let text = format!("tag key {name:?} exceeds maximum length of 128");
                return Err(invalid(text));
            }
            if value.len() > 256 {
                let text = format!("tag value for key {name:?} exceeds maximum length of 256");
                return Err(invalid(text));
            }
        }
        Ok(())
    }
}

/// The grant type that sends a signed assertion instead of a client secret.
pub const GRANT_JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Trusted authorities and the client's own certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsConfig {
    /// `ca`: certificates in PEM.
    pub ca: String,
    /// `ca_file`.
    pub ca_file: Option<PathBuf>,
    /// `cert`: the client's certificate in PEM.
    pub cert: String,
    /// `cert_file`.
    pub cert_file: Option<PathBuf>,
    /// `key`: the client's private key in PEM.
    pub key: Secret,
    /// `key_file`.
    pub key_file: Option<PathBuf>,
    /// `server_name`; empty means the URL's host.
    pub server_name: String,
    /// `insecure_skip_verify`.
    pub insecure_skip_verify: bool,
    /// `min_version`.
    pub min_version: Option<TlsVersion>,
    /// `max_version`.
    pub max_version: Option<TlsVersion>,
}

/// A TLS version; only 1.2 and 1.3 are supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// `TLS10`
    Tls10,
    /// `TLS11`
    Tls11,
    /// `TLS12`
    Tls12,
    /// `TLS13`
    Tls13,
}

impl TlsVersion {
    /// Parses the version's name in a configuration.
    ///
    /// # Errors
    /// Fails for any text but `TLS10`, `TLS11`, `TLS12`, `TLS13`.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        [Self::Tls10, Self::Tls11, Self::Tls12, Self::Tls13]
            .into_iter()
            .find(|version| version.name() == text)
            .ok_or_else(|| invalid(format!("unknown TLS version: {text}")))
    }

    /// Returns the version's name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls10 => "TLS10",
            Self::Tls11 => "TLS11",
            Self::Tls12 => "TLS12",
            Self::Tls13 => "TLS13",
        }
    }
}

/// Proxy settings of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyConfig {
    /// `proxy_url`.
    pub url: Option<ProxyUrl>,
    /// `no_proxy`: hosts, domains, addresses and networks to connect to directly.
    pub no_proxy: String,
    /// `proxy_from_environment`.
    pub from_environment: bool,
    /// `proxy_connect_header`: sent with `CONNECT`.
    pub connect_headers: Vec<(String, Vec<Secret>)>,
}

/// Values of a header in `http_headers`; one header line for each entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderSources {
    /// `values`.
    pub values: Vec<String>,
    /// `secrets`. Not sent to another host after a redirect.
    pub secrets: Vec<Secret>,
    /// `files`. Not sent to another host after a redirect.
    pub files: Vec<PathBuf>,
}

/// Headers that the client sets itself, or that change the connection.
const RESERVED: [&str; 18] = [
    "authorization",
    "host",
    "content-encoding",
    "content-length",
    "content-type",
    "user-agent",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "www-authenticate",
    "accept-encoding",
    "x-prometheus-remote-write-version",
    "x-prometheus-remote-read-version",
    "x-prometheus-scrape-timeout-seconds",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

impl HttpClientConfig {
    /// Checks the combination of keys and converts the older `bearer_token` to `authorization`.
    ///
    /// # Errors
    /// [`NetError::Config`] with Prometheus' text.
    pub fn validate(&mut self) -> Result<(), NetError> {
        self.check_bearer()?;
        if let Some(basic) = &self.basic_auth {
            refuse_if(
                !basic.username.is_empty() && basic.username_file.is_some(),
                "at most one of basic_auth username, username_file & username_ref must be configured",
            )?;
            refuse_if(
                !basic.password.is_empty() && basic.password_file.is_some(),
                "at most one of basic_auth password, password_file & password_ref must be configured",
            )?;
        }
        self.settle_authorization()?;
        if let Some(oauth2) = &self.oauth2 {
            refuse_if(self.basic_auth.is_some(), ONE_KIND)?;
            oauth2.validate()?;
        }
        self.tls.validate()?;
        self.proxy.validate()?;
        for (name, sources) in &self.headers {
            check_header(name, sources)?;
        }
        Ok(())
    }

    fn check_bearer(&self) -> Result<(), NetError> {
        let token = !self.bearer_token.is_empty();
        let file = self.bearer_token_file.is_some();
        refuse_if(
            token && file,
            "at most one of bearer_token & bearer_token_file must be configured",
        )?;
        refuse_if(
            (self.basic_auth.is_some() || self.oauth2.is_some()) && (token || file),
            "at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be configured",
        )?;
        refuse_if(
            self.authorization.is_some() && (token || file),
            "authorization is not compatible with bearer_token & bearer_token_file",
        )
    }

    fn settle_authorization(&mut self) -> Result<(), NetError> {
        let Some(authorization) = &mut self.authorization else {
            let credentials = std::mem::take(&mut self.bearer_token);
            let credentials_file = self.bearer_token_file.take();
            if !credentials.is_empty() || credentials_file.is_some() {
                self.authorization = Some(Authorization {
                    kind: "Bearer".to_owned(),
                    credentials,
                    credentials_file,
                });
            }
            return Ok(());
        };
        refuse_if(
            !authorization.credentials.is_empty() && authorization.credentials_file.is_some(),
            "at most one of authorization credentials & credentials_file must be configured",
        )?;
        let kind = authorization.kind.trim();
        refuse_if(
            kind.eq_ignore_ascii_case("basic"),
            "authorization type cannot be set to \"basic\", use \"basic_auth\" instead",
        )?;
        authorization.kind = if kind.is_empty() { "Bearer" } else { kind }.to_owned();
        refuse_if(self.basic_auth.is_some() || self.oauth2.is_some(), ONE_KIND)
    }
}

const ONE_KIND: &str = "at most one of basic_auth, oauth2 & authorization must be configured";

impl OAuth2 {
    fn validate(&self) -> Result<(), NetError> {
        refuse_if(
            self.client_id.is_empty(),
            "oauth2 client_id must be configured",
        )?;
        refuse_if(
            self.token_url.is_empty(),
            "oauth2 token_url must be configured",
        )?;
        if self.grant_type == GRANT_JWT_BEARER {
            refuse_if(
                !self.client_certificate_key.is_empty()
                    && self.client_certificate_key_file.is_some(),
                "at most one of oauth2 client_certificate_key, client_certificate_key_file & client_certificate_key_ref must be configured using grant-type=urn:ietf:params:oauth:grant-type:jwt-bearer",
            )?;
            refuse_if(
                !matches!(
                    self.signature_algorithm.as_str(),
                    "" | "RS256" | "RS384" | "RS512"
                ),
                "valid signature algorithms are RS256, RS384 and RS512",
            )?;
        } else {
            refuse_if(
                !self.client_secret.is_empty() && self.client_secret_file.is_some(),
                "at most one of oauth2 client_secret, client_secret_file & client_secret_ref must be configured using grant-type=client_credentials",
            )?;
        }
        self.tls.validate()?;
        self.proxy.validate()
    }
}

impl TlsConfig {
    /// Checks the combination of keys.
    ///
    /// # Errors
    /// [`NetError::Config`] with Prometheus' text.
    pub fn validate(&self) -> Result<(), NetError> {
        refuse_if(
            !self.ca.is_empty() && self.ca_file.is_some(),
            "at most one of ca, ca_file & ca_ref must be configured",
        )?;
        refuse_if(
            !self.cert.is_empty() && self.cert_file.is_some(),
            "at most one of cert, cert_file & cert_ref must be configured",
        )?;
        refuse_if(
            !self.key.is_empty() && self.key_file.is_some(),
            "at most one of key and key_file must be configured",
        )?;
        let cert = !self.cert.is_empty() || self.cert_file.is_some();
        let key = !self.key.is_empty() || self.key_file.is_some();
        refuse_if(
            cert && !key,
            "exactly one of key or key_file must be configured when a client certificate is configured",
        )?;
        refuse_if(
            key && !cert,
            "exactly one of cert or cert_file must be configured when a client key is configured",
        )?;
        let bounds = self.min_version.zip(self.max_version);
        refuse_if(
            bounds.is_some_and(|(min, max)| max < min),
            "tls_config.max_version must be greater than or equal to tls_config.min_version if both are specified",
        )
    }
}

impl ProxyConfig {
    /// Checks the combination of keys.
    ///
    /// # Errors
    /// [`NetError::Config`] with Prometheus' text.
    pub fn validate(&self) -> Result<(), NetError> {
        refuse_if(
            !self.connect_headers.is_empty() && !self.from_environment && self.url.is_none(),
            "if proxy_connect_header is configured, proxy_url or proxy_from_environment must also be configured",
        )?;
        refuse_if(
            self.from_environment && self.url.is_some(),
            "if proxy_from_environment is configured, proxy_url must not be configured",
        )?;
        refuse_if(
            self.from_environment && !self.no_proxy.is_empty(),
            "if proxy_from_environment is configured, no_proxy must not be configured",
        )?;
        refuse_if(
            self.url.is_none() && !self.no_proxy.is_empty(),
            "if no_proxy is configured, proxy_url must also be configured",
        )?;
        for (name, values) in &self.connect_headers {
            header_name(name)?;
            for value in values {
                check_header_value(name, value.expose())?;
            }
        }
        Ok(())
    }
}

fn header_name(name: &str) -> Result<http::HeaderName, NetError> {
    http::HeaderName::try_from(name)
        .map_err(|_invalid| invalid(format!("invalid header name {name:?}")))
}

fn check_header(name: &str, sources: &HeaderSources) -> Result<(), NetError> {
    let parsed = header_name(name)?;
    if RESERVED.contains(&parsed.as_str()) {
        let shown = canonical_name(parsed.as_str());
        return Err(invalid(format!("setting header {shown:?} is not allowed")));
    }
    let secrets = sources.secrets.iter().map(Secret::expose);
    let mut values = sources.values.iter().map(String::as_str).chain(secrets);
    values.try_for_each(|value| check_header_value(name, value))
}

fn check_header_value(name: &str, value: &str) -> Result<(), NetError> {
    http::HeaderValue::try_from(value)
        .map(drop)
        .map_err(|_invalid| invalid(format!("invalid value of header {name:?}")))
}

/// Returns a header name in Go's canonical form.
fn canonical_name(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| {
            first.to_ascii_uppercase().to_string() + letters.as_str()
        })
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

fn refuse_if(is_wrong: bool, message: &str) -> Result<(), NetError> {
    if is_wrong {
        return Err(invalid(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
