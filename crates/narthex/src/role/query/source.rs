//! Who is asked: a server over HTTP, or the API over a data directory that is opened without changing it.
//!
//! **Invariant:** both answer the same calls, so that nothing else knows which it is.

use crate::cli::{Header, QueryCommand};
use crate::server_client::{Answer, ServerClient};
use crate::web::answer;
use http::{HeaderName, HeaderValue, Method};
use narthex_api::{Api, ApiConfig, BuildInfo};
use narthex_model::storage::Budget;
use narthex_net::{
    Router,
    axum::body::{Body, to_bytes},
    percent,
};
use narthex_promql::{Engine, EngineOptions};
use narthex_tsdb::{Clock as _, Db, DbOptions, ReadOnlyIo, SystemClock, TsdbError, Tuning};
use serde_json::Value as Json;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// Answers calls.
pub(super) struct Source {
    runtime: Runtime,
    place: Place,
    timeout: Duration,
}

enum Place {
    Server {
        server: Box<ServerClient>,
        headers: Vec<(HeaderName, HeaderValue)>,
    },
    Data(Router),
}

impl Source {
    pub(super) fn open(command: &QueryCommand) -> Result<Self, String> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let path = Path::new(&command.server);
        let place = if !command.server.contains("://") && path.is_dir() {
            data(path, command.flags.timeout)?
        } else {
            server(command)?
        };
        Ok(Self {
            runtime: runtime.map_err(|error| error.to_string())?,
            place,
            timeout: command.flags.timeout,
        })
    }

    /// Calls `path` and returns the data of its answer.
    pub(super) fn ask(
        &mut self,
        path: &str,
        form: &[(&str, String)],
        warnings: &mut Vec<String>,
    ) -> Result<Json, String> {
        let pairs = form.iter().map(|(name, value)| {
            format!(
                "{}={}",
                percent::escape_form(name),
                percent::escape_form(value)
            )
        });
        let form = pairs.collect::<Vec<_>>().join("&");
        let called = match &self.place {
            Place::Server { server, headers } => {
                let call = call(server, path, &form, headers, self.timeout);
                self.runtime.block_on(call)
            }
            Place::Data(router) => self.runtime.block_on(local(router.clone(), path, &form)),
        };
        let (status, body) = called?;
        let answer: Json = serde_json::from_slice(&body).map_err(|_| {
            let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            format!("status {status}: {}", text.trim())
        })?;
        if answer["status"] != "success" {
            let (kind, error) = (&answer["errorType"], &answer["error"]);
            let text = |value: &Json| value.as_str().unwrap_or("unknown").to_owned();
            return Err(format!("{}: {}", text(kind), text(error)));
        }
        let notes = [&answer["warnings"], &answer["infos"]];
        let notes = notes.into_iter().filter_map(Json::as_array).flatten();
        for note in notes.filter_map(Json::as_str) {
            if !warnings.iter().any(|known| known == note) {
                warnings.push(note.to_owned());
            }
        }
        Ok(answer["data"].clone())
    }
}

fn server(command: &QueryCommand) -> Result<Place, String> {
    let server = ServerClient::open(&command.server, command.flags.http_config.as_deref())?;
    let header = |Header(name, value): &Header| {
        let name = HeaderName::try_from(name.as_str()).map_err(|error| error.to_string())?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|error| error.to_string())?;
        Ok((name, value))
    };
    let headers = command.flags.headers.iter().map(header);
    Ok(Place::Server {
        server: Box::new(server),
        headers: headers.collect::<Result<_, String>>()?,
    })
}

/// Posts a form; calls that take none get it as a query.
async fn call(
    server: &ServerClient,
    path: &str,
    form: &str,
    headers: &[(HeaderName, HeaderValue)],
    timeout: Duration,
) -> Result<Answer, String> {
    let is_posted = !path.ends_with("/values");
    let mut request = if is_posted || form.is_empty() {
        server.request(path, timeout)?
    } else {
        server.request(&format!("{path}?{form}"), timeout)?
    };
    for (name, value) in headers {
        request.headers.append(name.clone(), value.clone());
    }
    match is_posted {
        true => server.post(request, form).await,
        false => server.get(&request).await,
    }
}

async fn local(router: Router, path: &str, form: &str) -> Result<Answer, String> {
    let request = http::Request::builder()
        .method(Method::GET)
        .uri(format!("{path}?{form}"))
        .body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let response = answer(router, request).await;
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await;
    let body = body.map_err(|error| error.to_string())?;
    Ok((status, body.to_vec()))
}

/// Returns the API over a data directory.
fn data(path: &Path, timeout: Duration) -> Result<Place, String> {
    let mut options = DbOptions::new(path);
    // Nothing is removed for its age here.
    options.tuning = Tuning {
        retention_ms: None,
        ..Tuning::default()
    };
    let io = Arc::new(ReadOnlyIo::default());
    let db = Db::open(io, options, Arc::new(SystemClock)).map_err(|error| match error {
        TsdbError::Locked { .. } => format!(
            "{}: a running server has this directory open; ask the server itself, such as: narthex query instant http://localhost:9090 EXPR",
            path.display()
        ),
        other => other.to_string(),
    })?;
    let config = ApiConfig {
        timeout,
        max_concurrency: 1,
        max_metadata_concurrency: 1,
        max_parameters: usize::MAX,
        query_memory_bytes: u64::MAX,
        per_step_stats: false,
        search: false,
        max_search_limit: 0,
        build: BuildInfo::default(),
    };
    let engine = Engine::new(EngineOptions::default());
    let now_ms = Arc::new(|| SystemClock.now_ms());
    let api = Api::new(
        Arc::new(db),
        Arc::new(engine),
        config,
        Budget::unlimited(),
        now_ms,
    );
    Ok(Place::Data(narthex_api::routes(Arc::new(api))))
}

/// Escapes a label name for a path: one that is not a legacy name becomes `U__…`.
pub(super) fn escape_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let mut escaped = "U__".to_owned();
    for c in name.chars() {
        match c {
            '_' => escaped.push_str("__"),
            c if c.is_ascii_alphanumeric() => escaped.push(c),
            c => escaped.push_str(&format!("_{:x}_", u32::from(c))),
        }
    }
    escaped
}
