//! Credentials that the place gives where the process runs: the task of a container (ECS, pod identities of EKS), or the
//! role of a machine (EC2).
//!
//! Invariant: a token goes to the services that AWS names and to this host, never in plain text to others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::source::{Credentials, read, until_ms};
use crate::client::Client;
use crate::client::aws_environment::{ContainerEnvironment, MetadataEnvironment};
use crate::client::request::Request;
use crate::error::{NetError, invalid, no_token, status_text};
use crate::secret::Secret;
use crate::url::Url;

/// Addresses in a container's network, besides this host, that may be asked without encryption: those of ECS and EKS.
const CONTAINER_ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
];
/// The metadata service is on the machine: what does not answer soon is not there. Its answers do not reach containers
/// that are further away than it allows.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);
/// Seconds that a token of the metadata service is asked for: it is used at once.
const METADATA_TOKEN_SECONDS: &str = "300";
/// Credentials of a machine are asked for again after this time at the latest, as AWS' tools do.
const MACHINE_LIFETIME_MS: i64 = 3_600_000;
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// Returns the credentials of a container's task, and until when they are good.
///
/// # Errors
/// Fails if the service cannot be asked, or has none.
pub(super) async fn of_container(
    client: &Client,
    container: &ContainerEnvironment,
    now_ms: i64,
) -> Result<(Credentials, i64), NetError> {
    let url = Url::parse(&container.url)?;
    if container.is_restricted && !url.is_https() {
        check_host(&url).await?;
    }
    let mut request = Request::for_token(url);
    request
        .headers
        .insert(ACCEPT, HeaderValue::from_static("application/json"));
    let token = match &container.token_file {
        // It is replaced from time to time.
        Some(path) => Secret::new(read(path)?.trim()),
        None => container.token.clone(),
    };
    if !token.is_empty() {
        let mut token = HeaderValue::try_from(token.expose()).map_err(|_cause| {
            invalid("the container's authorization token is no header's value")
        })?;
        token.set_sensitive(true);
        request.headers.insert(AUTHORIZATION, token);
    }
    let answer = get(client, &request).await?;
    of_answer(&answer, now_ms)
}

/// Fails unless a name or address is of this host or of a container's own network.
async fn check_host(url: &Url) -> Result<(), NetError> {
    let host = url.host();
    let is_near = |ip: IpAddr| ip.is_loopback() || CONTAINER_ADDRESSES.contains(&ip);
    let all_near = match host.parse() {
        Ok(ip) => is_near(ip),
        Err(_is_a_name) => {
            let found = tokio::net::lookup_host((host, url.port())).await;
            let mut found = found
                .map_err(|error| invalid(format!("failed to resolve host {host:?}, {error}")))?;
            found.all(|address| is_near(address.ip()))
        }
    };
    if all_near {
        return Ok(());
    }
    Err(invalid(format!(
        "invalid endpoint host, {host:?}, only loopback/ecs/eks hosts are allowed"
    )))
}

/// Returns the credentials of a machine's role, and until when they are good.
///
/// # Errors
/// Fails if the service cannot be asked, or the machine has no role.
pub(super) async fn of_machine(
    client: &Client,
    metadata: &MetadataEnvironment,
    now_ms: i64,
) -> Result<(Credentials, i64), NetError> {
    let base = metadata.url.trim_end_matches('/');
    let token = match token(client, base).await {
        Ok(token) => Some(token),
        // Older machines and some other clouds' have no tokens.
        Err(_cause) if !metadata.requires_token => None,
        Err(cause) => return Err(cause),
    };
    let ask = async |path: &str| {
        let mut request = Request::for_token(Url::parse(&format!("{base}{path}"))?);
        request.timeout = METADATA_TIMEOUT;
        if let Some(token) = &token {
            let name = HeaderName::from_static("x-aws-ec2-metadata-token");
            request.headers.insert(name, token.clone());
        }
        get(client, &request).await
    };
    let roles = ask(ROLES).await?;
    let roles = String::from_utf8_lossy(&roles);
    let Some(role) = roles.lines().next().filter(|role| !role.is_empty()) else {
        return Err(no_token("unexpected empty EC2 IMDS role list"));
    };
    let answer = ask(&format!("{ROLES}{role}")).await?;
    let (credentials, until_ms) = of_answer(&answer, now_ms)?;
    Ok((credentials, until_ms.min(now_ms + MACHINE_LIFETIME_MS)))
}

/// Returns the token that a metadata service wants to see in requests.
async fn token(client: &Client, base: &str) -> Result<HeaderValue, NetError> {
    let mut request = Request::for_token(Url::parse(&format!("{base}/latest/api/token"))?);
    request.timeout = METADATA_TIMEOUT;
    request.headers.insert(
        HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds"),
        HeaderValue::from_static(METADATA_TOKEN_SECONDS),
    );
    let mut answer = Vec::new();
    let head = client.put(&request, &[], &mut answer).await?;
    check_status(head.status)?;
    let mut token = HeaderValue::try_from(answer)
        .map_err(|_cause| invalid("the metadata service's token is no header's value"))?;
    token.set_sensitive(true);
    Ok(token)
}

async fn get(client: &Client, request: &Request) -> Result<Vec<u8>, NetError> {
    let mut answer = Vec::new();
    let head = client.get(request, &mut answer).await?;
    check_status(head.status)?;
    Ok(answer)
}

fn check_status(status: u16) -> Result<(), NetError> {
    match status {
        200 => Ok(()),
        status => Err(no_token(status_text(status))),
    }
}

/// Reads the answer that both services give.
fn of_answer(answer: &[u8], now_ms: i64) -> Result<(Credentials, i64), NetError> {
    let fields: Map<String, Value> = serde_json::from_slice(answer).unwrap_or_default();
    of_fields(&fields, "Token", now_ms)
}

/// Reads what a program writes that gives credentials; it must be in the only version there is.
pub(super) fn of_program(output: &[u8], now_ms: i64) -> Result<(Credentials, i64), NetError> {
    let fields: Map<String, Value> = serde_json::from_slice(output).unwrap_or_default();
    if fields.get("Version").and_then(Value::as_u64) != Some(1) {
        return Err(no_token(
            "the output of credential_process is not of version 1",
        ));
    }
    of_fields(&fields, "SessionToken", now_ms)
}

fn of_fields(
    fields: &Map<String, Value>,
    token: &str,
    now_ms: i64,
) -> Result<(Credentials, i64), NetError> {
    // Go's decoder, which the services are made for, does not distinguish capitals.
    let text = |name: &str| {
        let mut found = fields.iter();
        let found = found.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found
            .and_then(|(_, value)| value.as_str())
            .unwrap_or_default()
    };
    let code = text("Code");
    let found = Credentials::new(text("AccessKeyId"), text("SecretAccessKey"), text(token));
    let is_good = code.is_empty() || code.eq_ignore_ascii_case("success");
    let Some(credentials) = found.filter(|_| is_good) else {
        let is_word = code.len() < 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let code = if is_word { code } else { "" };
        let reason = format!("the answer has no credentials {code}");
        return Err(no_token(reason.trim_end()));
    };
    Ok((credentials, until_ms(text("Expiration"), now_ms)))
}
