//! What AWS' tools take from the environment.
//!
//! Invariant: it is read by the caller, and only compared or used to find credentials here.

use std::path::PathBuf;

use crate::secret::Secret;

/// Variables of the environment that AWS' tools read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsEnvironment {
    pub(super) id: String,
    pub(super) secret: Secret,
    pub(super) token: Secret,
    pub(super) region: String,
    pub(super) profile: String,
    pub(super) credentials_file: Option<PathBuf>,
    pub(super) role_arn: String,
    pub(super) session_name: String,
    pub(super) web_identity_file: Option<PathBuf>,
    pub(super) sts_url: String,
}

impl AwsEnvironment {
    /// Reads the variables with `variable`.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).unwrap_or_default();
        let either = |first: &str, second: &str| match text(first) {
            empty if empty.is_empty() => text(second),
            text => text,
        };
        let path = |name: &str| variable(name).filter(|path| !path.is_empty());
        let home = path("HOME").map(|home| PathBuf::from(home).join(".aws/credentials"));
        Self {
            id: text("AWS_ACCESS_KEY_ID"),
            secret: Secret::new(text("AWS_SECRET_ACCESS_KEY")),
            token: Secret::new(text("AWS_SESSION_TOKEN")),
            region: either("AWS_REGION", "AWS_DEFAULT_REGION"),
            profile: text("AWS_PROFILE"),
            credentials_file: path("AWS_SHARED_CREDENTIALS_FILE")
                .map(PathBuf::from)
                .or(home),
            role_arn: text("AWS_ROLE_ARN"),
            session_name: text("AWS_ROLE_SESSION_NAME"),
            web_identity_file: path("AWS_WEB_IDENTITY_TOKEN_FILE").map(PathBuf::from),
            sts_url: either("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"),
        }
    }
}
