//! A server that a command asks over HTTP.

use crate::{config, reload};
use http::{HeaderValue, header};
use narthex_net::{Client, HttpClientConfig, NetError, Request, ResponseHead, Url};
use std::{io, path::Path, time::Duration};

/// The status of an answer, and its body.
pub(crate) type Answer = (u16, Vec<u8>);

/// A server's address, and the client that reaches it.
pub(crate) struct ServerClient {
    pub(crate) client: Client,
    /// With its scheme, and without a slash at its end.
    pub(crate) address: String,
}

impl ServerClient {
    /// Returns a client with the settings of a file, for an address that may lack `http://`.
    ///
    /// # Errors
    /// Fails when the file or its settings cannot be used.
    pub(crate) fn open(address: &str, http_config: Option<&Path>) -> Result<Self, String> {
        let http = match http_config {
            Some(path) => config::load_http(path)
                .map_err(|error| format!("failed to load HTTP config file: {error}"))?,
            None => HttpClientConfig::default(),
        };
        let client = Client::with_http(reload::client_config(), http);
        let address = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        Ok(Self {
            client: client.map_err(|error| error.to_string())?,
            address: address.trim_end_matches('/').to_owned(),
        })
    }

    /// Returns a request for what is at `path` behind the address.
    ///
    /// # Errors
    /// Fails when that is no URL.
    pub(crate) fn request(&self, path: &str, timeout: Duration) -> Result<Request, String> {
        let url = Url::parse(&format!("{}{path}", self.address));
        let mut request = Request::new(url.map_err(|error| error.to_string())?);
        request.timeout = timeout;
        Ok(request)
    }

    /// Gets what a request names.
    ///
    /// # Errors
    /// Fails without an answer.
    pub(crate) async fn get(&self, request: &Request) -> Result<Answer, String> {
        let mut body = Vec::new();
        let head = self.client.get(request, &mut body).await;
        answer(head, body)
    }

    /// Posts a form.
    ///
    /// # Errors
    /// Fails without an answer.
    pub(crate) async fn post(&self, mut request: Request, form: &str) -> Result<Answer, String> {
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers.insert(header::CONTENT_TYPE, form_type);
        let mut body = Vec::new();
        let head = self.client.post(&request, form.as_bytes(), &mut body).await;
        answer(head, body)
    }
}

fn answer(head: Result<ResponseHead, NetError>, body: Vec<u8>) -> Result<Answer, String> {
    let head = head.map_err(|error| error.to_string())?;
    Ok((head.status, body))
}

/// Does a command's work on this thread.
///
/// # Errors
/// Fails when no runtime can be started.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(work);
    // Does not wait for a pending name lookup.
    runtime.shutdown_background();
    Ok(done)
}
