//! The files of profiles that AWS' tools share: where a profile's credentials come from.
//!
//! Invariant: nothing that a profile asks for is passed over in silence: what is not supported is refused by name.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use super::source::{Credentials, Plan, Role, Source};
use crate::client::aws_environment::AwsEnvironment;
use crate::error::{NetError, invalid};
use crate::secret::Secret;

/// The profile that is meant without a name.
const DEFAULT: &str = "default";

/// Keys of profiles whose credentials come in a way that is not supported.
const UNSUPPORTED: [&str; 4] = [
    "login_session",
    "sso_account_id",
    "sso_session",
    "sso_start_url",
];

/// The profiles of both files, the keys of each.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    profiles: BTreeMap<String, BTreeMap<String, Secret>>,
}

impl Profiles {
    /// Reads both files; a missing one has no profiles.
    ///
    /// # Errors
    /// Fails on a file that is there and cannot be read.
    pub(super) fn read(environment: &AwsEnvironment) -> Result<Self, NetError> {
        let mut all = Self::default();
        // The keys of the second file win.
        if let Some(path) = &environment.config_file {
            all.add(&text(path)?, true);
        }
        if let Some(path) = &environment.credentials_file {
            all.add(&text(path)?, false);
        }
        Ok(all)
    }

    /// Adds the profiles of a file, in one of the two ways of naming them.
    fn add(&mut self, text: &str, is_config: bool) {
        let mut profile: Option<&mut BTreeMap<String, Secret>> = None;
        for line in text.lines() {
            // An indented line belongs to the one before it.
            if line.starts_with([' ', '\t', '#', ';']) {
                continue;
            }
            let line = line.trim();
            if let Some(rest) = line.strip_prefix('[') {
                let name = rest.split(']').next().unwrap_or_default().trim();
                let name = match name.strip_prefix("profile") {
                    Some(rest) if rest.starts_with([' ', '\t']) => {
                        Some(rest.trim().trim_matches(['"', '\'']))
                    }
                    _ if !is_config || name == DEFAULT => Some(name),
                    _ => None,
                };
                profile = name.map(|name| self.profiles.entry(name.to_owned()).or_default());
                continue;
            }
            if let (Some(profile), Some((key, value))) = (&mut profile, line.split_once('=')) {
                let value = [" #", " ;"].iter().fold(value, |value, mark| {
                    value.split(mark).next().unwrap_or_default()
                });
                let key = key.trim().to_ascii_lowercase();
                profile.insert(key, Secret::new(value.trim()));
            }
        }
    }

    /// Returns the region of a profile, or nothing.
    pub(super) fn region(&self, name: &str) -> &str {
        self.profiles
            .get(name_or_default(name))
            .map_or("", |keys| value(keys, "region"))
    }

