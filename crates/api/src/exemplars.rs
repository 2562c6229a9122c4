//! `/query_exemplars`.

use crate::{
    answer::{Answer, Data, respond},
    call::run,
    config::{Api, Gate},
    error::ApiError,
    json,
    params::Params,
};
use http::{HeaderMap, StatusCode};
use narthex_model::storage::{ExemplarSeries, SeriesQuery};
use narthex_net::axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use narthex_promql::{ErrorKind, ast::Expr};
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

/// Returns the exemplars of the series a query selects; `None` for a query that selects no series.
async fn exemplars_of(api: &Arc<Api>, request: Request) -> Result<Option<Answer>, ApiError> {
    let params = Params::read(api, request).await?;
    let range = params.range()?;
    if range.is_empty() {
        return Err(ApiError::bad_data(
            "end timestamp must not be before start timestamp",
        ));
    }
    let answer = run(api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let any_of = api
            .engine
            .inspect(&params.get("query"), ctx, |expr| {
                let mut selectors = Vec::new();
                expr.walk(&mut |node| match node {
                    Expr::Vector(e) => selectors.push(e.matchers.clone()),
                    Expr::Matrix(e) => selectors.push(e.selector.matchers.clone()),
                    _ => {}
                });
                selectors
            })
            .map_err(|error| match error.kind() {
                ErrorKind::BadData => ApiError::bad_data(error.to_string()),
                _ => error.into(),
            })?;
        if any_of.is_empty() {
            let mut nothing = Answer::whole(Vec::new());
            nothing.data = Data::Nothing;
            return Ok(nothing);
        }
        let query = SeriesQuery {
            any_of,
            range,
            limit: None,
        };
        let view = api.store.view(query.range)?;
        let found = view.exemplars(&query, ctx)?;
        let lease = ctx.budget.lease(found.iter().map(heap_bytes).sum())?;
        let mut answer = Answer::list(found, write);
        answer.holds.add(lease);
        Ok(answer)
    });
    let answer = answer.await?;
    Ok(Some(answer).filter(|answer| !matches!(answer.data, Data::Nothing)))
}

fn heap_bytes(series: &ExemplarSeries) -> u64 {
    let exemplars = series.exemplars.iter();
    let sets = exemplars.map(|(_, exemplar)| exemplar.labels.heap_bytes());
    let lists = size_of_val(series) + size_of_val(&*series.exemplars);
    (lists + series.labels.heap_bytes() + sets.sum::<usize>()) as u64
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
