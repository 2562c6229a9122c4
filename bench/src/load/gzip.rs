//! Gzip as servers and pushers use it, into reused memory; and decompression.

use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use std::io;

/// Maximum length of decompressed text.
const LONGEST: usize = 4 << 30;

/// Compresses one text after another.
pub(crate) struct Gzip {
    compressor: Compressor,
    packed: Vec<u8>,
}

impl Gzip {
    /// Compresses at a level from 1, which is fast, to 12.
    pub(crate) fn new(level: i32) -> Self {
        Self {
            compressor: Compressor::new(CompressionLvl::new(level).unwrap_or_default()),
            packed: Vec::new(),
        }
    }

    /// Returns a text compressed.
    pub(crate) fn pack(&mut self, text: &[u8]) -> &[u8] {
        self.packed
            .resize(self.compressor.gzip_compress_bound(text.len()), 0);
        let length = self.compressor.gzip_compress(text, &mut self.packed);
        self.packed
            .truncate(length.expect("the bound is an upper one"));
        &self.packed
    }
}

/// Decompresses gzip of unknown length.
pub(crate) fn gunzip(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut text = vec![0; (packed.len() * 8).max(1 << 16)];
    loop {
        match Decompressor::new().gzip_decompress(packed, &mut text) {
            Ok(length) => {
                text.truncate(length);
                return Ok(text);
            }
            Err(DecompressionError::InsufficientSpace) if text.len() < LONGEST => {
                text.resize(text.len() * 2, 0);
            }
            Err(e) => return Err(io::Error::other(e)),
        }
    }
}

#[cfg(test)]
mod tests;
