//! A remote end that keeps what it is sent, and answers as it is told.

use narthex_model::MemStore;
use narthex_net::{
    Router, Server, ServerConfig, Stopper,
    axum::{body::Body, extract::Request, response::Response, routing::post},
    read_wire_body,
};
use narthex_remote::{Message, Receiver};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::runtime::Runtime;

/// An answer other than that all was taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Whether the samples are stored nevertheless.
    pub(crate) stores: bool,
    /// How long to wait before answering.
    pub(crate) after: Duration,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) headers: BTreeMap<String, String>,
    /// Decompressed.
    pub(crate) body: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) message: Message,
}

/// Answers to give, requests that came, and samples that were taken.
#[derive(Default)]
pub(crate) struct State {
    /// Given in turn.
    pub(crate) answers: VecDeque<Answer>,
    /// Given when there are no others.
    pub(crate) otherwise: Option<Answer>,
    /// Answers the message of version 2.0 with 415.
    pub(crate) only_v1: bool,
    /// Takes frames, and offers to.
    pub(crate) frames: Option<Arc<Receiver>>,
    /// Knows no session when the next request comes.
    pub(crate) forgets_sessions: bool,
    pub(crate) came: Vec<Came>,
    pub(crate) store: MemStore,
    /// Samples of each series in the order in which they were taken, by request.
    pub(crate) taken: BTreeMap<String, Vec<(i64, String)>>,
}

/// A server; it ends when dropped.
pub(crate) struct Remote {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    _runtime: Runtime,
    _stopper: Stopper,
}

impl State {
    /// Returns a receiver into the store that knows nothing else yet.
    pub(crate) fn receiver(&self) -> Arc<Receiver> {
        let store = Arc::new(self.store.clone());
        Arc::new(Receiver::new(store, Arc::new(|| i64::MAX / 2)))
    }
}

impl Remote {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (stopper, stop) = Stopper::new();
        let bound = Server::bind(&["127.0.0.1:0"], ServerConfig::default());
        let server = runtime.block_on(bound).unwrap();
        let url = format!("http://{}/api/v1/write", server.local_addrs()[0]);
        let state = Arc::new(Mutex::new(State::default()));
        let handler = {
            let state = Arc::clone(&state);
            move |request: Request| answer(Arc::clone(&state), request)
        };
        let router = Router::new().route("/api/v1/write", post(handler));
        runtime.spawn(server.serve(router, stop));
        Self {
            url,
            state,
            _runtime: runtime,
            _stopper: stopper,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns how many samples were taken, repetitions included.
    pub(crate) fn samples(&self) -> usize {
        self.state().taken.values().map(Vec::len).sum()
    }
}

/// The content type of frames.
const FRAMES: &str = "application/vnd.narthex.frames;version=2";

async fn answer(state: Arc<Mutex<State>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let headers: BTreeMap<String, String> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned()))
        .collect();
    let wire = read_wire_body(body, 64 << 20).await.unwrap();
    let body = match headers.get("content-encoding").map(String::as_str) {
        Some("zstd") => zstd::decode_all(&wire[..]).unwrap(),
        _ => snap::raw::Decoder::new().decompress_vec(&wire).unwrap(),
    };
    let is_v2 = headers["content-type"].contains("v2.Request");
    let is_frames = headers["content-type"] == FRAMES;
    let message = match (is_v2, is_frames) {
        (true, _) => Message::V2,
        (_, true) => Message::Frames,
        _ => Message::V1,
    };
    let planned = {
        let mut state = state.lock().unwrap();
        let unsupported = (is_v2 && state.only_v1).then(|| Answer::status(415));
        unsupported
            .or_else(|| state.answers.pop_front())
            .or_else(|| state.otherwise.clone())
    };
    let planned = planned.unwrap_or(Answer {
        status: 204,
        stores: true,
        ..Answer::default()
    });
    tokio::time::sleep(planned.after).await;
    let mut state = state.lock().unwrap();
    let mut response = Response::new(Body::from("because"));
    *response.status_mut() = planned.status.try_into().unwrap();
    if planned.stores {
        store(&mut state, message, &body, &mut response);
    }
    if state.frames.is_some() {
        let headers = response.headers_mut();
        headers.insert("accept-post", FRAMES.parse().unwrap());
    }
    for (name, value) in &planned.headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    state.came.push(Came {
        headers,
        body,
        status: response.status().as_u16(),
        message,
    });
    response
}

/// Stores a request, and says in the response what was written or why nothing was.
fn store(state: &mut State, message: Message, body: &[u8], response: &mut Response) {
    let receiver = match &state.frames {
        Some(receiver) if message == Message::Frames && !state.forgets_sessions => {
            Arc::clone(receiver)
        }
        _ => state.receiver(),
    };
    let (written, refused) = match receiver.store(message, body) {
        Ok(stored) => stored,
        Err(error) if message == Message::Frames => {
            *response.status_mut() = error.status();
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(refused.is_none(), "{refused:?}");
    if message == Message::V1 {
        for (series, time_ms, value) in super::samples_of(body) {
            let taken = state.taken.entry(series).or_default();
            taken.push((time_ms, value));
        }
        return;
    }
    for (kind, count) in [
        ("samples", written.samples),
        ("histograms", written.histograms),
        ("exemplars", written.exemplars),
    ] {
        let name = format!("x-prometheus-remote-write-{kind}-written");
        let name = http::HeaderName::try_from(name).unwrap();
        response.headers_mut().insert(name, count.into());
    }
}
