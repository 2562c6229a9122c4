//! Documents at a URL, valid and invalid.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use narthex_discovery::{HttpSdConfig, Options, SdConfig};
use narthex_net::axum::response::IntoResponse;
use narthex_net::{HttpClientConfig, Router, Secret, Server, ServerConfig, Stopper};

use crate::support::run;

type Answer = (u16, &'static str, String);

#[tokio::test]
async fn documents_are_fetched_again_and_bad_ones_keep_the_targets() {
    let good = |body: &str| (200, "application/json; charset=utf-8", body.to_owned());
    let two = r#"[{"targets":["a","b"],"labels":{"x":"y"}},{"targets":["c"]}]"#;
    let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(good(two)));
    let asked: Arc<Mutex<Vec<http::HeaderMap>>> = Arc::default();
    let (shown, seen) = (Arc::clone(&answer), Arc::clone(&asked));
    let router = Router::new().fallback(move |headers: http::HeaderMap| {
        seen.lock().unwrap().push(headers);
        let (status, kind, body) = shown.lock().unwrap().clone();
        let status = http::StatusCode::from_u16(status).unwrap();
        async move { (status, [("content-type", kind)], body).into_response() }
    });
    let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default()).await;
    let server = server.unwrap();
    let url = format!("http://{}/sd", server.local_addrs()[0]);
    let (_server_stopper, stop) = Stopper::new();
    tokio::spawn(server.serve(router, stop));

    let config = HttpSdConfig {
        url: url.clone(),
        // Also the request's timeout, so not shorter.
        refresh_interval: Duration::from_millis(500),
        http: HttpClientConfig {
            bearer_token: Secret::from("t"),
            ..HttpClientConfig::default()
        },
    };
    let mut running = run(SdConfig::Http(Box::new(config)), Options::default());
    let groups = running.until(&["a", "b", "c"]).await;
    assert_eq!(groups[0].source, format!("{url}:0"));
    assert_eq!(groups[0].labels["__meta_url"], url);
    assert_eq!(groups[0].labels["x"], "y");
    let first = asked.lock().unwrap()[0].clone();
    assert_eq!(first["accept"], "application/json");
    assert_eq!(first["x-prometheus-refresh-interval-seconds"], "0.5");
    assert_eq!(first["authorization"], "Bearer t");

    let one = r#"[{"targets":["a"]}]"#;
    for bad in [
        (500, "application/json", one.to_owned()),
        (200, "text/plain", one.to_owned()),
        (200, "application/json", "[null]".to_owned()),
        (200, "application/json", "{".to_owned()),
    ] {
        let before = asked.lock().unwrap().len();
        *answer.lock().unwrap() = bad;
        // By the second request after the change, the first one's response has been processed.
        while asked.lock().unwrap().len() < before + 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        running.until(&["a", "b", "c"]).await;
    }
    *answer.lock().unwrap() = good(one);
    running.until(&["a"]).await;
}
