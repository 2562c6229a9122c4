//! Users with bcrypt hashes.
//!
//! Invariant: the time of a rejection does not reveal whether the user exists, and no password is kept: earlier
//! checks are found by a digest under a key of this process.

use crate::sync::Whole as _;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use http::HeaderMap;

use crate::basic_auth::credentials;
use crate::error::NetError;
use crate::secret::Secret;
use crate::tls::crypto::{random_bytes, sha256};

/// Number of results cached; the toolkit's value.
const CACHE: usize = 100;
/// Hash compared with an unknown user's password; its cost is replaced by that of known users.
const NOBODY_SALT_AND_HASH: &str = "QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

/// Checks passwords, one at a time, and caches the results.
#[derive(Debug)]
pub(super) struct Authenticator {
    key: Key,
    answers: Mutex<HashMap<Vec<u8>, bool>>,
    /// Held while a password is checked, which takes a whole CPU, even after the client disconnected.
    checking: Arc<tokio::sync::Mutex<()>>,
}

struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl Authenticator {
    pub(super) fn new() -> Result<Self, NetError> {
        Ok(Self {
            key: Key(random_bytes()?),
            answers: Mutex::default(),
            checking: Arc::default(),
        })
    }

    /// Returns whether a request is from one of the users.
    pub(super) async fn admits(
        &self,
        users: &BTreeMap<String, Secret>,
        headers: &HeaderMap,
    ) -> bool {
        let Some((user, password)) = credentials(headers) else {
            return false;
        };
        let known = users.get(&user);
        let hash = known.map_or_else(|| nobody(users), |hash| hash.expose().to_owned());
        let digest = self.digest(&[user.as_bytes(), hash.as_bytes(), &password]);
        if let Some(answer) = self.recall(&digest) {
            return answer && known.is_some();
        }
        let turn = Arc::clone(&self.checking).lock_owned().await;
        // A request that waited behind the same check finds its result.
        if let Some(answer) = self.recall(&digest) {
            return answer && known.is_some();
        }
        let checked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            bcrypt::verify(password, &hash)
        });
        let matches = matches!(checked.await, Ok(Ok(true)));
        let answer = matches && known.is_some();
        self.remember(digest, answer);
        answer
    }

    fn digest(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut text = self.key.0.to_vec();
        for part in parts {
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part);
        }
        sha256().hash(&text).as_ref().to_vec()
    }

    fn recall(&self, digest: &[u8]) -> Option<bool> {
        let answers = self.answers.lock().whole();
        answers.get(digest).copied()
    }

    fn remember(&self, digest: Vec<u8>, answer: bool) {
        let mut answers = self.answers.lock().whole();
        if answers.len() >= CACHE {
            // The map's order is random: drop an arbitrary tenth.
            let gone: Vec<_> = answers.keys().take(CACHE / 10).cloned().collect();
            for digest in gone {
                answers.remove(&digest);
            }
        }
        answers.insert(digest, answer);
    }
}

/// Returns a hash without a password, as expensive to check as the most expensive of the users'.
fn nobody(users: &BTreeMap<String, Secret>) -> String {
    let costs = users.values().filter_map(|hash| cost(hash.expose()).ok());
    format!(
        "$2y${:02}${NOBODY_SALT_AND_HASH}",
        costs.max().unwrap_or(10)
    )
}

/// Returns a bcrypt hash's cost.
pub(super) fn cost(hash: &str) -> Result<u32, String> {
    if hash.len() < 59 {
        return Err("crypto/bcrypt: hashedSecret too short to be a bcrypted password".to_owned());
    }
    let malformed = || "crypto/bcrypt: not a bcrypt hash ($2a$, $2b$ or $2y$)".to_owned();
    let mut parts = hash.split('$');
    let (before, version, cost) = (parts.next(), parts.next(), parts.next());
    if before != Some("") || !matches!(version, Some("2a" | "2b" | "2x" | "2y")) {
        return Err(malformed());
    }
    let cost: u32 = cost
        .and_then(|cost| cost.parse().ok())
        .ok_or_else(malformed)?;
    if (4..=31).contains(&cost) && hash.len() == 60 {
        Ok(cost)
    } else {
        Err(malformed())
    }
}

#[cfg(test)]
mod tests;
