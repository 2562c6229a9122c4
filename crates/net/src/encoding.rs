//! The content encodings that bodies may have.

use std::fmt;

/// Compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Encoding {
    /// No compression.
    #[default]
    Identity,
    /// RFC 1952, one or several members.
    Gzip,
    /// RFC 1950 (zlib), or the bare RFC 1951 stream that some senders use.
    Deflate,
    /// RFC 8878, one or several frames, with windows of at most 8 MiB (RFC 9659).
    Zstd,
}

impl Encoding {
    /// Returns the name in headers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
