//! Batches: pushes to many groups in one request.
//!
//! **Invariant:** a group's part is stored or refused by itself, and the answer says which. A batch costs what it
//! carries: comment lines that parts repeat are bounded.

use crate::{
    answers::{RETRY_AFTER_SECONDS, refusal},
    asked::{Words, invalid},
    error::PushError,
    grouping::Grouping,
    metrics,
    receiver::{Received, Receiver},
    split::{Part, Split, Ungrouped},
    store::Push,
};
use http::{HeaderValue, StatusCode, header};
use narthex_net::{
    Allowance as _,
    axum::{body::Body, extract::Request, response::Response},
    run_long,
};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// Labels that name the groups of a batch, if the sender does not say which.
const GROUP_BY: &str = "job,instance";
/// Most bytes of all parts together, in multiples of the body's and beside them.
const COPIES: usize = 4;
const SPARE_BYTES: usize = 1 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What became of one group's part.
struct Outcome {
    grouping: Grouping,
    result: Result<(), PushError>,
}

/// Stores a batch, and answers with what became of each group.
pub(crate) async fn answer(receiver: &Receiver, request: Request) -> Response {
    let start = Instant::now();
    let seconds = metrics::PUSH_SECONDS.with(&[metrics::word(request.method())]);
    let done = store(receiver, request).await;
    seconds.observe_duration(start.elapsed());
    match done {
        Ok((outcomes, ungrouped)) => report(receiver, &outcomes, &ungrouped),
        Err(error) => refusal(&error),
    }
}

async fn store(
    receiver: &Receiver,
    request: Request,
) -> Result<(Vec<Outcome>, Ungrouped), PushError> {
    let by = group_by(&Words {
        headers: request.headers(),
        query: request.uri().query(),
    })?;
    let mut received = receiver.receive(request).await?;
    let bytes = received.wire_bytes();
    let body = run_long(bytes, || received.body())?;
    let format = received.format();
    let split = run_long(body.len(), || {
        Split::new(format, &body, &by, &mut received.room)
    })?;
    let mut left = body
        .len()
        .saturating_mul(COPIES)
        .saturating_add(SPARE_BYTES);
    let mut outcomes = Vec::with_capacity(split.parts().len());
    for part in split.parts() {
        let result = store_part(receiver, &mut received, &split, part, &mut left).await;
        outcomes.push(Outcome {
            grouping: part.grouping.clone(),
            result,
        });
    }
    Ok((outcomes, split.ungrouped))
}

async fn store_part(
    receiver: &Receiver,
    received: &mut Received,
    split: &Split<'_>,
    part: &Part,
    left: &mut usize,
) -> Result<(), PushError> {
    let body = split.body_of(part);
    let too_long = "the comment lines are too long for so many groups";
    let rest = left.checked_sub(body.bytes.len());
    *left = rest.ok_or_else(|| PushError::body(None, too_long))?;
    let bytes = body.bytes.len();
    received.room.grow(bytes).map_err(PushError::busy)?;
    let push = Push {
        replace: received.replaces(),
        format: received.format(),
        body: &body.bytes,
        asked: &received.asked,
    };
    let stored = receiver.store(&part.grouping, push).await;
    received.room.shrink(bytes);
    stored.map_err(|error| body.located(error))
}

/// Returns the names of the labels that name groups.
fn group_by(words: &Words<'_>) -> Result<Vec<String>, PushError> {
    let text = words.get("narthex-push-group-by", "group_by");
    let text = text.as_deref().unwrap_or(GROUP_BY);
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let is_valid = |name: &String| !name.is_empty() && !name.starts_with("__");
    if !names.iter().all(is_valid) {
        return Err(invalid("group_by", text, "a label name is improper"));
    }
    if !names.iter().any(|name| name == "job") {
        return Err(invalid("group_by", text, "job is not among the labels"));
    }
    Ok(names)
}

fn report(receiver: &Receiver, outcomes: &[Outcome], ungrouped: &Ungrouped) -> Response {
    let mut worst = None;
    let mut refused = |error: &PushError| {
        worst = worst.max(Some(error.status().as_u16()));
        (error.status().as_u16(), error.to_string())
    };
    let mut groups = Vec::with_capacity(outcomes.len());
    for Outcome { grouping, result } in outcomes {
        let labels = grouping.labels().iter();
        let labels: Map<String, Value> = labels
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        groups.push(match result {
            Ok(()) => json!({ "labels": labels, "status": receiver.success().as_u16() }),
            Err(error) => {
                let (status, error) = refused(error);
                json!({ "labels": labels, "status": status, "error": error })
            }
        });
    }
    let errors = ungrouped
        .errors
        .iter()
        .map(|error| Value::from(refused(error).1));
    let ungrouped = json!({ "total": ungrouped.total, "errors": errors.collect::<Vec<_>>() });
    let stored = outcomes.iter().filter(|outcome| outcome.result.is_ok());
    let stored = stored.count();
    let body = json!({
        "status": if worst.is_none() { "success" } else { "error" },
        "data": {
            "stored": stored,
            "refused": outcomes.len() - stored,
            "ungrouped": ungrouped,
            "groups": groups,
        },
    });
    let status = worst.and_then(|worst| StatusCode::from_u16(worst).ok());
    let status = status.unwrap_or(receiver.success());
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
    response
}
