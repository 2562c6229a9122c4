//! `/query_exemplars`.

use crate::{
    answer::{Answer, Data},
    call::run,
    config::{Api, Gate},
    error::ApiError,
    json,
    params::Params,
};
use narthex_model::storage::{ExemplarSeries, SeriesQuery};
use narthex_net::axum::extract::Request;
use narthex_promql::{ErrorKind, ast::Expr};
use std::sync::Arc;

/// Returns the exemplars of the series a query selects; nothing for a query that selects no series.
pub(crate) async fn exemplars(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::read(&api, request).await?;
    let range = params.range()?;
    if range.is_empty() {
        return Err(ApiError::bad_data(
            "end timestamp must not be before start timestamp",
        ));
    }
    run(&api, Gate::Metadata, api.config.timeout, move |api, ctx| {
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
            return Ok(Answer::new(Data::Nothing));
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
    })
    .await
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
