//! Where AWS credentials come from: the configuration, the environment, a web identity, a profile, a container's task, a
//! machine's role, and roles that are assumed with those.
//!
//! Invariant: the order is that of AWS' tools. Credentials are used as long as they are good, even while no others can be
//! had.

use tokio::sync::Mutex;

use super::process::of_process;
use super::profile::Profiles;
use super::source::{Credentials, DEFAULT_LIFETIME_MS, Plan, Role, Source, read, until_ms};
use super::{machine, sign};
use crate::client::Client;
use crate::client::aws_environment::AwsEnvironment;
use crate::client::config::SigV4Config;
use crate::client::request::{ClientConfig, Request};
use crate::error::{NetError, invalid, no_token, status_text};
use crate::percent::escape_form;
use crate::secret::Secret;
use crate::url::Url;

/// Time before their end at which others are asked for; half of what is left, if that is less.
const RENEWAL_MS: i64 = 300_000;
/// Time before its end at which a temporary credential is not used any more: a request takes time to arrive.
const EXPIRY_MARGIN_MS: i64 = 10_000;
/// Time after which others are asked for again, when there were none.
const RETRY_MS: i64 = 30_000;
/// AWS' tools pass on only what is longer than the shortest that is possible.
const SHORTEST_SESSION_SECONDS: u64 = 900;
const SESSION_NAME: &str = "narthex";

/// Returns credentials, renewing temporary ones.
#[derive(Debug)]
pub(super) struct Provider {
    config: SigV4Config,
    environment: AwsEnvironment,
    region: String,
    client: Client,
    sts: Url,
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    credentials: Credentials,
    until_ms: i64,
    /// When others are asked for.
    renew_ms: i64,
}

