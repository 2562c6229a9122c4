//! Content encodings: their names, and whether a client accepts gzip.
//!
//! Invariant: gzip is chosen only when the request's `Accept-Encoding` gives it a weight above zero
//! and at least that of `identity`; anything malformed counts as not accepted.

use std::fmt;

use http::header::{ACCEPT_ENCODING, HeaderMap};

use crate::error::NetError;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Encoding {
    /// Not at all.
    #[default]
    Identity,
    /// RFC 1952, one or several members.
    Gzip,
    /// RFC 1950 (zlib), or the bare RFC 1951 stream that some senders mean by it.
    Deflate,
}

impl Encoding {
    /// Returns the encoding a `Content-Encoding` value names; empty means identity.
    ///
    /// # Errors
    /// Names any other or combined encoding.
    pub fn parse(value: &[u8]) -> Result<Self, NetError> {
        let name = value.trim_ascii();
        if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
            Ok(Self::Identity)
        } else if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") {
            Ok(Self::Gzip)
        } else if name.eq_ignore_ascii_case(b"deflate") {
            Ok(Self::Deflate)
        } else {
            let shown = &name[..name.len().min(64)];
            Err(NetError::UnknownEncoding {
                encoding: String::from_utf8_lossy(shown).into_owned(),
            })
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        })
    }
}

/// Returns whether the answer to a request with these headers may be gzip.
#[must_use]
pub fn accepts_gzip(request_headers: &HeaderMap) -> bool {
    let values = request_headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .map(|v| v.as_bytes());
    choose_gzip(values)
}

/// Weights are thousandths (RFC 9110 §12.4.2 allows three decimals).
pub(crate) fn choose_gzip<'a>(header_values: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for element in header_values.flat_map(|v| v.split(|b| *b == b',')) {
        let mut parts = element.split(|b| *b == b';');
        let coding = parts.next().unwrap_or_default().trim_ascii();
        let Some(weight) = weight_permille(parts) else {
            continue;
        };
        if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
            gzip = gzip.max(Some(weight));
        } else if coding.eq_ignore_ascii_case(b"identity") {
            identity = identity.max(Some(weight));
        } else if coding == b"*" {
            any = any.max(Some(weight));
        }
    }
    // "*" speaks for what is not named; an unnamed identity is acceptable but preferred by nobody.
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

fn weight_permille<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    let mut weight = 1000;
    for parameter in parameters {
        let parameter = parameter.trim_ascii();
        if let [b'q' | b'Q', b'=', value @ ..] = parameter {
            weight = parse_permille(value.trim_ascii())?;
        }
    }
    Some(weight)
}

fn parse_permille(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut permille = u16::from(*whole - b'0') * 1000;
    for (digit, scale) in decimals.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        permille += u16::from(*digit - b'0') * scale;
    }
    (permille <= 1000).then_some(permille)
}

#[cfg(test)]
mod tests;
