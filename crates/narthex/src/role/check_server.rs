//! `narthex check healthy`, `check ready` and `check web-config`: query a running server, or check files for one.
//!
//! **Invariant:** exit codes are promtool's: 0 for success, 1 for failure.

use crate::cli::{ServerFlags, WebConfigFlags};
use crate::server_client::{ServerClient, block_on};
use narthex_net::WebConfig;
use std::{
    io::{self, Write},
    time::Duration,
};

/// Asks a server at `/-/healthy` or `/-/ready`, writes the answer to `error` as promtool does, and returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written, or no thread can be started.
pub(crate) fn ask(path: &str, flags: &ServerFlags, error: &mut dyn Write) -> io::Result<u8> {
    match block_on(answer_of(path, flags))? {
        Ok(text) => writeln!(error, "  SUCCESS:  {text}").map(|()| 0),
        Err(reason) => writeln!(error, "{reason}").map(|()| 1),
    }
}

async fn answer_of(path: &str, flags: &ServerFlags) -> Result<String, String> {
    let server = ServerClient::open(&flags.url, flags.http_config.as_deref())?;
    let request = server.request(path, Duration::from_secs(10))?;
    match server.get(&request).await? {
        (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        (status, _) => {
            let url = &request.url;
            Err(format!("check failed: URL={url}, status={status}"))
        }
    }
}

/// Checks files for `--web.config.file`, writes each result to `error` and returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written.
pub(crate) fn web_config(flags: &WebConfigFlags, error: &mut dyn Write) -> io::Result<u8> {
    let mut code = 0;
    for file in &flags.files {
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
