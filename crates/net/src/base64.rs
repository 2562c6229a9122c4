//! Base64 (RFC 4648), for credentials, tokens and kubeconfigs.
//!
//! Invariant: decoding takes exactly what encoding makes: padded, without white space, with zeros
//! behind the last byte.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes with padding.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    let mut out = write(bytes.as_ref(), STANDARD);
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

/// Encodes for URLs, without padding.
pub(crate) fn encode_url(bytes: impl AsRef<[u8]>) -> String {
    write(bytes.as_ref(), URL_SAFE)
}

/// Decodes padded base64; none for anything else.
#[must_use]
pub fn decode_base64(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    let text = text.as_ref();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.strip_suffix(b"=").unwrap_or(text);
    let digits = digits.strip_suffix(b"=").unwrap_or(digits);
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for digit in group {
            bits = bits << 6 | u32::try_from(STANDARD.iter().position(|d| d == digit)?).ok()?;
        }
        // What a short group lacks is zeros, and nothing else may stand there.
        let (bits, bytes) = match group.len() {
            4 => (bits, 3),
            3 => (bits << 6, 2),
            2 => (bits << 12, 1),
            _ => return None,
        };
        let [_, all @ ..] = bits.to_be_bytes();
        let (kept, rest) = all.split_at(bytes);
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(kept);
    }
    Some(out)
}

fn write(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut all = [0; 4];
        for (to, from) in all.iter_mut().skip(1).zip(group) {
            *to = *from;
        }
        let bits = u32::from_be_bytes(all);
        for at in 0..=group.len() {
            let digit = bits >> (18 - 6 * at) & 63;
            out.push(char::from(alphabet[digit as usize]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §10.
    #[test]
    fn the_standards_examples() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(encode_url(bytes), text.trim_end_matches('='));
            assert_eq!(decode_base64(text).expect(text), bytes.as_bytes());
        }
        assert_eq!(encode([0xfb, 0xff]), "+/8=");
        assert_eq!(encode_url([0xfb, 0xff]), "-_8");
        for bad in [
            "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Z g=", "Zg==Zg==", "-_8=",
        ] {
            assert_eq!(decode_base64(bad), None, "{bad}");
        }
    }
}
