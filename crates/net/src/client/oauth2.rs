//! OAuth 2 tokens: fetched when needed, kept until shortly before they expire.
//!
//! Invariant: at most one token request at a time; an expired token is never returned, and no part of a token, secret
//! or assertion appears in an error.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rustls::SignatureScheme;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Client;
use super::config::{GRANT_JWT_BEARER, HttpClientConfig, OAuth2, TokenRequest};
use super::request::{ClientConfig, Request, ResponseHead};
use crate::basic_auth::basic;
use crate::error::{NetError, invalid, no_token, status_text, tls_error};
use crate::file_cache::TextSource;
use crate::percent::{decode_form, escape_form};
use crate::secret::Secret;
use crate::tls::crypto::{private_key, provider, random_bytes};
use crate::url::Url;

/// A token is not used in its last seconds: it has to arrive before it expires.
const EXPIRY_MARGIN: Duration = Duration::from_secs(10);
/// Lifetime of an assertion.
const ASSERTION_SECONDS: u64 = 600;
/// Type of assertions that stand for a client's secret.
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How the client identifies itself: not known yet, in a header, or in the form.
const UNKNOWN: u8 = 0;
const IN_HEADER: u8 = 1;
const IN_FORM: u8 = 2;

#[derive(Debug)]
pub(super) struct TokenSource {
    config: OAuth2,
    /// The client secret, or the key that signs assertions.
    secret: Option<TextSource>,
    url: Url,
    client: Client,
    cached: Mutex<Option<CachedToken>>,
    style: AtomicU8,
}

#[derive(Debug)]
struct CachedToken {
    authorization: Secret,
    expires: Option<Instant>,
    /// The secret it was fetched with: a new secret needs a new token.
    secret: Secret,
}

/// Response of the token URL.
#[derive(Debug)]
struct Token {
    authorization: Secret,
    lifetime: Option<Duration>,
}

impl TokenSource {
    pub(super) fn new(client: &ClientConfig, config: &OAuth2) -> Result<Self, NetError> {
        let secret = if let TokenRequest::AssertionFile(path) = &config.request {
            TextSource::new("", Some(path), "client assertion")
        } else if config.grant_type == GRANT_JWT_BEARER {
            TextSource::new(
                config.client_certificate_key.expose(),
                config.client_certificate_key_file.as_deref(),
                "oauth2 client certificate key",
            )
        } else {
            TextSource::new(
                config.client_secret.expose(),
                config.client_secret_file.as_deref(),
                "oauth2 client secret",
            )
        };
        let http = HttpClientConfig {
            tls: config.tls.clone(),
            proxy: config.proxy.clone(),
            ..HttpClientConfig::default()
        };
        Ok(Self {
            secret,
            url: Url::parse(&config.token_url)?,
            client: Client::with_http(client.clone(), http)?,
            config: config.clone(),
            cached: Mutex::new(None),
            style: AtomicU8::new(UNKNOWN),
        })
    }

    /// Returns the value of `Authorization`, fetching a token if there is no valid one.
    pub(super) async fn authorization(&self) -> Result<Secret, NetError> {
        let secret = match &self.secret {
            Some(text) => text.get()?,
            None => "".into(),
        };
        let mut cached = self.cached.lock().await;
        if let Some(cached) = cached.as_ref()
            && *cached.secret.expose() == *secret
            && cached.expires.is_none_or(|at| Instant::now() < at)
        {
            return Ok(cached.authorization.clone());
        }
        let token = Box::pin(self.fetch(&secret))
            .await
            .map_err(|error| NetError::Token {
                source: Box::new(error),
            })?;
        let expires = token
            .lifetime
            .map(|lifetime| Instant::now() + lifetime.saturating_sub(EXPIRY_MARGIN));
        *cached = Some(CachedToken {
            authorization: token.authorization.clone(),
            expires,
            secret: Secret::new(&*secret),
        });
        Ok(token.authorization)
    }

