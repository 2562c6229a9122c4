//! The places that credentials come from, as plain data.
//!
//! Invariant: a place that is certain to have none is an error, not a source.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::client::aws_environment::AwsEnvironment;
use crate::error::{NetError, invalid};
use crate::secret::Secret;

/// Lifetime of an answer that does not say it.
pub(super) const DEFAULT_LIFETIME_MS: i64 = 900_000;

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
pub(super) enum Source {
    Fixed(Credentials),
    /// A token in a file that stands for a role.
    WebIdentity {
        token: PathBuf,
        role_arn: String,
        session_name: String,
    },
    /// A program that writes them.
    Process(String),
    /// The service that `AwsEnvironment::container` describes.
    Container,
    /// The service that `AwsEnvironment::metadata` describes.
    Machine,
}

/// A source, and the roles that are assumed one with the other's credentials.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) roles: Vec<Role>,
}

/// A role to assume.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) external_id: String,
    pub(super) session_name: String,
    pub(super) tags: Vec<(String, String)>,
    pub(super) duration_seconds: Option<u64>,
}

impl Credentials {
    /// Returns credentials if both keys are there; only temporary ones have a token.
    pub(super) fn new(id: &str, secret: &str, token: &str) -> Option<Self> {
        (!id.is_empty() && !secret.is_empty()).then(|| Self {
            id: id.to_owned(),
            secret: Secret::new(secret),
            token: Secret::new(token),
        })
    }

    /// Returns the keys of the environment, if it has both.
    pub(super) fn of_environment(environment: &AwsEnvironment) -> Option<Self> {
        let AwsEnvironment {
            id, secret, token, ..
        } = environment;
        Self::new(id, secret.expose(), token.expose())
    }
}

/// Returns until when credentials are good, given the time that an answer says.
pub(super) fn until_ms(expiration: &str, now_ms: i64) -> i64 {
    let until: Option<Timestamp> = expiration.parse().ok();
    until.map_or(now_ms + DEFAULT_LIFETIME_MS, Timestamp::as_millisecond)
}

impl Source {
    /// Returns what is left when nothing names credentials: those of the container, else of the machine.
    ///
    /// # Errors
    /// Fails if neither may be asked.
    pub(super) fn of_surroundings(environment: &AwsEnvironment) -> Result<Self, NetError> {
        if environment.container.url.is_empty() {
            Self::of_machine(environment)
        } else {
            Ok(Self::Container)
        }
    }

    /// # Errors
    /// Fails outside of a container.
    pub(super) fn of_container(environment: &AwsEnvironment) -> Result<Self, NetError> {
        if environment.container.url.is_empty() {
            return Err(invalid(
                "EcsContainer was specified as the credential_source, but neither 'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI' or AWS_CONTAINER_CREDENTIALS_FULL_URI' was set",
            ));
        }
        Ok(Self::Container)
    }

    /// # Errors
    /// Fails if the environment says that the machine must not be asked.
    pub(super) fn of_machine(environment: &AwsEnvironment) -> Result<Self, NetError> {
        if environment.metadata.is_disabled {
            return Err(invalid(
                "no EC2 IMDS role found, access disabled to EC2 IMDS via client option, or \"AWS_EC2_METADATA_DISABLED\" environment variable",
            ));
        }
        Ok(Self::Machine)
    }
}

/// Reads a file.
///
/// # Errors
/// Fails, with its path, on one that cannot be read.
pub(super) fn read(path: &Path) -> Result<String, NetError> {
    std::fs::read_to_string(path)
        .map_err(|error| invalid(format!("unable to read {}: {error}", path.display())))
}
