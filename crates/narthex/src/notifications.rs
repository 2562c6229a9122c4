//! What the process wants people to know now: `/api/v1/notifications`, and `/live` below it as server-sent events.
//!
//! **Invariant:** a notification is listed exactly while it holds; a subscriber gets all that hold when it comes, and
//! afterwards every change, unless it reads too slowly, which is counted.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use narthex_client::{Counter, Error, Gauge, Registry};
use narthex_model::{date, sync::Whole as _};
use narthex_net::{
    BodySender, Router, StopToken,
    axum::{
        response::{IntoResponse, Response},
        routing::get,
    },
    body_channel, respond_json,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// The log is being replayed.
pub(crate) const STARTING_UP: &str = "Narthex is starting and replaying the write-ahead log (WAL).";
/// The last reload failed; an earlier configuration is in effect.
pub(crate) const CONFIGURATION_UNSUCCESSFUL: &str = "Configuration reload has failed.";
const SHUTTING_DOWN: &str = "Narthex is shutting down and gracefully stopping all operations.";

/// Changes that wait for one subscriber.
const WAITING: usize = 10;

static SUBSCRIBERS: Gauge = Gauge::new(
    "prometheus_api_notification_active_subscribers",
    "The current number of active notification subscribers.",
);
static SENT: Counter = Counter::new(
    "prometheus_api_notification_updates_sent_total",
    "Total number of notification updates sent.",
);
static DROPPED: Counter = Counter::new(
    "prometheus_api_notification_updates_dropped_total",
    "Total number of notification updates dropped.",
);

/// Registers the metrics about notifications.
///
/// # Errors
/// Fails when a name is taken.
pub(crate) fn register_metrics(registry: &Registry) -> Result<(), Error> {
    registry.register_all(&[&SUBSCRIBERS, &SENT, &DROPPED])
}

/// The notifications that hold, and who is told of changes.
#[derive(Debug)]
pub(crate) struct Notifications {
    most_subscribers: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    active: Vec<Notification>,
    subscribers: Vec<mpsc::Sender<Notification>>,
}

#[derive(Clone, Debug)]
struct Notification {
    text: &'static str,
    at_ms: i64,
    is_active: bool,
}

impl Notification {
    fn json(&self) -> Value {
        json!({ "text": self.text, "date": date::rfc3339(self.at_ms), "active": self.is_active })
    }
}

impl Notifications {
    /// Returns notifications for at most so many subscribers at once; none holds.
    pub(crate) fn new(most_subscribers: usize) -> Self {
        Self {
            most_subscribers,
            state: Mutex::default(),
        }
    }

    /// Adds a notification as of `now_ms`, or renews it.
    pub(crate) fn add(&self, text: &'static str, now_ms: i64) {
        let mut state = self.state.lock().whole();
        let new = Notification {
            text,
            at_ms: now_ms,
            is_active: true,
        };
        match state.active.iter_mut().find(|known| known.text == text) {
            Some(known) => *known = new.clone(),
            None => state.active.push(new.clone()),
        }
        state.tell(&new);
    }

    /// Ends a notification, if it holds.
    pub(crate) fn remove(&self, text: &str) {
        let mut state = self.state.lock().whole();
        let Some(at) = state.active.iter().position(|known| known.text == text) else {
            return;
        };
        let ended = Notification {
            is_active: false,
            ..state.active.remove(at)
        };
        state.tell(&ended);
    }

    fn list(&self) -> Value {
        let state = self.state.lock().whole();
        state.active.iter().map(Notification::json).collect()
    }

    /// Returns what receives all that hold and every change; `None` if there are too many subscribers.
    fn subscribe(&self) -> Option<mpsc::Receiver<Notification>> {
        let mut state = self.state.lock().whole();
        state.count();
        if state.subscribers.len() >= self.most_subscribers {
            return None;
        }
        let (sender, receiver) = mpsc::channel(state.active.len() + WAITING);
        for notification in &state.active {
            // There is room for all.
            let _ = sender.try_send(notification.clone());
        }
        state.subscribers.push(sender);
        state.count();
        Some(receiver)
    }

    fn unsubscribe(&self, receiver: mpsc::Receiver<Notification>) {
        drop(receiver);
        self.state.lock().whole().count();
    }
}

impl State {
    fn tell(&self, notification: &Notification) {
        for subscriber in &self.subscribers {
            SENT.inc();
            if subscriber.try_send(notification.clone()).is_err() {
                DROPPED.inc();
            }
        }
    }

    /// Forgets the subscribers that are gone, and counts the others.
    fn count(&mut self) {
        self.subscribers
            .retain(|subscriber| !subscriber.is_closed());
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        SUBSCRIBERS.set(self.subscribers.len() as f64);
    }
}

/// Returns the routes; `now_ms` is the wall clock, and streams end when `stop` does.
pub(crate) fn routes(
    notifications: Arc<Notifications>,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    stop: StopToken,
) -> Router {
    let listed = Arc::clone(&notifications);
    let list = move |headers: HeaderMap| async move {
        let body = json!({ "status": "success", "data": listed.list() });
        respond_json(body.to_string(), &headers)
    };
    let live = move || async move {
        let Some(receiver) = notifications.subscribe() else {
            return StatusCode::NO_CONTENT.into_response();
        };
        let (sender, body) = body_channel(1);
        tokio::spawn(stream(notifications, receiver, sender, now_ms, stop));
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    };
    Router::new()
        .route("/api/v1/notifications", get(list))
        .route("/api/v1/notifications/live", get(live))
}

/// Sends changes to one subscriber until it is gone or the process ends, which is the last change.
async fn stream(
    notifications: Arc<Notifications>,
    mut receiver: mpsc::Receiver<Notification>,
    sender: BodySender,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    stop: StopToken,
) {
    let event = |notification: &Notification| format!("data: {}\n\n", notification.json());
    loop {
        let next = tokio::select! {
            next = stop.run(receiver.recv()) => next.flatten(),
            () = sender.gone() => break,
        };
        let Some(notification) = next else {
            let last = Notification {
                text: SHUTTING_DOWN,
                at_ms: now_ms(),
                is_active: true,
            };
            // Nothing to be done for one that is gone.
            let _ = sender.send(event(&last).into()).await;
            let _ = sender.finish().await;
            break;
        };
        if sender.send(event(&notification).into()).await.is_err() {
            break;
        }
    }
    notifications.unsubscribe(receiver);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(notifications: &Notifications) -> Vec<String> {
        let list = notifications.list();
        let list = list.as_array().unwrap().iter();
        list.map(|one| one["text"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_holds_is_listed_once() {
        let notifications = Notifications::new(1);
        notifications.add("a", 1_000);
        notifications.add("b", 2_000);
        notifications.add("a", 3_000);
        assert_eq!(texts(&notifications), ["a", "b"]);
        assert_eq!(
            notifications.list()[0],
            json!({ "text": "a", "date": "1970-01-01T00:00:03.000Z", "active": true })
        );
        notifications.remove("a");
        notifications.remove("a");
        assert_eq!(texts(&notifications), ["b"]);
    }

    #[test]
    fn subscribers_get_what_holds_and_every_change() {
        let notifications = Notifications::new(1);
        notifications.add("a", 1_000);
        let mut receiver = notifications.subscribe().unwrap();
        assert!(notifications.subscribe().is_none());
        notifications.add("b", 2_000);
        notifications.remove("a");
        for expected in [("a", true), ("b", true), ("a", false)] {
            let got = receiver.try_recv().unwrap();
            assert_eq!((got.text, got.is_active), expected);
        }
        for _ in 0..WAITING + 5 {
            notifications.add("b", 3_000);
        }
        let waiting = std::iter::from_fn(|| receiver.try_recv().ok()).count();
        assert_eq!(waiting, WAITING + 1);
        notifications.unsubscribe(receiver);
        assert!(notifications.subscribe().is_some());
    }
}
