//! `Basic` credentials (RFC 7617), written by clients and read by servers.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::secret::Secret;

/// Returns the header's value for a user and a password.
pub(crate) fn basic(user: &[u8], password: &[u8]) -> Secret {
    let token = BASE64_STANDARD.encode([user, b":", password].concat());
    Secret::new(format!("Basic {token}"))
}

/// Parses `Basic` credentials.
pub(crate) fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = BASE64_STANDARD.decode(token).ok()?;
    let colon = text.iter().position(|b| *b == b':')?;
    let user = String::from_utf8(text.get(..colon)?.to_vec()).ok()?;
    Some((user, text.get(colon + 1..)?.to_vec()))
}