    async fn fetch(&self, secret: &str) -> Result<Token, NetError> {
        let is_assertion = self.config.grant_type == GRANT_JWT_BEARER;
        let mut form = match self.config.request {
            TokenRequest::Metadata => return self.ask_metadata(("metadata", "true")).await,
            TokenRequest::GoogleMetadata => {
                return self.ask_metadata(("metadata-flavor", "Google")).await;
            }
            TokenRequest::AssertionFile(_) => vec![
                ("grant_type", "client_credentials".to_owned()),
                ("client_id", self.config.client_id.clone()),
                ("client_assertion_type", CLIENT_ASSERTION.to_owned()),
                ("client_assertion", secret.to_owned()),
            ],
            TokenRequest::Standard if is_assertion => vec![
                ("grant_type", GRANT_JWT_BEARER.to_owned()),
                ("assertion", self.assertion(secret)?),
            ],
            TokenRequest::Standard => vec![("grant_type", "client_credentials".to_owned())],
        };
        self.add_scopes_and_parameters(&mut form)?;
        if is_assertion || self.config.request != TokenRequest::Standard {
            return self.ask(&form, None).await;
        }
        let style = self.style.load(Relaxed);
        if style != IN_FORM {
            let (user, password) = (escape_form(&self.config.client_id), escape_form(secret));
            let asked = self
                .ask(&form, Some(basic(user.as_bytes(), password.as_bytes())))
                .await;
            // Servers that support only the other way reject this one with any status.
            let refused = matches!(asked, Err(NetError::TokenAnswer { .. }));
            if style == IN_HEADER || !refused {
                self.style.store(IN_HEADER, Relaxed);
                return asked;
            }
        }
        form.push(("client_id", self.config.client_id.clone()));
        if !secret.is_empty() {
            form.push(("client_secret", secret.to_owned()));
        }
        let token = self.ask(&form, None).await?;
        self.style.store(IN_FORM, Relaxed);
        Ok(token)
    }

