//! One request to an Alertmanager, and what its answer means.

use crate::config::AlertmanagerConfig;
use http::{HeaderValue, StatusCode, header};
use narthex_net::{Client, ClientConfig, NetError, Request, SigV4, Url};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Longest part of an answer's body that is shown.
const SHOWN_BYTES: usize = 512;
/// Longest answer that is read.
const ANSWER_BYTES: usize = 1 << 20;

/// Why alerts were not taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PostError {
    pub(crate) reason: String,
    /// Whether the same request may succeed later: nobody answered, or the answer said so.
    pub(crate) may_pass: bool,
}

/// Posts bodies to one Alertmanager.
pub(crate) trait Post: Send + Sync {
    /// Sends a list of alerts.
    fn post(&self, body: &[u8]) -> impl Future<Output = Result<(), PostError>> + Send;
}

/// What sends requests for one set.
#[derive(Clone)]
pub(crate) struct Sender {
    client: Client,
    /// Signs requests, if they are signed.
    signer: Option<Arc<SigV4>>,
}

impl Sender {
    /// Returns what sends as `config` says.
    ///
    /// # Errors
    /// Fails if its HTTP settings or those for signing cannot be used.
    pub(crate) fn new(config: &AlertmanagerConfig, base: &ClientConfig) -> Result<Self, NetError> {
        let signer = config.sigv4.as_ref();
        let signer = signer.map(|config| SigV4::new(base, config).map(Arc::new));
        Ok(Self {
            client: Client::with_http(base.clone(), config.http.clone())?,
            signer: signer.transpose()?,
        })
    }
}

/// Posts over HTTP.
pub(crate) struct HttpPost {
    sender: Sender,
    request: Request,
}

impl HttpPost {
    pub(crate) fn new(sender: Sender, url: Url, timeout: Duration) -> Self {
        let mut request = Request::new(url);
        request.timeout = timeout;
        request.body_limit_bytes = ANSWER_BYTES;
        let json = HeaderValue::from_static("application/json");
        request.headers.insert(header::CONTENT_TYPE, json);
        Self { sender, request }
    }
}

impl Post for HttpPost {
    async fn post(&self, body: &[u8]) -> Result<(), PostError> {
        let mut answer = Vec::new();
        let nobody_answered = |error: NetError| PostError {
            reason: error.to_string(),
            may_pass: true,
        };
        let Sender { client, signer } = &self.sender;
        let head = match signer {
            None => client.post(&self.request, body, &mut answer).await,
            Some(signer) => {
                let mut request = self.request.clone();
                let headers = &mut request.headers;
                let signed = signer.sign(&request.url, headers, body, now_ms());
                signed.await.map_err(nobody_answered)?;
                client.post(&request, body, &mut answer).await
            }
        };
        judge(head.map_err(nobody_answered)?.status, &answer)
    }
}

/// Returns the time of day, which signatures contain.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.unwrap_or_default().as_millis();
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Says what an answer means; any 2xx is success.
fn judge(status: u16, answer: &[u8]) -> Result<(), PostError> {
    if (200..300).contains(&status) {
        return Ok(());
    }
    let shown = StatusCode::from_u16(status).map_or(status.to_string(), |code| code.to_string());
    let text = String::from_utf8_lossy(answer);
    let text = text.trim();
    let begin = text.get(..text.floor_char_boundary(SHOWN_BYTES));
    let colon = if text.is_empty() { "" } else { ": " };
    Err(PostError {
        reason: format!(
            "bad response status {shown}{colon}{}",
            begin.unwrap_or_default()
        ),
        may_pass: status >= 500 || status == 429,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged() {
        let judged = |status, text: &str| match judge(status, text.as_bytes()) {
            Ok(()) => "taken".to_owned(),
            Err(error) => format!("{} {}", error.may_pass, error.reason),
        };
        assert_eq!(judged(200, ""), "taken");
        assert_eq!(judged(204, "x"), "taken");
        assert_eq!(
            judged(400, " no\n"),
            "false bad response status 400 Bad Request: no"
        );
        assert_eq!(
            judged(503, ""),
            "true bad response status 503 Service Unavailable"
        );
        assert_eq!(
            judged(429, ""),
            "true bad response status 429 Too Many Requests"
        );
        assert_eq!(judged(302, ""), "false bad response status 302 Found");
        let long = judged(404, &"é".repeat(1000));
        assert!(long.ends_with('é') && long.len() < 600, "{long}");
    }
}
