//! `/status/buildinfo`.

use crate::{
    answer::{Answer, respond},
    config::Api,
};
use http::HeaderMap;
use narthex_net::axum::{extract::State, response::Response};
use serde_json::json;
use std::sync::Arc;

pub(crate) async fn build_info(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    let build = &api.config.build;
    let data = json!({
        "version": build.prometheus_version,
        "revision": build.revision,
        "branch": build.branch,
        "buildUser": "",
        "buildDate": build.build_date,
        "goVersion": "",
        "application": "Narthex",
        "applicationVersion": build.version,
        "compiler": build.compiler,
    });
    respond(Ok(Answer::of(data.to_string().into_bytes())), &headers)
}
