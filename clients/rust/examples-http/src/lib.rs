//! Examples of `narthex-client` in HTTP servers: `cargo run -p narthex-client-http --example axum`, or `hyper`.
