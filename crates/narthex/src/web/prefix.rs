//! Serving below a path: `--web.route-prefix`.
//!
//! **Invariant:** what is served knows no prefix: paths lose it on their way in, and redirects get it on their way out.

use super::{answer, missing};
use http::{HeaderValue, Method, StatusCode, Uri, header, uri::PathAndQuery};
use narthex_net::{
    Router,
    axum::{extract::Request, response::Response},
};
use std::sync::Arc;

/// Serves `router` below `prefix`, which is empty or begins with a slash and ends without one.
///
/// As in Prometheus, `/` leads there, and the prefix without a slash at its end to that with one.
pub(crate) fn below(prefix: &str, router: Router) -> Router {
    if prefix.is_empty() {
        return router;
    }
    let prefix: Arc<str> = prefix.into();
    Router::new().fallback(move |request: Request| {
        let (prefix, router) = (Arc::clone(&prefix), router.clone());
        async move { serve(&prefix, router, request).await }
    })
}

async fn serve(prefix: &str, router: Router, mut request: Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (path, query) = (request.uri().path(), request.uri().query());
    let behind = match path.strip_prefix(prefix) {
        _ if path == "/" && is_read => return redirect(StatusCode::FOUND, prefix),
        Some("") if is_read => {
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            let to = format!("{prefix}/{query}");
            return redirect(StatusCode::MOVED_PERMANENTLY, &to);
        }
        Some(behind) if behind.starts_with('/') => behind,
        _ => return missing(),
    };
    let inner = match query {
        Some(query) => format!("{behind}?{query}"),
        None => behind.to_owned(),
    };
    let Some(uri) = with_path(request.uri(), &inner) else {
        return missing();
    };
    *request.uri_mut() = uri;
    let mut response = answer(router, request).await;
    let location = response.headers().get(header::LOCATION);
    let location = location.and_then(|to| to.to_str().ok());
    let outer = location
        .filter(|to| to.starts_with('/') && !to.starts_with("//"))
        .and_then(|to| HeaderValue::try_from(format!("{prefix}{to}")).ok());
    if let Some(outer) = outer {
        response.headers_mut().insert(header::LOCATION, outer);
    }
    response
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

fn redirect(status: StatusCode, to: &str) -> Response {
    let mut response = missing();
    let Ok(location) = HeaderValue::try_from(to) else {
        return response;
    };
    *response.body_mut() = narthex_net::axum::body::Body::empty();
    *response.status_mut() = status;
    response.headers_mut().insert(header::LOCATION, location);
    response
}
