//! Where AWS credentials come from: the configuration, the environment, a file of profiles, or a role that is assumed.
//!
//! Invariant: the order is that of AWS' tools: configured keys, those of the environment, a web identity, the file.

use std::path::PathBuf;

use jiff::Timestamp;
use tokio::sync::Mutex;

use super::sign;
use crate::client::Client;
use crate::client::aws_environment::AwsEnvironment;
use crate::client::config::SigV4Config;
use crate::client::request::{ClientConfig, Request};
use crate::error::{NetError, invalid, status_text};
use crate::percent::escape_form;
use crate::secret::Secret;
use crate::url::Url;

/// Time before its end at which a temporary credential is renewed.
const EXPIRY_MARGIN_MS: i64 = 60_000;
/// Lifetime of an answer that does not say it.
const DEFAULT_LIFETIME_MS: i64 = 900_000;
const SESSION_NAME: &str = "narthex";

/// Credentials at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct Credentials {
    pub(super) id: String,
    pub(super) secret: Secret,
    /// Of temporary credentials.
    pub(super) token: Secret,
}

/// Where credentials come from before a role is assumed.
#[derive(Debug)]
enum Source {
    Fixed(Credentials),
    /// A file of profiles, read again for every use: it may be changed.
    File {
        path: PathBuf,
        profile: String,
    },
    /// A token in a file that stands for a role.
    WebIdentity {
        token: PathBuf,
        role_arn: String,
    },
}

/// Returns credentials, renewing temporary ones.
#[derive(Debug)]
pub(super) struct Provider {
    source: Source,
    role: Option<Role>,
    session_name: String,
    region: String,
    client: Client,
    sts: Url,
    /// Temporary credentials and their end.
    kept: Mutex<Option<(Credentials, i64)>>,
}

#[derive(Debug)]
struct Role {
    arn: String,
    external_id: String,
    tags: Vec<(String, String)>,
}

impl Provider {
    /// # Errors
    /// Fails if there are no credentials.
    pub(super) fn new(
        client: &ClientConfig,
        config: &SigV4Config,
        region: &str,
    ) -> Result<Self, NetError> {
        let environment = &client.aws;
        let sts = match environment.sts_url.as_str() {
            "" => sts_url(region, config.use_fips_sts_endpoint),
            url => url.to_owned(),
        };
        let names = [&config.session_name, &environment.session_name];
        let given = names.into_iter().find(|name| !name.is_empty());
        let session_name = given.map_or(SESSION_NAME, String::as_str);
        let role = (!config.role_arn.is_empty()).then(|| Role {
            arn: config.role_arn.clone(),
            external_id: config.external_id.clone(),
            tags: config.tags.clone(),
        });
        Ok(Self {
            source: source(config, environment)?,
            role,
            session_name: session_name.to_owned(),
            region: region.to_owned(),
            client: Client::new(client.clone()),
            sts: Url::parse(&sts)?,
            kept: Mutex::new(None),
        })
    }

    pub(super) async fn credentials(&self, now_ms: i64) -> Result<Credentials, NetError> {
        if let (Source::Fixed(fixed), None) = (&self.source, &self.role) {
            return Ok(fixed.clone());
        }
        let mut kept = self.kept.lock().await;
        if let Some((credentials, until_ms)) = kept.as_ref()
            && now_ms < until_ms - EXPIRY_MARGIN_MS
        {
            return Ok(credentials.clone());
        }
        let found = Box::pin(self.find(now_ms)).await;
        let (credentials, until_ms) = found.map_err(|error| NetError::Token {
            source: Box::new(error),
        })?;
        *kept = Some((credentials.clone(), until_ms));
        Ok(credentials)
    }

