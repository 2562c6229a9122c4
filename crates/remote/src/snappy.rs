//! Decompression of snappy blocks under a cap.
//!
//! **Invariant:** a length in the header that the body cannot reach reserves no memory.

use crate::error::RemoteError;

/// Upper bound on the expansion of any element: three bytes copy up to 64.
const MOST_EXPANSION: usize = 64 / 3 + 1;

/// Returns the decompressed length of a body.
///
/// # Errors
/// Fails if it is longer than `limit_bytes` or cannot be reached, or the body is not snappy.
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

/// Decompresses `body` into `out`, reusing its memory.
///
/// # Errors
/// Fails if the result would be longer than `limit_bytes` or the body is not snappy.
pub(crate) fn decompress(
    body: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), RemoteError> {
    let len = announced(body, limit_bytes)?;
    // The buffer's contents are overwritten, so only its growth is zeroed.
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
        // A header that announces 32 MiB, followed by nothing.
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
