//! Decompressing snappy blocks under a cap.
//!
//! **Invariant:** a length that the header announces but the body cannot reach reserves nothing.

use crate::error::RemoteError;

/// No element of a block makes more out of its bytes: three bytes copy up to 64.
const MOST_EXPANSION: usize = 64 / 3 + 1;

/// Returns the length that a body will have.
///
/// # Errors
/// Fails when that is longer than `limit_bytes`, cannot be reached, or the body is not snappy.
pub(crate) fn announced(body: &[u8], limit_bytes: usize) -> Result<usize, RemoteError> {
    let len = snap::raw::decompress_len(body).map_err(|_| RemoteError::Snappy)?;
    if len > limit_bytes {
        return Err(RemoteError::Expands { limit_bytes });
    }
    if len / MOST_EXPANSION > body.len() {
        return Err(RemoteError::Snappy);
    }
    Ok(len)
}

/// Decompresses `body` into `out`, which keeps its memory for the next one.
///
/// # Errors
/// Fails when the result would be longer than `limit_bytes` or the body is not snappy.
pub(crate) fn decompress(
    body: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), RemoteError> {
    let len = announced(body, limit_bytes)?;
    // What the buffer had is overwritten, so only what it grows by is zeroed.
    out.resize(len, 0);
    let written = snap::raw::Decoder::new()
        .decompress(body, out)
        .map_err(|_| RemoteError::Snappy)?;
    out.truncate(written);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_decompressed_under_the_cap() {
        let plain = vec![b'x'; 100_000];
        let body = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
        let mut out = Vec::new();
        decompress(&body, 100_000, &mut out).unwrap();
        assert_eq!(out, plain);
        let error = decompress(&body, 99_999, &mut out).unwrap_err();
        assert_eq!(
            error.to_string(),
            "decoded size exceeds the 99999 bytes limit"
        );
    }

    #[test]
    fn announced_lengths_reserve_nothing() {
        // A header that announces 32 MiB, and nothing behind it.
        let mut out = Vec::new();
        let bomb = [0x80, 0x80, 0x80, 0x10, 0x00];
        assert!(matches!(
            decompress(&bomb, 32 << 20, &mut out),
            Err(RemoteError::Snappy)
        ));
        assert_eq!(out.capacity(), 0);
        assert!(matches!(
            decompress(&[], 32 << 20, &mut out),
            Err(RemoteError::Snappy)
        ));
    }
}