    /// Returns credentials and until when they are good.
    async fn find(&self, now_ms: i64) -> Result<(Credentials, i64), NetError> {
        let (base, until_ms) = match &self.source {
            Source::Fixed(fixed) => (fixed.clone(), i64::MAX),
            Source::File { path, profile } => {
                (read_profile(path, profile)?, now_ms + DEFAULT_LIFETIME_MS)
            }
            Source::WebIdentity { token, role_arn } => {
                let token = read(token)?;
                let form = [
                    ("Action", "AssumeRoleWithWebIdentity"),
                    ("RoleArn", role_arn),
                    ("RoleSessionName", &self.session_name),
                    ("WebIdentityToken", token.trim()),
                ];
                self.ask(&form, None, now_ms).await?
            }
        };
        let Some(role) = &self.role else {
            return Ok((base, until_ms));
        };
        let mut form = vec![
            ("Action", "AssumeRole"),
            ("RoleArn", &role.arn),
            ("RoleSessionName", &self.session_name),
        ];
        if !role.external_id.is_empty() {
            form.push(("ExternalId", &role.external_id));
        }
        let tag = |(at, (name, value)): (usize, &(String, String))| {
            let member = format!("Tags.member.{}", at + 1);
            [
                (format!("{member}.Key"), name.clone()),
                (format!("{member}.Value"), value.clone()),
            ]
        };
        let tags: Vec<(String, String)> = role.tags.iter().enumerate().flat_map(tag).collect();
        form.extend(
            tags.iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        self.ask(&form, Some(&base), now_ms).await
    }

    /// Asks AWS' token service.
    async fn ask(
        &self,
        form: &[(&str, &str)],
        signed_by: Option<&Credentials>,
        now_ms: i64,
    ) -> Result<(Credentials, i64), NetError> {
        let mut body = "Version=2011-06-15".to_owned();
        for (name, value) in form {
            body.push_str(&format!("&{name}={}", escape_form(value)));
        }
        let mut request = Request::for_token_with_form(self.sts.clone());
        if let Some(credentials) = signed_by {
            let signed = (&self.sts, &mut request.headers, body.as_bytes());
            sign(credentials, (&self.region, "sts"), "POST", signed, now_ms)?;
        }
        let mut answer = Vec::new();
        let posted = self.client.post(&request, body.as_bytes(), &mut answer);
        let status = posted.await?.status;
        let answer = String::from_utf8_lossy(&answer);
        if status != 200 {
            // The code is a word; the message may repeat what was sent.
            let code = element(&answer, "Code").unwrap_or_default();
            return Err(NetError::TokenAnswer {
                reason: format!("{}: {code}", status_text(status)),
            });
        }
        let text = |name: &str| element(&answer, name).unwrap_or_default().to_owned();
        let credentials = Credentials {
            id: text("AccessKeyId"),
            secret: Secret::new(text("SecretAccessKey")),
            token: Secret::new(text("SessionToken")),
        };
        if credentials.id.is_empty() || credentials.secret.is_empty() {
            return Err(NetError::TokenAnswer {
                reason: "the answer has no credentials".to_owned(),
            });
        }
        let until: Option<Timestamp> = text("Expiration").parse().ok();
        let until_ms = until.map_or(now_ms + DEFAULT_LIFETIME_MS, Timestamp::as_millisecond);
        Ok((credentials, until_ms))
    }
}

fn sts_url(region: &str, fips: bool) -> String {
    let host = if fips { "sts-fips" } else { "sts" };
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    format!("https://{host}.{region}.{domain}/")
}

fn source(config: &SigV4Config, environment: &AwsEnvironment) -> Result<Source, NetError> {
    if !config.access_key.is_empty() {
        return Ok(Source::Fixed(Credentials {
            id: config.access_key.clone(),
            secret: config.secret_key.clone(),
            token: Secret::default(),
        }));
    }
    // A profile of the configuration is meant before the environment's keys.
    let profile = match config.profile.as_str() {
        "" => &environment.profile,
        profile => profile,
    };
    if config.profile.is_empty() && !environment.id.is_empty() && !environment.secret.is_empty() {
        return Ok(Source::Fixed(Credentials {
            id: environment.id.clone(),
            secret: environment.secret.clone(),
            token: environment.token.clone(),
        }));
    }
    if let (Some(token), true) = (&environment.web_identity_file, config.profile.is_empty())
        && !environment.role_arn.is_empty()
    {
        return Ok(Source::WebIdentity {
            token: token.clone(),
            role_arn: environment.role_arn.clone(),
        });
    }
    let Some(path) = &environment.credentials_file else {
        return Err(no_credentials("there is no file of credentials"));
    };
    let profile = match profile {
        "" => "default",
        profile => profile,
    };
    // Read once now, so that the start fails without it.
    read_profile(path, profile).map_err(|error| no_credentials(&error.to_string()))?;
    Ok(Source::File {
        path: path.clone(),
        profile: profile.to_owned(),
    })
}

fn no_credentials(reason: &str) -> NetError {
    invalid(format!(
        "could not get SigV4 credentials: neither the configuration nor the environment has any, and {reason}; those of a machine's or container's role are not read"
    ))
}

fn read(path: &PathBuf) -> Result<String, NetError> {
    std::fs::read_to_string(path)
        .map_err(|error| invalid(format!("unable to read {}: {error}", path.display())))
}

/// Returns the credentials of a profile.
fn read_profile(path: &PathBuf, profile: &str) -> Result<Credentials, NetError> {
    let text = read(path)?;
    let mut found = Credentials::default();
    let mut is_it = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            let name = name.trim_end_matches(']').trim();
            is_it = name.strip_prefix("profile ").unwrap_or(name).trim() == profile;
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| is_it) else {
            continue;
        };
        let value = value.trim();
        match name.trim() {
            "aws_access_key_id" => value.clone_into(&mut found.id),
            "aws_secret_access_key" => found.secret = Secret::new(value),
            "aws_session_token" => found.token = Secret::new(value),
            _ => {}
        }
    }
    if found.id.is_empty() || found.secret.is_empty() {
        let path = path.display();
        return Err(invalid(format!(
            "{path} has no keys of profile {profile:?}"
        )));
    }
    Ok(found)
}

/// Returns the text of the first element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let begin = format!("<{name}>");
    let from = xml.find(&begin)? + begin.len();
    let rest = xml.get(from..)?;
    rest.get(..rest.find("</")?)
}
