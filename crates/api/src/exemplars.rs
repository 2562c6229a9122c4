//! `/query_exemplars`.

use crate::{
    answer::{Answer, respond},
    config::Api,
    error::ApiError,
    json,
    params::Params,
    query::run,
};
use http::{HeaderMap, StatusCode};
use narthex_model::storage::{ExemplarSeries, SeriesQuery};
use narthex_net::axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use narthex_promql::ast::Expr;
use std::sync::Arc;

pub(crate) async fn exemplars(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    match exemplars_of(&api, request).await {
        Ok(Some(answer)) => respond(Ok(answer), &headers),
        Ok(None) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Err(error) => respond(Err(error), &headers),
    }
}

/// Returns the exemplars of the series a query selects; nothing for a query that selects none.
async fn exemplars_of(api: &Arc<Api>, request: Request) -> Result<Option<Answer>, ApiError> {
    let params = Params::of(request).await?;
    let range = params.range()?;
    if range.is_empty() {
        return Err(ApiError::bad_data(
            "end timestamp must not be before start timestamp",
        ));
    }
    let any_of = api
        .engine
        .inspect(params.get("query"), |expr| {
            let mut selectors = Vec::new();
            expr.walk(&mut |node| match node {
                Expr::Vector(e) => selectors.push(e.matchers.clone()),
                Expr::Matrix(e) => selectors.push(e.selector.matchers.clone()),
                _ => {}
            });
            selectors
        })
        .map_err(|error| ApiError::bad_data(error.to_string()))?;
    if any_of.is_empty() {
        return Ok(None);
    }
    let query = SeriesQuery {
        any_of,
        range,
        limit: None,
    };
    let answer = run(api, api.config.timeout, move |api, ctx| {
        let view = api.store.view(query.range)?;
        Ok(Answer::list(view.exemplars(&query, ctx)?, write))
    });
    answer.await.map(Some)
}

fn write(out: &mut Vec<u8>, series: ExemplarSeries) {
    out.extend_from_slice(br#"{"seriesLabels":"#);
    json::labels(out, &series.labels);
    out.extend_from_slice(br#","exemplars":"#);
    json::list(out, &series.exemplars, |out, (time_ms, exemplar)| {
        out.extend_from_slice(br#"{"labels":"#);
        json::labels(out, &exemplar.labels);
        out.extend_from_slice(br#","value":"#);
        json::value(out, exemplar.value);
        out.extend_from_slice(br#","timestamp":"#);
        json::time(out, *time_ms);
        out.push(b'}');
    });
    out.push(b'}');
}
