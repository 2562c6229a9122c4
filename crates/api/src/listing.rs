//! `/labels`, `/label/<name>/values`, `/series`, `/metadata`.

use crate::{
    answer::{Answer, Item, items_of, respond},
    call::{run, run_known},
    config::{Api, Gate},
    error::ApiError,
    json,
    kept::{Asked, LookedUp, Of, Question},
    params::Params,
};
use http::HeaderMap;
use narthex_expfmt::unescape_name;
use narthex_model::{
    Family, Matcher, MetricType,
    storage::{Context, Lease, Listing, SeriesQuery, StorageError, TimeRange, View},
};
use narthex_net::axum::{
    extract::{Path, Request, State},
    response::Response,
};
use narthex_promql::{ErrorKind, parse_selector_within};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

pub(crate) async fn label_names(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    listed(&api, request, Of::Names, |view, query, ctx| {
        view.label_names(query, ctx)
    })
    .await
}

pub(crate) async fn label_values(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let name = unescape_name(&name);
    if name.is_empty() {
        return respond(
            Err(ApiError::bad_data("invalid label name: \"\"")),
            &headers,
        );
    }
    let of = Of::Values(name.clone());
    let list = move |view: &dyn View, query: &SeriesQuery, ctx: &Context| {
        view.label_values(&name, query, ctx)
    };
    let outcome = listed(&api, request, of, list);
    respond(outcome.await, &headers)
}

pub(crate) async fn series(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    listed(&api, request, Of::Series, |view, query, ctx| {
        view.series(query, ctx)
    })
    .await
}

/// Runs a listing: reads the common parameters, asks the store, writes the items.
async fn listed<T: Item>(
    api: &Arc<Api>,
    request: Request,
    of: Of,
    list: impl Fn(&dyn View, &SeriesQuery, &Context) -> Result<Listing<T>, StorageError>
    + Send
    + 'static,
) -> Result<Answer, ApiError> {
    let params = Params::read(api, request).await?;
    let match_required = of == Of::Series;
    if match_required && params.all("match[]").next().is_none() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    let limit = params.limit()?;
    let range = params.range()?;
    let question = Question {
        of,
        selectors: params.all("match[]").map(Cow::into_owned).collect(),
        limit,
    };
    let length_ms = range.max_ms.saturating_sub(range.min_ms);
    let key = api.short.key((&question, length_ms));
    let work = move |api: &Api, ctx: &Context| {
        let named = |reason: String| {
            // Only `/series` names the parameter in this error.
            if match_required {
                format!("invalid parameter \"match[]\": {reason}")
            } else {
                reason
            }
        };
        let (any_of, _parsed) = selectors(api, &params, ctx, false, named)?;
        if range.is_empty() {
            return Ok(Answer::whole(b"[]".to_vec()));
        }
        let query = SeriesQuery {
            any_of,
            range,
            limit,
        };
        kept_or_listed(api, &question, &query, ctx, || {
            let helpers = api.engine.helpers().of_query();
            let view = api.store.view(query.range)?;
            let listing = list(&*view, &query, ctx)?;
            let mut answer = Answer::of_list(Default::default(), listing.items, &helpers, ctx)?;
            answer.holds.add(listing.lease);
            answer.warnings = listing.warnings;
            if listing.truncated {
                answer
                    .warnings
                    .push("results truncated due to limit".to_owned());
            }
            Ok(answer)
        })
    };
    run_known(api, Gate::Metadata, api.config.timeout, key, work).await
}

/// Returns the answer that was given before, if it would be given again; otherwise lists, and keeps what comes out if it was
/// asked for before.
fn kept_or_listed(
    api: &Api,
    question: &Question,
    query: &SeriesQuery,
    ctx: &Context,
    list: impl FnOnce() -> Result<Answer, ApiError>,
) -> Result<Answer, ApiError> {
    let asked = Asked {
        store: &*api.store,
        question,
        query,
        ctx,
    };
    let mark = match api.kept.look_up(asked)? {
        LookedUp::Answer(text) => return Ok(Answer::enveloped(text)),
        LookedUp::Unknown(mark) => mark,
    };
    let answer = list()?;
    let most = api.kept.most_of_one();
    let Some(mark) = mark else {
        return Ok(answer);
    };
    let Ok(_room) = ctx.budget.lease(most as u64) else {
        return Ok(answer);
    };
    if !asked.has_still(mark)? {
        return Ok(answer);
    }
    Ok(match answer.envelop(most) {
        Ok(text) => Answer::enveloped(api.kept.keep(question, mark, text)),
        Err(answer) => answer,
    })
}

/// Parses the selectors of all `match[]`, whose regular expressions share a memory limit; `named` turns the error of
/// one into its message.
pub(crate) fn selectors(
    api: &Api,
    params: &Params,
    ctx: &Context,
    everything: bool,
    named: impl Fn(String) -> String,
) -> Result<(Vec<Vec<Matcher>>, Vec<Lease>), ApiError> {
    let patterns = api.engine.patterns(ctx);
    let (mut all, mut leases) = (Vec::new(), Vec::new());
    for text in params.all("match[]") {
        let (matchers, lease) =
            parse_selector_within(&text, &patterns).map_err(|error| match error.kind() {
                ErrorKind::BadData => ApiError::bad_data(named(error.to_string())),
                _ => error.into(),
            })?;
        if !everything && matchers.iter().all(Matcher::matches_empty) {
            let reason = "match[] must contain at least one non-empty matcher".to_owned();
            return Err(ApiError::bad_data(named(reason)));
        }
        all.push(matchers);
        leases.push(lease);
    }
    Ok((all, leases))
}

pub(crate) async fn metadata(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::read(&api, request).await?;
    // Unlike elsewhere, 0 means no items here.
    let limit = params.metadata_limit("limit")?.unwrap_or(usize::MAX);
    let limit_per_metric = params
        .metadata_limit("limit_per_metric")?
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    run(&api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let view = api.store.view(TimeRange::ALL)?;
        let metric = params.get("metric");
        let metric = Some(&*metric).filter(|metric| !metric.is_empty());
        let families = view.metadata(metric, ctx)?;
        // Each family is held here and once more by name.
        let lease = ctx
            .budget
            .lease((families.len() * 3 * size_of::<Family>()) as u64)?;
        let mut by_name = BTreeMap::<_, Vec<_>>::new();
        for family in families {
            // A scrape without any metadata for it.
            if family.metric_type == MetricType::Unknown
                && family.help.is_empty()
                && family.unit.is_empty()
            {
                continue;
            }
            by_name
                .entry(Arc::clone(&family.name))
                .or_default()
                .push(family);
        }
        let families = by_name.into_iter().take(limit);
        let write = move |out: &mut Vec<u8>, (name, families): (Arc<str>, Vec<Family>)| {
            json::string(out, &name);
            out.push(b':');
            json::list(out, families.iter().take(limit_per_metric), family);
        };
        let mut answer = Answer::made(items_of(*b"{}", families, write));
        answer.holds.add(lease);
        Ok(answer)
    })
    .await
}

fn family(out: &mut Vec<u8>, family: &Family) {
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(family.metric_type.as_str().as_bytes());
    out.extend_from_slice(br#"","help":"#);
    json::string(out, &family.help);
    out.extend_from_slice(br#","unit":"#);
    json::string(out, &family.unit);
    out.push(b'}');
}
