//! A page to scrape, whose content, delay and failure the test sets.

use narthex_net::{
    Router, Server, ServerConfig, Stopper,
    axum::{http::StatusCode, response::IntoResponse, routing::get},
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Clone, Default)]
struct Content {
    body: String,
    delay: Duration,
    failing: bool,
}

pub(crate) struct Page {
    address: SocketAddr,
    content: Arc<Mutex<Content>>,
    stopper: Stopper,
}

impl Page {
    pub(crate) async fn start(body: &str) -> Self {
        let content = Arc::new(Mutex::new(Content {
            body: body.to_owned(),
            ..Content::default()
        }));
        let served = Arc::clone(&content);
        let handler = move || {
            let now = served.lock().expect("no panic while held").clone();
            async move {
                tokio::time::sleep(now.delay).await;
                let status = if now.failing {
                    StatusCode::INTERNAL_SERVER_ERROR
                } else {
                    StatusCode::OK
                };
                (status, now.body).into_response()
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

    pub(crate) fn set(&self, body: &str) {
        self.content.lock().expect("no panic while held").body = body.to_owned();
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.content.lock().expect("no panic while held").delay = delay;
    }

    pub(crate) fn fail(&self, failing: bool) {
        self.content.lock().expect("no panic while held").failing = failing;
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
