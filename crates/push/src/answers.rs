//! Responses in the form of Go's servers.

use crate::error::PushError;
use http::{HeaderValue, Method, StatusCode, header};
use narthex_net::{
    axum::{body::Body, response::Response},
    percent::escape_path,
    respond_error,
};

/// `Retry-After` of refused pushes.
pub(crate) const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(crate) fn refusal(error: &PushError) -> Response {
    let mut response = respond_error(error.status(), &error.to_string());
    if matches!(error, PushError::Busy { .. } | PushError::Storage { .. }) {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
    response
}

pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(crate) fn bare(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    response
}

pub(crate) fn not_found() -> Response {
    respond_error(StatusCode::NOT_FOUND, "404 page not found")
}

pub(crate) fn not_allowed(method: &Method, allow: &'static str) -> Response {
    let mut response = if *method == Method::OPTIONS {
        Response::new(Body::empty())
    } else {
        respond_error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
    };
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

pub(crate) fn redirect(path: &str, query: Option<&str>) -> Response {
    let mut location = escape_path(path);
    if let Some(query) = query {
        location.push('?');
        location.push_str(query);
    }
    let mut response = empty(StatusCode::TEMPORARY_REDIRECT);
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
