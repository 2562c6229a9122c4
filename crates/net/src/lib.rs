//! HTTP server and client, limits and decompression: the only crate that uses hyper.
//!
//! **Is**: bound listeners and a [`Server`] with graceful drain for an axum [`Router`] that every other crate mounts
//! its handlers on; responses compressed if the client accepts it ([`respond`]); request bodies under a size limit
//! ([`read_wire_body`]); a [`Client`] for many keep-alive targets; [`decompress`]; the [`StopToken`] that ends all tasks
//! of the process, and the supervision of their panics ([`catch_panic`]).
//!
//! TLS and credentials on both sides: an [`HttpClientConfig`] for requests, a web configuration for
//! the server ([`Server::with_web_config`]).
//!
//! **Is not**: routes, JSON envelopes, retries.
//!
//! **Limits**: HTTP/1.1 only, TLS 1.2 and 1.3 only. Every read has a deadline and a size; all of them are fields of
//! [`ServerConfig`], [`ClientConfig`] and [`Request`].
//!
//! ```
//! use narthex_net::{Client, ClientConfig, Request, Router, Server, ServerConfig, Stopper, Url};
//! use narthex_net::{axum::routing::get, respond_text};
//!
//! # async fn example() -> Result<(), narthex_net::NetError> {
//! let (stopper, stop) = Stopper::new();
//! let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default()).await?;
//! let address = server.local_addrs()[0];
//! let router = Router::new()
//!     .route("/hello", get(|headers: http::HeaderMap| async move { respond_text("hi\n", &headers) }));
//! let serving = tokio::spawn(server.serve(router, stop));
//!
//! let client = Client::new(ClientConfig::default());
//! let request = Request::new(Url::parse(&format!("http://{address}/hello"))?);
//! let mut body = Vec::new();
//! client.get(&request, &mut body).await?.require_ok()?;
//! assert_eq!(body, b"hi\n");
//!
//! stopper.stop();
//! assert_eq!(serving.await.expect("no panic").cut_requests_total, 0);
//! # Ok(()) }
//! ```

mod address;
mod allowance;
mod basic_auth;
mod blocking;
mod body;
mod client;
mod compress;
mod deflate;
mod encoding;
mod error;
mod file_cache;
#[doc(hidden)]
pub mod fuzz;
mod gate;
pub mod glob;
mod html;
mod inflate;
mod listing;
mod metric_table;
mod metrics;
mod negotiation;
mod page_compressor;
mod panics;
pub mod percent;
mod refusal;
mod respond;
mod secret;
mod server;
mod stop;
pub mod sync;
mod tls;
mod url;
mod web;
mod yaml;

pub use axum;
pub use axum::Router;

pub use allowance::{Allowance, Unlimited};
pub use blocking::{run_long, yield_now};
pub use body::{BodyPieces, read_wire_body, read_wire_body_within};
pub use client::aws_environment::AwsEnvironment;
pub use client::config::{
    Authorization, BasicAuth, GRANT_JWT_BEARER, HeaderSources, HttpClientConfig, OAuth2,
    ProxyConfig, SigV4Config, TlsConfig, TlsVersion, TokenRequest,
};
pub use client::proxy::ProxyEnvironment;
pub use client::proxy_url::ProxyUrl;
pub use client::request::{ClientConfig, Request, ResponseHead};
pub use client::sigv4::SigV4;
pub use client::{Client, ClientStats, StreamedResponse};
pub use compress::compress;
pub use deflate::GzipStream;
pub use encoding::Encoding;
pub use error::NetError;
pub use gate::{Gate, Pass, Refused};
pub use html::escape_html;
pub use inflate::{decompress, decompress_within};
pub use listing::{Comma, Listing, ListingResponse};
pub use metrics::{instrument, register_metrics};
pub use negotiation::{accepts_gzip, choose_encoding};
pub use page_compressor::PageCompressor;
pub use panics::{Panicked, catch_panic, catch_panic_in, keep_running, log_panics, panics_total};
pub use refusal::Refusal;
pub use respond::{
    BodySender, COMPRESS_FROM_BYTES, ClientGone, body_channel, body_of, gzip, keep_until_sent,
    respond, respond_encoded, respond_error, respond_json, respond_pieces, respond_text, zstd,
};
pub use secret::Secret;
pub use server::{ServeReport, Server, ServerConfig};
pub use stop::{StopToken, Stopper};
pub use url::Url;
pub use web::WebConfig;
pub use yaml::read_yaml;
