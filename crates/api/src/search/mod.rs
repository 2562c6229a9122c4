//! `/search/metric_names`, `/search/label_names` and `/search/label_values`: names for completion, as lines of JSON.
//!
//! **Invariant:** parameters, errors, scores and lines are those of Prometheus: batches of results, then a line that
//! says whether there is more.

mod filter;

use crate::{
    answer::{Answer, Data},
    call::run,
    config::{Api, Gate},
    error::{ApiError, ErrorType},
    json,
    listing::selectors,
    params::Params,
};
use filter::Filter;
use narthex_model::{
    Family, METRIC_NAME, MetricType,
    storage::{Context, Lease, Listing, SeriesQuery, TimeRange, View},
};
use narthex_net::axum::extract::Request;
use std::{collections::HashMap, sync::Arc};

/// Results without `limit`, and in a line without `batch_size`.
const DEFAULT: usize = 100;
/// Most results in a line.
const MAX_BATCH: usize = 1000;
/// Most `search[]` terms.
const MAX_TERMS: usize = 32;
/// Longest `search[]` term, in bytes: comparing takes as long as the term and the name together.
const TERM_BYTES: usize = 1 << 10;
/// How far back a search without `start` looks.
const HOUR_MS: i64 = 3_600_000;

/// Metadata by name of the family.
type Families = HashMap<Arc<str>, Vec<Family>>;

/// What is searched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SearchKind {
    MetricNames,
    LabelNames,
    LabelValues,
}

impl SearchKind {
    fn name(self) -> &'static str {
        match self {
            Self::MetricNames => "metric_names",
            Self::LabelNames => "label_names",
            Self::LabelValues => "label_values",
        }
    }
}

pub(crate) async fn search(
    api: Arc<Api>,
    request: Request,
    kind: SearchKind,
) -> Result<Answer, ApiError> {
    if !api.config.search {
        let disabled = ApiError::new(ErrorType::Unavailable, "search API disabled");
        return Err(disabled);
    }
    let params = Params::read(&api, request).await?;
    let search = Search::read(&params, &api, kind)?;
    run(&api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let (any_of, _parsed) = selectors(api, &params, ctx, false, |error| error)?;
        let range = TimeRange::new(search.start_ms, search.end_ms);
        let query = SeriesQuery {
            any_of,
            range,
            limit: None,
        };
        let view = api.store.view(range)?;
        let listing = match kind {
            SearchKind::MetricNames => view.label_values(METRIC_NAME, &query, ctx)?,
            SearchKind::LabelNames => view.label_names(&query, ctx)?,
            SearchKind::LabelValues => view.label_values(&search.label, &query, ctx)?,
        };
        let (families, lease) = if search.with_metadata {
            families(&*view, ctx)?
        } else {
            (HashMap::new(), ctx.budget.lease(0)?)
        };
        let mut answer = search.answer(listing, families, ctx)?;
        answer.holds.add(lease);
        Ok(answer)
    })
    .await
}

/// A search's parameters.
#[derive(Debug)]
struct Search {
    kind: SearchKind,
    label: String,
    start_ms: i64,
    end_ms: i64,
    filter: Filter,
    order: Order,
    with_score: bool,
    with_metadata: bool,
    limit: usize,
    batch: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Order {
    Ascending,
    Descending,
    Score,
}

impl Search {
    fn read(params: &Params, api: &Api, kind: SearchKind) -> Result<Self, ApiError> {
        let now_ms = (api.now_ms)();
        let start_ms = params.time_or("start", now_ms - HOUR_MS)?;
        let end_ms = params.time_or("end", now_ms)?;
        if end_ms < start_ms {
            return Err(ApiError::bad_data(
                "end timestamp must not be before start timestamp",
            ));
        }
        let terms: Vec<String> = params.all("search[]").map(Into::into).collect();
        if terms.len() > MAX_TERMS {
            return Err(ApiError::bad_data(format!(
                "too many search[] terms: got {}, maximum is {MAX_TERMS}",
                terms.len()
            )));
        }
        if terms.iter().any(|term| term.len() > TERM_BYTES) {
            let reason = format!("longer than {TERM_BYTES} bytes");
            return Err(ApiError::parameter("search[]", reason));
        }
        let filter = filter(params, &terms)?;
        let with_score = flag(params, "include_score", false)?;
        let order = order(params, kind, terms.is_empty())?;
        let (limit, batch) = sizes(params, api.config.max_search_limit)?;
        let with_metadata =
            kind == SearchKind::MetricNames && flag(params, "include_metadata", false)?;
        let label = params.get("label").into_owned();
        if kind == SearchKind::LabelValues && label.is_empty() {
            return Err(ApiError::bad_data("missing required parameter \"label\""));
        }
        Ok(Self {
            kind,
            label,
            start_ms,
            end_ms,
            filter,
            order,
            with_score,
            with_metadata,
            limit,
            batch,
        })
    }

