//! Envelopes around data, warnings and errors.

use crate::{error::ApiError, json};
use http::HeaderMap;
use narthex_net::{axum::response::Response, respond_json};

/// An answer's data with what the asker should know about it.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// JSON.
    pub(crate) data: Vec<u8>,
    pub(crate) warnings: Vec<String>,
    pub(crate) infos: Vec<String>,
}

impl Answer {
    pub(crate) fn of(data: Vec<u8>) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }
}

/// Wraps a call's outcome the way every endpoint of the API does.
pub(crate) fn respond(outcome: Result<Answer, ApiError>, headers: &HeaderMap) -> Response {
    match outcome {
        Ok(answer) => {
            let mut body = Vec::with_capacity(answer.data.len() + 64);
            body.extend_from_slice(br#"{"status":"success","data":"#);
            body.extend_from_slice(&answer.data);
            notes(&mut body, "warnings", &answer.warnings);
            notes(&mut body, "infos", &answer.infos);
            body.push(b'}');
            respond_json(body, headers)
        }
        Err(error) => {
            let mut body = Vec::with_capacity(64 + error.message.len());
            body.extend_from_slice(br#"{"status":"error","errorType":""#);
            body.extend_from_slice(error.kind.as_str().as_bytes());
            body.extend_from_slice(br#"","error":"#);
            json::string(&mut body, &error.message);
            body.push(b'}');
            let mut response = respond_json(body, headers);
            *response.status_mut() = error.kind.status();
            response
        }
    }
}

fn notes(body: &mut Vec<u8>, key: &str, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    body.extend_from_slice(b",\"");
    body.extend_from_slice(key.as_bytes());
    body.extend_from_slice(b"\":");
    json::list(body, notes.iter().map(String::as_str), json::string);
}
