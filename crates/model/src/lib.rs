//! Labels, matchers, samples, schemas, frames and the storage traits.