impl Provider {
    /// # Errors
    /// Fails if it is certain that there are no credentials.
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
        // What is found out without asking anybody is found out now.
        plan(config, environment)
            .map_err(|error| invalid(format!("could not get SigV4 credentials: {error}")))?;
        Ok(Self {
            config: config.clone(),
            environment: environment.clone(),
            region: region.to_owned(),
            client: Client::new(client.clone()),
            sts: Url::parse(&sts)?,
            kept: Mutex::new(None),
        })
    }

    pub(super) async fn credentials(&self, now_ms: i64) -> Result<Credentials, NetError> {
        let mut kept = self.kept.lock().await;
        if let Some(kept) = kept.as_ref()
            && now_ms < kept.renew_ms
        {
            return Ok(kept.credentials.clone());
        }
        match Box::pin(self.find(now_ms)).await {
            Ok((credentials, until_ms)) => {
                let left_ms = until_ms.saturating_sub(now_ms);
                *kept = Some(Kept {
                    credentials: credentials.clone(),
                    until_ms,
                    renew_ms: until_ms - RENEWAL_MS.min(left_ms / 2),
                });
                Ok(credentials)
            }
            Err(error) => match kept.as_mut() {
                Some(kept) if now_ms < kept.until_ms.saturating_sub(EXPIRY_MARGIN_MS) => {
                    kept.renew_ms = now_ms + RETRY_MS;
                    tracing::warn!(%error, "Credentials for AWS cannot be renewed; those that are there are still good.");
                    Ok(kept.credentials.clone())
                }
                _ => Err(NetError::AwsCredentials {
                    source: Box::new(error),
                }),
            },
        }
    }

    /// Returns credentials and until when they are good.
    async fn find(&self, now_ms: i64) -> Result<(Credentials, i64), NetError> {
        let Plan { source, roles } = plan(&self.config, &self.environment)?;
        let mut found = match source {
            // A file of profiles may be changed.
            Source::Fixed(fixed) => (fixed, now_ms + DEFAULT_LIFETIME_MS),
            Source::WebIdentity {
                token,
                role_arn,
                session_name,
            } => {
                let token = read(&token)?;
                let form = [
                    ("Action", "AssumeRoleWithWebIdentity"),
                    ("RoleArn", &role_arn),
                    ("RoleSessionName", self.session_name(&session_name)),
                    ("WebIdentityToken", token.trim()),
                ];
                self.ask(&form, None, now_ms).await?
            }
            Source::Process(command) => of_process(&command, now_ms).await?,
            Source::Container => {
                machine::of_container(&self.client, &self.environment.container, now_ms).await?
            }
            Source::Machine => {
                machine::of_machine(&self.client, &self.environment.metadata, now_ms).await?
            }
        };
        for role in &roles {
            found = self.assume(role, &found.0, now_ms).await?;
        }
        Ok(found)
    }

    /// Returns the name of a session: the one given, that of the environment, or our own.
    fn session_name<'a>(&'a self, given: &'a str) -> &'a str {
        let names = [given, self.environment.session_name.as_str()];
        let given = names.into_iter().find(|name| !name.is_empty());
        given.unwrap_or(SESSION_NAME)
    }

    /// Asks for the credentials of a role.
    async fn assume(
        &self,
        role: &Role,
        with: &Credentials,
        now_ms: i64,
    ) -> Result<(Credentials, i64), NetError> {
        let mut form = vec![
            ("Action", "AssumeRole"),
            ("RoleArn", &role.arn),
            ("RoleSessionName", self.session_name(&role.session_name)),
        ];
        if !role.external_id.is_empty() {
            form.push(("ExternalId", &role.external_id));
        }
        let duration = role
            .duration_seconds
            .filter(|seconds| *seconds > SHORTEST_SESSION_SECONDS);
        let duration = duration.map(|seconds| seconds.to_string());
        if let Some(duration) = &duration {
            form.push(("DurationSeconds", duration));
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
        self.ask(&form, Some(with), now_ms).await
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
            return Err(no_token(format!("{}: {code}", status_text(status))));
        }
        let text = |name: &str| element(&answer, name).unwrap_or_default();
        let [id, secret, token] = ["AccessKeyId", "SecretAccessKey", "SessionToken"].map(text);
        let found = Credentials::new(id, secret, token);
        let credentials = found.ok_or_else(|| no_token("the answer has no credentials"))?;
        Ok((credentials, until_ms(text("Expiration"), now_ms)))
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

/// Decides where credentials come from.
fn plan(config: &SigV4Config, environment: &AwsEnvironment) -> Result<Plan, NetError> {
    let mut plan = base_plan(config, environment)?;
    if !config.role_arn.is_empty() {
        plan.roles.push(Role {
            arn: config.role_arn.clone(),
            external_id: config.external_id.clone(),
            session_name: config.session_name.clone(),
            tags: config.tags.clone(),
            duration_seconds: None,
        });
    }
    Ok(plan)
}

fn base_plan(config: &SigV4Config, environment: &AwsEnvironment) -> Result<Plan, NetError> {
    let alone = |source: Source| Plan {
        source,
        roles: Vec::new(),
    };
    if !config.access_key.is_empty() {
        return Ok(alone(Source::Fixed(Credentials {
            id: config.access_key.clone(),
            secret: config.secret_key.clone(),
            token: Secret::default(),
        })));
    }
    // A profile of the configuration is meant before everything in the environment.
    if config.profile.is_empty() {
        if let Some(keys) = Credentials::of_environment(environment) {
            return Ok(alone(Source::Fixed(keys)));
        }
        if let Some(token) = &environment.web_identity_file {
            if environment.role_arn.is_empty() {
                return Err(invalid("role ARN is not set"));
            }
            return Ok(alone(Source::WebIdentity {
                token: token.clone(),
                role_arn: environment.role_arn.clone(),
                session_name: String::new(),
            }));
        }
    }
    Profiles::read(environment)?.plan(profile(config, environment), environment)
}

/// Returns the name of the profile that is meant, which may be empty.
pub(super) fn profile<'a>(config: &'a SigV4Config, environment: &'a AwsEnvironment) -> &'a str {
    match config.profile.as_str() {
        "" => &environment.profile,
        profile => profile,
    }
}

/// Returns the text of the first element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let begin = format!("<{name}>");
    let from = xml.find(&begin)? + begin.len();
    let rest = xml.get(from..)?;
    rest.get(..rest.find("</")?)
}
