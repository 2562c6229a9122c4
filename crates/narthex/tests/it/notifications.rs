//! What the process wants people to know, listed and as a stream.

use crate::support::{self, Running, until};
use narthex_testkit::{TempDir, http};
use serde_json::{Value, json};

const CONFIG: &str = "global: {scrape_interval: 1m}\n";

#[test]
fn changes_are_listed_and_streamed_until_the_end() {
    let dir = TempDir::new("notifications");
    let config = dir.write("p.yml", CONFIG);
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .arg("--web.enable-lifecycle")
        .arg("--web.max-notifications-subscribers=1");
    let server = Running::of(spawn);
    let texts = || -> Vec<String> {
        let listed = server.data("/api/v1/notifications", &[]);
        let listed = listed.as_array().unwrap().iter();
        listed
            .map(|one| one["text"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(texts(), [""; 0], "the replay has ended");
    let live = format!("{}/api/v1/notifications/live", server.url);
    let stream = {
        let live = live.clone();
        std::thread::spawn(move || http::get(&live).unwrap())
    };
    until("a subscriber", || {
        let count = server.metric("prometheus_api_notification_active_subscribers ");
        (count == Some(1.0)).then_some(())
    });
    assert_eq!(http::get(&live).unwrap().status, 204);
    let reload = || http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap();
    dir.write("p.yml", "global: {scrape_interval: never}\n");
    assert_eq!(reload().status, 500);
    assert_eq!(texts(), ["Configuration reload has failed."]);
    dir.write("p.yml", CONFIG);
    assert_eq!(reload().status, 200);
    assert_eq!(texts(), [""; 0]);
    server.stop();
    let answer = stream.join().unwrap();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let body = answer.text();
    let events = body.split_terminator("\n\n").map(|event| {
        let data = event.strip_prefix("data: ").unwrap();
        let event: Value = serde_json::from_str(data).unwrap();
        assert!(event["date"].as_str().unwrap().ends_with('Z'));
        json!([event["text"], event["active"]])
    });
    let failed = "Configuration reload has failed.";
    let ending = "Narthex is shutting down and gracefully stopping all operations.";
    assert_eq!(
        events.collect::<Vec<_>>(),
        [
            json!([failed, true]),
            json!([failed, false]),
            json!([ending, true])
        ]
    );
}