    /// Returns where the credentials of a profile come from; an empty name is that of the default, which may be missing.
    ///
    /// # Errors
    /// Fails on a profile that is missing, contradicts itself or needs what is not supported.
    pub(super) fn plan(&self, name: &str, environment: &AwsEnvironment) -> Result<Plan, NetError> {
        let empty = BTreeMap::new();
        let mut roles = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        let (mut at, mut may_be_missing) = (name_or_default(name), name.is_empty());
        let source = loop {
            let keys = match self.profiles.get(at) {
                Some(keys) => keys,
                None if may_be_missing => &empty,
                None => {
                    return Err(invalid(format!(
                        "failed to get shared config profile, {at}"
                    )));
                }
            };
            may_be_missing = false;
            // A profile that names itself, or one before it, gives its keys.
            let is_repeated = seen.contains(&at);
            let keys_of_its_own = keys_of(keys);
            if !seen.is_empty() && (is_repeated || keys_of_its_own.is_some()) {
                break keys_of_its_own
                    .map(Source::Fixed)
                    .ok_or_else(|| broken(at, "has no credentials"))?;
            }
            check(at, keys)?;
            let is_web_identity = has(keys, "web_identity_token_file");
            if has(keys, "role_arn") && !is_web_identity {
                roles.push(role(at, keys)?);
            }
            if has(keys, "source_profile") {
                seen.push(at);
                at = value(keys, "source_profile");
                continue;
            }
            if let Some(credentials) = keys_of_its_own {
                break Source::Fixed(credentials);
            }
            break match value(keys, "credential_source") {
                "" if is_web_identity => Source::WebIdentity {
                    token: value(keys, "web_identity_token_file").into(),
                    role_arn: value(keys, "role_arn").to_owned(),
                    session_name: value(keys, "role_session_name").to_owned(),
                },
                "" if has(keys, "credential_process") => {
                    Source::Process(value(keys, "credential_process").to_owned())
                }
                "" => Source::of_surroundings(environment)?,
                "Environment" => Credentials::of_environment(environment)
                    .map(Source::Fixed)
                    .ok_or_else(|| {
                        invalid("credential_source is Environment, which has no keys")
                    })?,
                "EcsContainer" => Source::of_container(environment)?,
                "Ec2InstanceMetadata" => Source::of_machine(environment)?,
                _ => {
                    return Err(invalid(
                        "credential_source values must be EcsContainer, Ec2InstanceMetadata, or Environment",
                    ));
                }
            };
        };
        // The last role is assumed first.
        roles.reverse();
        Ok(Plan { source, roles })
    }
}

fn text(path: &Path) -> Result<String, NetError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(invalid(format!(
            "unable to read {}: {error}",
            path.display()
        ))),
    }
}

fn name_or_default(name: &str) -> &str {
    if name.is_empty() { DEFAULT } else { name }
}

fn value<'a>(keys: &'a BTreeMap<String, Secret>, name: &str) -> &'a str {
    keys.get(name).map_or("", Secret::expose)
}

fn has(keys: &BTreeMap<String, Secret>, name: &str) -> bool {
    !value(keys, name).is_empty()
}

fn keys_of(keys: &BTreeMap<String, Secret>) -> Option<Credentials> {
    Credentials::new(
        value(keys, "aws_access_key_id"),
        value(keys, "aws_secret_access_key"),
        value(keys, "aws_session_token"),
    )
}

fn broken(profile: &str, reason: &str) -> NetError {
    invalid(format!("profile {profile:?} {reason}"))
}

/// Checks what a profile says of its credentials.
fn check(name: &str, keys: &BTreeMap<String, Secret>) -> Result<(), NetError> {
    let ways = [
        "source_profile",
        "credential_source",
        "web_identity_token_file",
    ];
    let given: Vec<&str> = ways.into_iter().filter(|way| has(keys, way)).collect();
    if let [way, _, ..] = given.as_slice() {
        return Err(broken(name, &format!("has {way} and another source")));
    }
    if let [way] = given.as_slice()
        && !has(keys, "role_arn")
    {
        return Err(broken(name, &format!("has {way}, which needs role_arn")));
    }
    if has(keys, "mfa_serial") && has(keys, "role_arn") {
        return Err(broken(name, "needs a token of a person: mfa_serial"));
    }
    // Keys and another profile come before these.
    let needs_more = given.is_empty() && keys_of(keys).is_none();
    match UNSUPPORTED.iter().find(|key| has(keys, key)) {
        Some(key) if needs_more => Err(broken(name, &format!("has {key}, which is not supported"))),
        _ => Ok(()),
    }
}

fn role(profile: &str, keys: &BTreeMap<String, Secret>) -> Result<Role, NetError> {
    let seconds = value(keys, "duration_seconds");
    let duration_seconds =
        match seconds {
            "" => None,
            text => Some(text.parse().map_err(|_not_a_number| {
                broken(profile, &format!("has duration_seconds {text:?}"))
            })?),
        };
    Ok(Role {
        arn: value(keys, "role_arn").to_owned(),
        external_id: value(keys, "external_id").to_owned(),
        session_name: value(keys, "role_session_name").to_owned(),
        tags: Vec::new(),
        duration_seconds,
    })
}
