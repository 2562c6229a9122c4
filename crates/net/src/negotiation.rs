//! Negotiation of content encodings.
//!
//! Invariant: gzip and zstd are chosen only if the request's `Accept-Encoding` gives them a weight above zero and at
//! least that of `identity`; anything malformed counts as not accepted.

use http::header::{ACCEPT_ENCODING, HeaderMap};

use crate::encoding::Encoding;
use crate::error::NetError;

impl Encoding {
    /// Parses a `Content-Encoding` value; empty means identity.
    ///
    /// # Errors
    /// Fails on any other or combined encoding, naming it.
    pub fn parse(value: &[u8]) -> Result<Self, NetError> {
        let name = value.trim_ascii();
        if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
            Ok(Self::Identity)
        } else if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") {
            Ok(Self::Gzip)
        } else if name.eq_ignore_ascii_case(b"deflate") {
            Ok(Self::Deflate)
        } else if name.eq_ignore_ascii_case(b"zstd") {
            Ok(Self::Zstd)
        } else {
            let shown = &name[..name.len().min(64)];
            Err(NetError::UnknownEncoding {
                encoding: String::from_utf8_lossy(shown).into_owned(),
            })
        }
    }
}

/// Returns whether the response to a request with these headers may use gzip.
#[must_use]
pub fn accepts_gzip(request_headers: &HeaderMap) -> bool {
    Weights::read(header_values(request_headers)).accept(Encoding::Gzip)
}

/// Returns the best encoding for the response to a request with these headers.
///
/// Prefers zstd to gzip at equal weights: it is smaller and faster.
#[must_use]
pub fn choose_encoding(request_headers: &HeaderMap) -> Encoding {
    let weights = Weights::read(header_values(request_headers));
    if weights.accept(Encoding::Zstd) && weights.zstd >= weights.gzip {
        Encoding::Zstd
    } else if weights.accept(Encoding::Gzip) {
        Encoding::Gzip
    } else {
        Encoding::Identity
    }
}

fn header_values(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    values.map(|v| v.as_bytes())
}

/// The client's weight for each encoding, in thousandths (RFC 9110 §12.4.2 allows three decimals).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weights {
    gzip: u16,
    zstd: u16,
    identity: u16,
}

impl Weights {
    pub(crate) fn read<'a>(header_values: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut gzip, mut zstd, mut identity, mut any) = (None, None, None, None);
        for element in header_values.flat_map(|v| v.split(|b| *b == b',')) {
            let mut parts = element.split(|b| *b == b';');
            let coding = parts.next().unwrap_or_default().trim_ascii();
            let Some(weight) = weight_permille(parts) else {
                continue;
            };
            if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
                gzip = gzip.max(Some(weight));
            } else if coding.eq_ignore_ascii_case(b"zstd") {
                zstd = zstd.max(Some(weight));
            } else if coding.eq_ignore_ascii_case(b"identity") {
                identity = identity.max(Some(weight));
            } else if coding == b"*" {
                any = any.max(Some(weight));
            }
        }
        // "*" covers encodings not named, but its senders mean gzip. An unnamed identity is acceptable but not
        // preferred.
        Self {
            gzip: gzip.or(any).unwrap_or(0),
            zstd: zstd.unwrap_or(0),
            identity: identity.unwrap_or(0),
        }
    }

    fn accept(self, encoding: Encoding) -> bool {
        let weight = match encoding {
            Encoding::Gzip => self.gzip,
            Encoding::Zstd => self.zstd,
            Encoding::Identity | Encoding::Deflate => return false,
        };
        weight > 0 && weight >= self.identity
    }
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
