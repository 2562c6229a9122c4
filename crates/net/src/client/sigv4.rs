//! Signatures of requests as AWS asks for them: Signature Version 4.
//!
//! Specification: AWS General Reference, "Signing AWS API requests". Every header that is present is signed; `Host` is.
//!
//! Invariant: a secret leaves this file as a signature only, and temporary credentials are renewed before they expire.

mod credentials;
mod machine;
mod process;
mod profile;
mod source;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use jiff::Timestamp;
use rustls::crypto::hash::Output;

use super::config::SigV4Config;
use super::request::ClientConfig;
use crate::error::{NetError, invalid};
use crate::percent::{decode_form, escape_component};
use crate::tls::crypto::sha256;
use crate::url::Url;

use credentials::Provider;
use profile::Profiles;
use source::Credentials;

/// The service of Amazon's managed Prometheus.
const DEFAULT_SERVICE: &str = "aps";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Signs requests.
#[derive(Debug)]
pub struct SigV4 {
    region: String,
    service: String,
    provider: Provider,
}

impl SigV4 {
    /// Finds out where credentials come from; those that a service gives are asked for with the first request.
    ///
    /// # Errors
    /// Fails without a region, or if it is certain that there are no credentials.
    pub fn new(client: &ClientConfig, config: &SigV4Config) -> Result<Self, NetError> {
        config.validate()?;
        let given = [&config.region, &client.aws.region];
        let region = match given.into_iter().find(|region| !region.is_empty()) {
            Some(region) => region.clone(),
            None => {
                let profile = credentials::profile(config, &client.aws);
                Profiles::read(&client.aws)?.region(profile).to_owned()
            }
        };
        if region.is_empty() {
            return Err(invalid(
                "region not configured in sigv4 or in default credentials chain",
            ));
        }
        let service = match config.service_name.as_str() {
            "" => DEFAULT_SERVICE,
            service => service,
        };
        Ok(Self {
            provider: Provider::new(client, config, &region)?,
            region,
            service: service.to_owned(),
        })
    }

    /// Adds the headers that sign a POST with this body at a time in milliseconds since the epoch.
    ///
    /// # Errors
    /// Fails if credentials cannot be had, or are no header's value.
    pub async fn sign(
        &self,
        url: &Url,
        headers: &mut HeaderMap,
        body: &[u8],
        now_ms: i64,
    ) -> Result<(), NetError> {
        let credentials = self.provider.credentials(now_ms).await?;
        let scope = (self.region.as_str(), self.service.as_str());
        sign(&credentials, scope, "POST", (url, headers, body), now_ms)
    }
}

/// Adds the headers that sign a request.
fn sign(
    credentials: &Credentials,
    (region, service): (&str, &str),
    method: &str,
    (url, headers, body): (&Url, &mut HeaderMap, &[u8]),
    now_ms: i64,
) -> Result<(), NetError> {
    let time = Timestamp::from_millisecond(now_ms).map_err(|error| invalid(error.to_string()))?;
    let time = time.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = time.get(..8).unwrap_or_default();
    headers.remove(AUTHORIZATION);
    headers.insert(HeaderName::from_static("x-amz-date"), value(&time)?);
    if !credentials.token.is_empty() {
        let mut token = value(credentials.token.expose())?;
        token.set_sensitive(true);
        headers.insert(HeaderName::from_static("x-amz-security-token"), token);
    }
    let (canonical, names) = canonical(method, url, headers, body);
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let digest = hex_digest(canonical.as_bytes());
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{digest}");
    let secret = format!("AWS4{}", credentials.secret.expose());
    let key = [day, region, service, "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| {
            mac(&key, part.as_bytes()).as_ref().to_vec()
        });
    let signature = hex(mac(&key, text.as_bytes()).as_ref());
    let id = &credentials.id;
    let mut authorization = value(&format!(
        "{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
    ))?;
    authorization.set_sensitive(true);
    headers.insert(AUTHORIZATION, authorization);
    Ok(())
}

/// Returns the canonical request and the names of the signed headers.
fn canonical(method: &str, url: &Url, headers: &HeaderMap, body: &[u8]) -> (String, String) {
    let target = url.path_and_query();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // Escapes of the path are escaped once more; those of the query are not.
    let path: Vec<String> = path.split('/').map(escape_component).collect();
    let again = |part: &str| escape_component(&decode_form(part.as_bytes()).unwrap_or_default());
    let mut pairs: Vec<String> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            format!("{}={}", again(name), again(value))
        })
        .collect();
    pairs.sort_unstable();
    let (lines, names) = header_lines(url, headers);
    let canonical = format!(
        "{method}\n{}\n{}\n{lines}\n{names}\n{}",
        path.join("/"),
        pairs.join("&"),
        hex_digest(body)
    );
    (canonical, names)
}

/// Returns the lines of all headers, and their names.
fn header_lines(url: &Url, headers: &HeaderMap) -> (String, String) {
    let mut all: Vec<(&str, String)> = vec![("host", url.authority().to_owned())];
    for name in headers.keys() {
        // Proxies change the one, and the other is what this is about.
        if name == USER_AGENT || name == AUTHORIZATION || name == http::header::HOST {
            continue;
        }
        let values = headers.get_all(name).iter();
        let trimmed = |value: &HeaderValue| {
            let text = String::from_utf8_lossy(value.as_bytes());
            text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
        };
        let values: Vec<String> = values.map(trimmed).collect();
        all.push((name.as_str(), values.join(",")));
    }
    all.sort_unstable();
    let lines = all.iter().map(|(name, value)| format!("{name}:{value}\n"));
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    (lines.collect(), names.join(";"))
}

fn value(text: &str) -> Result<HeaderValue, NetError> {
    HeaderValue::try_from(text)
        .map_err(|_cause| invalid("sigv4: a credential is not a header's value"))
}

/// Bytes that SHA-256 takes at once.
const BLOCK_BYTES: usize = 64;

/// Returns HMAC-SHA256 (RFC 2104).
fn mac(key: &[u8], text: &[u8]) -> Output {
    let hash = sha256();
    let mut block = [0; BLOCK_BYTES];
    let shortened = hash.hash(key);
    let key = if key.len() > BLOCK_BYTES {
        shortened.as_ref()
    } else {
        key
    };
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let pass = |pad: u8, text: &[u8]| {
        let mut context = hash.start();
        context.update(&block.map(|byte| byte ^ pad));
        context.update(text);
        context.finish()
    };
    pass(0x5c, pass(0x36, text).as_ref())
}

fn hex_digest(bytes: &[u8]) -> String {
    hex(sha256().hash(bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
