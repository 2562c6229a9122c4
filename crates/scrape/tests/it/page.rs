//! A page to scrape, whose content, delay and failure the test sets.

use narthex_net::{
    Router, Server, ServerConfig, Stopper,
    axum::{
        http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE},
        response::{IntoResponse, Response},
        routing::get,
    },
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

#[derive(Clone)]
struct Content {
    body: Vec<u8>,
    content_type: Option<&'static str>,
    delay: Duration,
    failing: bool,
    /// Number of requests, and the headers of the last.
    asked: usize,
    headers: HeaderMap,
}

pub(crate) struct Page {
    address: SocketAddr,
    content: Arc<Mutex<Content>>,
    stopper: Stopper,
}

impl Page {
    pub(crate) async fn start(body: impl AsRef<[u8]>) -> Self {
        let content = Arc::new(Mutex::new(Content {
            body: body.as_ref().to_vec(),
            content_type: Some("text/plain; version=0.0.4"),
            delay: Duration::ZERO,
            failing: false,
            asked: 0,
            headers: HeaderMap::new(),
        }));
        let served = Arc::clone(&content);
        let handler = move |headers: HeaderMap| {
            let now = {
                let mut content = served.lock().expect("no panic while held");
                content.asked += 1;
                content.headers = headers;
                content.clone()
            };
            async move {
                tokio::time::sleep(now.delay).await;
                answer(now)
            }
        };
        let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default())
            .await
            .expect("a free port");
        let address = server.local_addrs()[0];
        let (stopper, stop) = Stopper::new();
        tokio::spawn(server.serve(Router::new().route("/metrics", get(handler)), stop));
        Self {
            address,
            content,
            stopper,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("no panic while held")
    }

    pub(crate) fn set(&self, body: impl AsRef<[u8]>) {
        self.content().body = body.as_ref().to_vec();
    }

    pub(crate) fn set_type(&self, content_type: Option<&'static str>) {
        self.content().content_type = content_type;
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.content().delay = delay;
    }

    pub(crate) fn fail(&self, failing: bool) {
        self.content().failing = failing;
    }

    pub(crate) fn asked(&self) -> usize {
        self.content().asked
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let content = self.content();
        let value = content.headers.get(name)?;
        value.to_str().ok().map(str::to_owned)
    }
}

fn answer(content: Content) -> Response {
    let status = if content.failing {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::OK
    };
    let mut response = (status, content.body).into_response();
    let headers = response.headers_mut();
    headers.remove(CONTENT_TYPE);
    if let Some(content_type) = content.content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
