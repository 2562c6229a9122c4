//! `/query_cost` and `/query_range_cost`.

use crate::{
    answer::Answer,
    call::run,
    config::{Api, Gate},
    error::ApiError,
    query::{Options, instant_options, range_options},
};
use narthex_net::axum::extract::Request;
use narthex_promql::CostEstimate;
use serde_json::json;
use std::sync::Arc;

pub(crate) async fn instant(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    estimate(&api, instant_options(&api, request).await?).await
}

pub(crate) async fn range(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    estimate(&api, range_options(&api, request).await?).await
}

/// Estimates a query that the parameters describe, those of its answer included.
async fn estimate(api: &Arc<Api>, options: Options) -> Result<Answer, ApiError> {
    run(api, Gate::Query, options.timeout, move |api, ctx| {
        let CostEstimate {
            series,
            samples,
            mut warnings,
        } = options.estimate(api, ctx)?;
        warnings.extend(options.warning_of_stats());
        let data = json!({"estimate": {"seriesTouched": series, "samplesRead": samples}});
        let mut answer = Answer::json(&data);
        answer.warnings = warnings;
        Ok(answer)
    })
    .await
}
