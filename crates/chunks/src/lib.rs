//! Codecs for columns of samples.
