//! `/query_cost` and `/query_range_cost`.

use crate::{
    answer::{Answer, respond},
    call::run,
    config::{Api, Gate},
    error::ApiError,
    query::{instant_options, range_options},
};
use http::HeaderMap;
use narthex_net::axum::{
    extract::{Request, State},
    response::Response,
};
use narthex_promql::CostEstimate;
use serde_json::json;
use std::sync::Arc;

pub(crate) async fn instant(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    respond(estimate(&api, request, false).await, &headers)
}

pub(crate) async fn range(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    respond(estimate(&api, request, true).await, &headers)
}

/// Estimates a query that the parameters describe, those of its answer included.
async fn estimate(api: &Arc<Api>, request: Request, is_range: bool) -> Result<Answer, ApiError> {
    let options = if is_range {
        range_options(api, request).await?
    } else {
        instant_options(api, request).await?
    };
    run(api, Gate::Query, options.timeout, move |api, ctx| {
        let CostEstimate {
            series,
            samples,
            mut warnings,
        } = options.estimate(api, ctx)?;
        warnings.extend(options.warning_of_stats());
        let data = json!({"estimate": {"seriesTouched": series, "samplesRead": samples}});
        let mut answer = Answer::whole(data.to_string().into_bytes());
        answer.warnings = warnings;
        Ok(answer)
    })
    .await
}
