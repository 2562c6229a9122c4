//! The web configuration of Prometheus' exporter-toolkit: TLS, users, headers, a rate limit.
//!
//! The file is checked at every connection and every request, so a change needs no restart. As in the toolkit, two
//! things are fixed at the start: whether TLS is used at all, and the rate limit.
//!
//! Invariant: while the file is invalid, every request is rejected.

mod auth;
mod config;
mod rate_limit;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};

use crate::error::{NetError, invalid};
use crate::file_cache::{Rebuilt, TextSource};
use crate::respond::respond_error;
use crate::tls::server::ServerTls;
use auth::Authenticator;
pub use config::WebConfig;
pub(crate) use config::fuzz_parse;
use rate_limit::Bucket;

/// A web configuration in use.
#[derive(Debug)]
pub(crate) struct Web {
    path: PathBuf,
    file: Rebuilt<Loaded, 1>,
    users: Authenticator,
    bucket: Option<Bucket>,
    tls: bool,
}

/// Contents of one version of the file.
#[derive(Debug)]
struct Loaded {
    config: WebConfig,
    headers: HeaderMap,
    tls: Option<ServerTls>,
}

impl WebConfig {
    /// Reads a file, and the certificates and keys it refers to, as a server would at its start.
    ///
    /// # Errors
    /// Fails if a server could not start with it.
    pub fn check_file(path: &Path) -> Result<(), NetError> {
        Web::open(path).map(drop)
    }
}

impl Web {
    /// Reads the file, and the certificates and keys it refers to.
    pub(crate) fn open(path: &Path) -> Result<Self, NetError> {
        let text = TextSource::new("", Some(path), "web configuration");
        let web = Self {
            path: path.to_owned(),
            file: Rebuilt::new([text]),
            users: Authenticator::new()?,
            bucket: None,
            tls: false,
        };
        let loaded = web.load()?;
        if let Some(tls) = &loaded.tls {
            tls.current()?;
        }
        Ok(Self {
            bucket: loaded.config.rate_limit().map(Bucket::new),
            tls: loaded.tls.is_some(),
            ..web
        })
    }

    pub(crate) fn is_https(&self) -> bool {
        self.tls
    }

    /// Returns the TLS configuration of the next connection.
    pub(crate) fn tls(&self) -> Result<Arc<rustls::ServerConfig>, NetError> {
        let loaded = self.load()?;
        let tls = loaded.tls.as_ref();
        tls.ok_or_else(|| invalid("TLS config is not present"))?
            .current()
    }

    fn load(&self) -> Result<Arc<Loaded>, NetError> {
        let parse = |[text]: [Option<&str>; 1]| self.parse(text.unwrap_or_default());
        let (loaded, _is_new) = self.file.current(parse)?;
        Ok(loaded)
    }

    fn parse(&self, text: &str) -> Result<Loaded, NetError> {
        let config = WebConfig::parse(text, &self.path)?;
        let mut headers = HeaderMap::new();
        for (name, value) in config.headers() {
            let unusable = || invalid(format!("invalid value for {name}"));
            let parsed_name = HeaderName::try_from(name).map_err(|_invalid| unusable())?;
            let value = HeaderValue::try_from(value).map_err(|_invalid| unusable())?;
            headers.insert(parsed_name, value);
        }
        let tls = config.server_tls()?;
        Ok(Loaded {
            config,
            headers,
            tls,
        })
    }
}

/// Passes a request on, or rejects it.
pub(crate) async fn guard(
    State(web): State<Arc<Web>>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let loaded = match web.load() {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::error!(%error, "Unable to parse configuration.");
            return refuse(StatusCode::INTERNAL_SERVER_ERROR);
        }
    };
    if web
        .bucket
        .as_ref()
        .is_some_and(|bucket| !bucket.take_token())
    {
        return refuse(StatusCode::TOO_MANY_REQUESTS);
    }
    let users = loaded.config.users();
    let mut response = if users.is_empty() || web.users.admits(users, request.headers()).await {
        next.run(request).await
    } else {
        let mut response = refuse(StatusCode::UNAUTHORIZED);
        let basic = HeaderValue::from_static("Basic");
        response.headers_mut().insert(WWW_AUTHENTICATE, basic);
        response
    };
    for (name, value) in &loaded.headers {
        // A handler's own header takes precedence, as in the toolkit.
        let headers = response.headers_mut();
        if !headers.contains_key(name) {
            headers.insert(name, value.clone());
        }
    }
    response
}

fn refuse(status: StatusCode) -> Response {
    respond_error(status, status.canonical_reason().unwrap_or_default())
}
