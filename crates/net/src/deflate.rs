//! Our own deflate (RFC 1951), for text that is known to repeat: nothing has to be searched for.

pub(crate) mod code;
pub(crate) mod stream;
pub(crate) mod symbols;

pub use stream::GzipStream;
