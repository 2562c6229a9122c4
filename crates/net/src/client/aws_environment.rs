//! What AWS' tools take from the environment.
//!
//! Invariant: it is read by the caller, and only compared or used to find credentials here.

use std::path::PathBuf;

use crate::secret::Secret;

/// Address at which a container of ECS asks for the credentials of its task.
const CONTAINER_HOST: &str = "http://169.254.170.2";
/// Addresses of the metadata service of EC2 machines.
const METADATA_IPV4: &str = "http://169.254.169.254";
const METADATA_IPV6: &str = "http://[fd00:ec2::254]";

/// Variables of the environment that AWS' tools read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsEnvironment {
    pub(super) id: String,
    pub(super) secret: Secret,
    pub(super) token: Secret,
    pub(super) region: String,
    pub(super) profile: String,
    /// The file that `aws configure` writes keys to.
    pub(super) credentials_file: Option<PathBuf>,
    /// The file that `aws configure` writes everything else to.
    pub(super) config_file: Option<PathBuf>,
    pub(super) role_arn: String,
    pub(super) session_name: String,
    pub(super) web_identity_file: Option<PathBuf>,
    pub(super) sts_url: String,
    pub(super) container: ContainerEnvironment,
    pub(super) metadata: MetadataEnvironment,
}

/// Where the task of a container gets its credentials.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ContainerEnvironment {
    /// Empty without such a service.
    pub(super) url: String,
    /// Whether only the container's own network may be asked at `url`: it was given as a whole.
    pub(super) is_restricted: bool,
    pub(super) token: Secret,
    pub(super) token_file: Option<PathBuf>,
}

/// The metadata service of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MetadataEnvironment {
    pub(super) url: String,
    pub(super) is_disabled: bool,
    /// Whether requests without a token of their own are out of the question.
    pub(super) requires_token: bool,
}

impl AwsEnvironment {
    /// Reads the variables with `variable`.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).unwrap_or_default();
        let either = |first: &str, second: &str| match text(first) {
            empty if empty.is_empty() => text(second),
            text => text,
        };
        let path = |name: &str| {
            let path = variable(name).filter(|path| !path.is_empty());
            path.map(PathBuf::from)
        };
        let is_true = |name: &str| text(name).eq_ignore_ascii_case("true");
        let home = |file: &str| path("HOME").map(|home| home.join(".aws").join(file));
        let relative = text("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let is_relative = !relative.is_empty();
        Self {
            id: either("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"),
            secret: Secret::new(either("AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY")),
            token: Secret::new(text("AWS_SESSION_TOKEN")),
            region: either("AWS_REGION", "AWS_DEFAULT_REGION"),
            profile: either("AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
            credentials_file: path("AWS_SHARED_CREDENTIALS_FILE").or_else(|| home("credentials")),
            config_file: path("AWS_CONFIG_FILE").or_else(|| home("config")),
            role_arn: text("AWS_ROLE_ARN"),
            session_name: text("AWS_ROLE_SESSION_NAME"),
            web_identity_file: path("AWS_WEB_IDENTITY_TOKEN_FILE"),
            sts_url: either("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"),
            container: ContainerEnvironment {
                url: if is_relative {
                    format!("{CONTAINER_HOST}{relative}")
                } else {
                    text("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                },
                is_restricted: !is_relative,
                token: Secret::new(text("AWS_CONTAINER_AUTHORIZATION_TOKEN")),
                token_file: path("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
            },
            metadata: MetadataEnvironment {
                url: match text("AWS_EC2_METADATA_SERVICE_ENDPOINT") {
                    url if !url.is_empty() => url,
                    _ if text("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")
                        .eq_ignore_ascii_case("IPv6") =>
                    {
                        METADATA_IPV6.to_owned()
                    }
                    _ => METADATA_IPV4.to_owned(),
                },
                is_disabled: is_true("AWS_EC2_METADATA_DISABLED"),
                requires_token: is_true("AWS_EC2_METADATA_V1_DISABLED"),
            },
        }
    }
}