    /// Selects and orders the results, and returns what writes them.
    fn answer(
        self,
        listing: Listing<String>,
        families: Families,
        ctx: &Context,
    ) -> Result<Answer, ApiError> {
        let (mut results, mut pace) = (Vec::new(), ctx.stop.pace());
        for name in listing.items {
            pace.spend(self.filter.work(&name))?;
            if let Some(score) = self.filter.score(&name) {
                results.push((name, score));
            }
        }
        match self.order {
            Order::Ascending => {}
            Order::Descending => results.reverse(),
            // Names are sorted, and stay so where scores are equal.
            Order::Score => results.sort_by(|a, b| b.1.total_cmp(&a.1)),
        }
        let has_more = results.len() > self.limit;
        results.truncate(self.limit);
        let mut results = results.into_iter();
        let mut warnings = Some(listing.warnings);
        let mut is_done = false;
        let write = move |out: &mut Vec<u8>| {
            if is_done {
                return false;
            }
            let batch: Vec<(String, f64)> = results.by_ref().take(self.batch).collect();
            let first = warnings.take();
            if first.is_none() && batch.is_empty() {
                is_done = true;
                out.extend_from_slice(br#"{"status":"success","has_more":"#);
                out.extend_from_slice(if has_more { b"true}\n" } else { b"false}\n" });
                return false;
            }
            out.extend_from_slice(br#"{"results":"#);
            json::list(out, &batch, |out, (name, score)| {
                self.result(out, name, *score, &families);
            });
            if let Some(warnings) = first.filter(|warnings| !warnings.is_empty()) {
                out.extend_from_slice(br#","warnings":"#);
                json::list(out, warnings.iter().map(String::as_str), json::string);
            }
            out.extend_from_slice(b"}\n");
            true
        };
        let mut answer = Answer::new(Data::Lines(Box::new(write)));
        answer.holds.add(listing.lease);
        Ok(answer)
    }

    fn result(&self, out: &mut Vec<u8>, name: &str, score: f64, families: &Families) {
        out.extend_from_slice(match self.kind {
            SearchKind::LabelValues => br#"{"value":"#,
            _ => br#"{"name":"#,
        });
        json::string(out, name);
        if self.with_score {
            out.extend_from_slice(br#","score":"#);
            json::number(out, score);
        }
        if let Some(family) = family_of(families, name) {
            let kind = family.metric_type.as_str();
            for (key, text) in [
                ("type", kind),
                ("help", &family.help),
                ("unit", &family.unit),
            ] {
                if !text.is_empty() {
                    out.extend_from_slice(b",\"");
                    out.extend_from_slice(key.as_bytes());
                    out.extend_from_slice(b"\":");
                    json::string(out, text);
                }
            }
        }
        out.push(b'}');
    }
}

fn filter(params: &Params, terms: &[String]) -> Result<Filter, ApiError> {
    let threshold = match &*params.scalar("fuzz_threshold")? {
        "" => 0,
        text => match text.parse() {
            Ok(percent @ 0..=100) => percent,
            _ => {
                return Err(ApiError::bad_data(format!(
                    "invalid fuzz_threshold {text:?}: must be 0-100"
                )));
            }
        },
    };
    let is_jaro = match &*params.scalar("fuzz_alg")? {
        "" | "subsequence" => false,
        "jarowinkler" => true,
        other => {
            return Err(ApiError::bad_data(format!(
                "unsupported fuzz_alg {other:?}: must be one of [subsequence jarowinkler]"
            )));
        }
    };
    let is_sensitive = flag(params, "case_sensitive", true)?;
    Ok(Filter::new(
        terms,
        f64::from(threshold) / 100.0,
        is_jaro,
        is_sensitive,
    ))
}

fn order(params: &Params, kind: SearchKind, no_terms: bool) -> Result<Order, ApiError> {
    let (by, direction) = (params.scalar("sort_by")?, params.scalar("sort_dir")?);
    let refused = |reason: String| Err(ApiError::bad_data(reason));
    if !direction.is_empty() && by.is_empty() {
        return refused("sort_dir is only valid when sort_by is set".to_owned());
    }
    if !direction.is_empty() && by == "score" {
        return refused("sort_dir is not supported for sort_by=score".to_owned());
    }
    if !matches!(&*direction, "" | "asc" | "dsc") {
        return refused(format!(
            "invalid sort_dir {direction:?}: must be \"asc\" or \"dsc\""
        ));
    }
    if by == "score" && no_terms {
        return refused("sort_by=score requires search[] to be set".to_owned());
    }
    match (&*by, &*direction) {
        ("score", _) => Ok(Order::Score),
        ("alpha", "dsc") => Ok(Order::Descending),
        ("" | "alpha", _) => Ok(Order::Ascending),
        _ => refused(format!(
            "invalid sort_by {by:?} for {}: must be \"alpha\" or \"score\"",
            kind.name()
        )),
    }
}

/// Reads `limit` and `batch_size`.
fn sizes(params: &Params, most: usize) -> Result<(usize, usize), ApiError> {
    let most = Some(most).filter(|most| *most > 0);
    let positive = |name: &str| -> Result<Option<usize>, ApiError> {
        let text = params.scalar(name)?;
        match text
            .parse::<i64>()
            .ok()
            .and_then(|n| usize::try_from(n).ok())
        {
            _ if text.is_empty() => Ok(None),
            Some(number @ 1..) => Ok(Some(number)),
            _ => Err(ApiError::bad_data(format!(
                "invalid {name} {text:?}: must be a positive integer"
            ))),
        }
    };
    let limit = match (positive("limit")?, most) {
        (Some(limit), Some(most)) if limit > most => {
            return Err(ApiError::bad_data(format!(
                "limit {limit} exceeds the configured maximum ({most}, see --web.search.max-limit)"
            )));
        }
        (Some(limit), _) => limit,
        (None, most) => DEFAULT.min(most.unwrap_or(DEFAULT)),
    };
    let batch = positive("batch_size")?.unwrap_or(DEFAULT);
    Ok((limit, batch.min(limit).min(MAX_BATCH)))
}

/// Reads a boolean as Go's `strconv.ParseBool` does.
fn flag(params: &Params, name: &str, default: bool) -> Result<bool, ApiError> {
    match &*params.scalar(name)? {
        "" => Ok(default),
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(ApiError::bad_data(format!(
            "invalid {name} {other:?}: must be boolean"
        ))),
    }
}

/// Returns all metadata by name of the family.
fn families(view: &dyn View, ctx: &Context) -> Result<(Families, Lease), ApiError> {
    let mut by_name = HashMap::<_, Vec<Family>>::new();
    let all = view.metadata(None, ctx)?;
    let lease = ctx
        .budget
        .lease((all.len() * 3 * size_of::<Family>()) as u64)?;
    for family in all {
        let known = by_name.entry(Arc::clone(&family.name)).or_default();
        if known
            .iter()
            .all(|other| other.metric_type != family.metric_type)
        {
            known.push(family);
        }
    }
    Ok((by_name, lease))
}

/// Returns the family that a metric belongs to: the one of its name, or of its name without a suffix that the family's
/// type gives its series.
fn family_of<'a>(families: &'a Families, name: &str) -> Option<&'a Family> {
    if let Some(known) = families.get(name) {
        return known.first();
    }
    let (family, suffix) = name.split_at(name.rfind('_')?);
    if matches!(suffix, "_total" | "_info") && family.ends_with(suffix) {
        return None;
    }
    use MetricType::{Counter, GaugeHistogram, Histogram, Info, Summary};
    let types: &[MetricType] = match suffix {
        "_total" => &[Counter],
        "_bucket" => &[Histogram, GaugeHistogram],
        "_sum" | "_count" => &[Histogram, GaugeHistogram, Summary],
        "_gsum" | "_gcount" => &[GaugeHistogram],
        "_info" => &[Info],
        _ => return None,
    };
    let known = families.get(family)?.iter();
    known
        .into_iter()
        .find(|family| types.contains(&family.metric_type))
}
