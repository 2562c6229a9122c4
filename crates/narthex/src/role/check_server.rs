//! `narthex check healthy`, `check ready` and `check web-config`: query a running server, or check files for one.
//!
//! **Invariant:** exit codes are promtool's: 0 for success, 1 for failure.

use crate::{config, reload};
use narthex_net::{Client, HttpClientConfig, Request, Url, WebConfig};
use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

/// Server to query, and how.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckServer {
    pub(crate) url: String,
    /// `/-/healthy` or `/-/ready`.
    pub(crate) path: &'static str,
    /// File of HTTP client settings for the request.
    pub(crate) http_config: Option<PathBuf>,
}

/// Asks a server for its health, writes the answer to `error` as promtool does, and returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written, or no thread can be started.
pub(crate) fn ask(check: &CheckServer, error: &mut dyn Write) -> io::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on(answer_of(check));
    // Does not wait for a pending name lookup.
    runtime.shutdown_background();
    match answer {
        Ok(text) => writeln!(error, "  SUCCESS:  {text}").map(|()| 0),
        Err(reason) => writeln!(error, "{reason}").map(|()| 1),
    }
}

async fn answer_of(check: &CheckServer) -> Result<String, String> {
    let http = match &check.http_config {
        Some(path) => config::load_http(path)
            .map_err(|error| format!("failed to load HTTP config file: {error}"))?,
        None => HttpClientConfig::default(),
    };
    let base = match check.url.contains("://") {
        true => check.url.clone(),
        false => format!("http://{}", check.url),
    };
    let url = format!("{}{}", base.trim_end_matches('/'), check.path);
    let url = Url::parse(&url).map_err(|error| error.to_string())?;
    let mut request = Request::new(url.clone());
    request.timeout = Duration::from_secs(10);
    let client =
        Client::with_http(reload::client_config(), http).map_err(|error| error.to_string())?;
    let mut body = Vec::new();
    let head = client.get(&request, &mut body).await;
    let head = head.map_err(|error| error.to_string())?;
    if head.status != 200 {
        return Err(format!("check failed: URL={url}, status={}", head.status));
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Checks files for `--web.config.file`, writes each result to `error` and returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn web_config(files: &[PathBuf], error: &mut dyn Write) -> io::Result<u8> {
    let mut code = 0;
    for file in files {
        let shown = file.display();
        match WebConfig::check_file(file) {
            Ok(()) => writeln!(error, "{shown} SUCCESS")?,
            Err(reason) => {
                writeln!(error, "{shown} FAILED: {reason}")?;
                code = 1;
            }
        }
    }
    Ok(code)
}