    fn add_scopes_and_parameters<'a>(
        &'a self,
        form: &mut Vec<(&'a str, String)>,
    ) -> Result<(), NetError> {
        if !self.config.scopes.is_empty() {
            form.push(("scope", self.config.scopes.join(" ")));
        }
        for (name, value) in &self.config.endpoint_params {
            let given = form.iter_mut().find(|(known, _)| known == name);
            match given {
                Some((_, kind)) if name == "grant_type" => kind.clone_from(value),
                Some(_) => {
                    return Err(invalid(format!(
                        "oauth2: cannot overwrite parameter {name:?}"
                    )));
                }
                None => form.push((name, value.clone())),
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        form: &[(&str, String)],
        authorization: Option<Secret>,
    ) -> Result<Token, NetError> {
        let mut content = String::new();
        for (name, value) in form {
            if !content.is_empty() {
                content.push('&');
            }
            content.push_str(&format!("{}={}", escape_form(name), escape_form(value)));
        }
        let mut request = Request::for_token_with_form(self.url.clone());
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::try_from(authorization.expose()).expect("base64");
            value.set_sensitive(true);
            request.headers.insert(AUTHORIZATION, value);
        }
        let mut body = Vec::new();
        let head = self
            .client
            .post(&request, content.as_bytes(), &mut body)
            .await?;
        read_token(&head, &body)
    }

    /// Asks the service of a cloud's machine: the URL has everything but a header that no browser sends.
    async fn ask_metadata(
        &self,
        (name, value): (&'static str, &'static str),
    ) -> Result<Token, NetError> {
        let mut request = Request::for_token(self.url.clone());
        request.headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        let mut body = Vec::new();
        let head = self.client.get(&request, &mut body).await?;
        read_token(&head, &body)
    }

    /// Signs the client's identity for the next ten minutes (RFC 7523).
    fn assertion(&self, key: &str) -> Result<String, NetError> {
        let config = &self.config;
        let (name, scheme) = match config.signature_algorithm.as_str() {
            "RS384" => ("RS384", SignatureScheme::RSA_PKCS1_SHA384),
            "RS512" => ("RS512", SignatureScheme::RSA_PKCS1_SHA512),
            _ => ("RS256", SignatureScheme::RSA_PKCS1_SHA256),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_seconds = now.map_or(0, |since| since.as_secs());
        let or =
            |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        let mut claims = Map::new();
        claims.insert("iss".into(), or(&config.iss, &config.client_id).into());
        if !config.client_id.is_empty() {
            claims.insert("sub".into(), config.client_id.as_str().into());
        }
        claims.insert("jti".into(), unique_id()?.into());
        claims.insert("aud".into(), or(&config.audience, &config.token_url).into());
        claims.insert("iat".into(), now_seconds.into());
        claims.insert("exp".into(), (now_seconds + ASSERTION_SECONDS).into());
        if !config.scopes.is_empty() {
            claims.insert("scope".into(), config.scopes.join(" ").into());
        }
        claims.extend(config.claims.clone());
        let mut header = json!({ "alg": name, "typ": "JWT" });
        if !config.client_certificate_key_id.is_empty() {
            header["kid"] = config.client_certificate_key_id.as_str().into();
        }
        let encode = |json: String| BASE64_URL_SAFE_NO_PAD.encode(json);
        let signed = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(Value::Object(claims).to_string())
        );
        let unusable = |_cause| tls_error("oauth2 client certificate key: not a usable RSA key");
        let key = provider()
            .key_provider
            .load_private_key(private_key(key)?)
            .map_err(unusable)?;
        let signer = key
            .choose_scheme(&[scheme])
            .ok_or_else(|| tls_error("oauth2 client certificate key: not an RSA key"))?;
        let signature = signer.sign(signed.as_bytes()).map_err(unusable)?;
        Ok(format!(
            "{signed}.{}",
            BASE64_URL_SAFE_NO_PAD.encode(signature)
        ))
    }
}

/// Returns the token in an answer, or the reason that there is none.
fn read_token(head: &ResponseHead, body: &[u8]) -> Result<Token, NetError> {
    let content_type = head.content_type.as_deref().unwrap_or_default();
    let fields = read_answer(body, content_type);
    if !(200..300).contains(&head.status) {
        // The response's error code is a fixed word (RFC 6749 §5.2); the rest is not repeated.
        let code = fields.get("error").and_then(Value::as_str);
        let code = code.filter(|code| {
            code.len() < 64 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        });
        let status = status_text(head.status);
        return Err(no_token(match code {
            Some(code) => format!("{status}: {code}"),
            None => status,
        }));
    }
    token(&fields)
}

/// Parses JSON, or a form as sent by old servers; anything else gives no fields.
fn read_answer(body: &[u8], content_type: &str) -> Map<String, Value> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if matches!(kind, "application/x-www-form-urlencoded" | "text/plain") {
        let text = String::from_utf8_lossy(body);
        let decode = |part: &str| {
            let text = decode_form(part.as_bytes()).unwrap_or_default();
            text.into_owned()
        };
        return text
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decode(name), Value::String(decode(value))))
            .collect();
    }
    serde_json::from_slice(body).unwrap_or_default()
}

fn token(fields: &Map<String, Value>) -> Result<Token, NetError> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let access = text("access_token");
    if access.is_empty() {
        return Err(no_token("server response missing access_token"));
    }
    let kind = match text("token_type") {
        kind if kind.eq_ignore_ascii_case("mac") => "MAC",
        kind if kind.eq_ignore_ascii_case("basic") => "Basic",
        kind if kind.is_empty() || kind.eq_ignore_ascii_case("bearer") => "Bearer",
        kind => kind,
    };
    let authorization = format!("{kind} {access}");
    if HeaderValue::try_from(authorization.as_str()).is_err() {
        return Err(no_token("access_token is not a header's value"));
    }
    // Some servers send the number as a string.
    let seconds = fields.get("expires_in").and_then(|value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    });
    let lifetime = seconds
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds.min(1e9)).ok());
    Ok(Token {
        authorization: Secret::new(authorization),
        lifetime,
    })
}

/// Returns a random identifier in the form of a UUID.
fn unique_id() -> Result<String, NetError> {
    let mut bytes: [u8; 16] = random_bytes()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    ))
}

#[cfg(test)]
mod tests;
