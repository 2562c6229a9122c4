//! Requests that wait for others.

use super::*;
use crate::{manager::ManagerConfig, memory::ScrapeMemory};
use http::StatusCode;
use narthex_model::MemStore;
use narthex_net::{ClientConfig, Stopper, axum::body::to_bytes};

#[tokio::test]
async fn who_waits_in_vain_is_told_so_and_passes_later() {
    let (_stopper, stop) = Stopper::new();
    let config = ManagerConfig {
        memory: ScrapeMemory::default(),
        sink: Arc::new(MemStore::new()),
        now_ms: Arc::new(|| 0),
        client: ClientConfig::default(),
        runtime: tokio::runtime::Handle::current(),
    };
    let routes = Arc::new(Routes {
        manager: Arc::new(Manager::new(config, stop)),
        limits: RouteLimits {
            wait: Duration::ZERO,
            ..RouteLimits::default()
        },
        parse_selector: |_, _| Err("no test has a selector".to_owned()),
        gate: Gate::new("targets-test", 1),
    });
    let ask = async || {
        let routes = Arc::clone(&routes);
        let answer = routes.answer(HashMap::new(), HeaderMap::new(), pools).await;
        let status = answer.status();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(ask().await.0, StatusCode::OK);
    let first = routes.gate.pass(Duration::ZERO).await.unwrap();
    let (status, text) = ask().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        text.contains("waited too long for other requests"),
        "{text}"
    );
    drop(first);
    assert_eq!(ask().await.0, StatusCode::OK);
}
