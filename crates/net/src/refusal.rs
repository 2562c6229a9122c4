//! Answers of the API that are made off the serving threads, behind a gate, and the reasons to give none.
//!
//! Invariant: a panic or a long computation costs one request; whoever waits too long is told so.

use std::fmt::Display;
use std::time::Duration;

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use crate::gate::Gate;
use crate::respond::respond_json;

/// Reason that a request is refused, as Prometheus' API words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A parameter cannot be used.
    BadData(String),
    /// There is no memory for the answer.
    OverBudget(String),
    /// Others took too long to end.
    Busy,
    /// Making the answer ended with a panic.
    Panicked,
}

impl Refusal {
    /// Refuses for want of memory.
    #[must_use]
    pub fn over_budget(over: impl Display) -> Self {
        Self::OverBudget(over.to_string())
    }

    /// Returns the error in Prometheus' envelope.
    pub fn respond(self, headers: &HeaderMap) -> Response {
        let (status, kind, error) = match self {
            Self::BadData(error) => (StatusCode::BAD_REQUEST, "bad_data", error),
            Self::OverBudget(error) => (StatusCode::UNPROCESSABLE_ENTITY, "execution", error),
            Self::Busy => {
                let error = "waited too long for other requests".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, "timeout", error)
            }
            Self::Panicked => {
                let error = "unexpected error".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "internal", error)
            }
        };
        let body = json!({ "status": "error", "errorType": kind, "error": error });
        let mut response = respond_json(body.to_string(), headers);
        *response.status_mut() = status;
        response
    }
}

impl Gate {
    /// Runs `make` on a blocking thread once there is a turn, waiting at most for `longest`.
    ///
    /// # Errors
    /// Fails as `make` does, if no turn came in that time, and after a panic.
    pub async fn prepare<T: Send + 'static>(
        &self,
        longest: Duration,
        make: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let pass = self.pass(longest).await.map_err(|_refused| Refusal::Busy)?;
        let work = move || {
            // Held until it is made: a lease then covers what a slow reader keeps.
            let _pass = pass;
            make()
        };
        let made = tokio::task::spawn_blocking(work).await;
        made.unwrap_or(Err(Refusal::Panicked))
    }
}
