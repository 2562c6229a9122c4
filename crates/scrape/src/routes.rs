//! The API's routes about targets: `/api/v1/targets` and what is below it, `/api/v1/scrape_pools`.

use crate::{
    JobConfig, Manager, selector,
    status::{ActiveTarget, PoolStatus},
    why,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use narthex_model::{Family, LabelSet, Matcher, MetricType, date::rfc3339, duration, relabel};
use narthex_net::{
    Router,
    axum::{extract::Query, response::Response, routing::get},
    body_of, respond_json,
};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

type Params = Query<HashMap<String, String>>;

/// Returns the handlers of scraping.
pub fn routes(manager: Arc<Manager>) -> Router {
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let (of_targets, at_targets) = (Arc::clone(&manager), Arc::clone(&gate));
    let targets = move |query: Params, headers: HeaderMap| {
        let manager = Arc::clone(&of_targets);
        let page = behind(Arc::clone(&at_targets), move || Page::new(&manager, &query));
        async move { page.await.respond(&headers) }
    };
    let of_metadata = Arc::clone(&manager);
    let metadata = move |query: Params, headers: HeaderMap| {
        let manager = Arc::clone(&of_metadata);
        let answer = behind(Arc::clone(&gate), move || metadata(&manager, &query));
        async move { answered(answer.await.0, &headers) }
    };
    let of_steps = Arc::clone(&manager);
    let steps = move |query: Params, headers: HeaderMap| {
        let answer = relabel_steps(&of_steps, &query);
        async move { answered(answer, &headers) }
    };
    let of_pools = Arc::clone(&manager);
    let pools = move |headers: HeaderMap| {
        let data = json!({ "scrapePools": of_pools.pool_names() });
        async move { success(data, &headers) }
    };
    let config = move |query: Params, headers: HeaderMap| {
        let answer = pool_of(&manager, &query).map(|job| json!({ "yaml": &*job.shown }));
        async move { answered(answer, &headers) }
    };
    Router::new()
        .route("/api/v1/targets", get(targets))
        .route("/api/v1/targets/metadata", get(metadata))
        .route("/api/v1/targets/relabel_steps", get(steps))
        .route("/api/v1/scrape_pools", get(pools))
        .route("/api/v1/scrape_pools/config", get(config))
}

/// Long lists that are made or sent at once.
const AT_ONCE: usize = 4;

/// Pieces of a list are about this long.
const PIECE_BYTES: usize = 64 << 10;

/// Runs `work`, which looks at every target, beside the threads that serve; what it returns comes with its permit.
async fn behind<T: Send + 'static>(
    gate: Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Held<T> {
    let permit = gate
        .acquire_owned()
        .await
        .expect("the gate is never closed");
    let made = tokio::task::spawn_blocking(work).await;
    Held(made.expect("listing targets does not panic"), permit)
}

/// A list with the permit that it holds until it has been sent.
struct Held<T>(T, OwnedSemaphorePermit);

/// `/api/v1/targets` on its way into text, a target at a time: there may be a hundred thousand.
struct Page {
    active: std::vec::IntoIter<Arc<ActiveTarget>>,
    begun: bool,
    /// The members behind the list, without the opening brace.
    rest: String,
}

impl Held<Page> {
    fn respond(self, headers: &HeaderMap) -> Response {
        let Self(mut page, permit) = self;
        let mut first = br#"{"status":"success","data":{"activeTargets":["#.to_vec();
        if !page.write(&mut first) {
            return respond_json(first, headers);
        }
        let mut next = Some(first);
        let mut more = true;
        let pieces = move || {
            // Until the last piece has left.
            let _permit = &permit;
            if let Some(first) = next.take() {
                return Some(first.into());
            }
            let mut piece = Vec::with_capacity(PIECE_BYTES + 4096);
            if more {
                more = page.write(&mut piece);
            }
            (!piece.is_empty()).then(|| piece.into())
        };
        let mut response = Response::new(body_of(pieces));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        response
    }
}

impl Page {
    /// Writes a piece; tells whether there is more.
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        while out.len() < PIECE_BYTES {
            let Some(target) = self.active.next() else {
                out.extend_from_slice(b"],");
                out.extend_from_slice(self.rest.as_bytes());
                out.push(b'}');
                return false;
            };
            if std::mem::replace(&mut self.begun, true) {
                out.push(b',');
            }
            out.extend_from_slice(shown(&target).to_string().as_bytes());
        }
        true
    }
}

fn answered(answer: Result<Value, String>, headers: &HeaderMap) -> Response {
    match answer {
        Ok(data) => success(data, headers),
        Err(error) => bad_data(&error, headers),
    }
}

fn success(data: Value, headers: &HeaderMap) -> Response {
    respond_json(
        json!({ "status": "success", "data": data }).to_string(),
        headers,
    )
}

fn bad_data(error: &str, headers: &HeaderMap) -> Response {
    let body = json!({ "status": "error", "errorType": "bad_data", "error": error });
    let mut response = respond_json(body.to_string(), headers);
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

impl Page {
    fn new(manager: &Manager, query: &HashMap<String, String>) -> Self {
        let (active, rest) = targets(manager, query);
        let rest = rest.to_string();
        Self {
            active: active.into_iter(),
            begun: false,
            rest: rest.strip_prefix('{').unwrap_or_default().to_owned(),
        }
    }
}

/// Returns the active targets that are asked for, and everything else there is to say as an object.
fn targets(manager: &Manager, query: &HashMap<String, String>) -> (Vec<Arc<ActiveTarget>>, Value) {
    let state = query.get("state").map(|state| state.to_ascii_lowercase());
    let wants = |wanted| {
        matches!(state.as_deref(), None | Some("" | "any")) || state.as_deref() == Some(wanted)
    };
    let pools = manager.pools();
    let wanted = query.get("scrapePool").filter(|pool| !pool.is_empty());
    let here = |pool: &&PoolStatus| wanted.is_none_or(|wanted| *wanted == pool.name);
    let active: Vec<Arc<ActiveTarget>> = pools
        .iter()
        .filter(here)
        .flat_map(|pool| &pool.active)
        .filter(|_| wants("active"))
        .cloned()
        .collect();
    if !wants("dropped") {
        let rest = json!({ "droppedTargets": [], "droppedTargetCounts": null });
        return (active, rest);
    }
    let shown_pools = || pools.iter().filter(here);
    let dropped: Vec<Value> = shown_pools().flat_map(dropped_of).collect();
    let failed: Vec<Value> = shown_pools().flat_map(failed_of).collect();
    // Of all pools, whichever is asked for.
    let counts = |count: fn(&PoolStatus) -> Value| -> Map<String, Value> {
        let pair = |pool: &PoolStatus| (pool.name.clone(), count(pool));
        pools.iter().map(pair).collect()
    };
    let rest = json!({
        "droppedTargets": dropped,
        "droppedTargetCounts": counts(|pool| pool.unscraped.dropped_count().into()),
        "droppedTargetReasons": counts(|pool| Value::Object(drops_by_reason(pool))),
        "failedTargets": failed,
        "failedTargetCounts": counts(|pool| pool.unscraped.failed_count.into()),
    });
    (active, rest)
}

fn dropped_of(pool: &PoolStatus) -> impl Iterator<Item = Value> {
    pool.unscraped.dropped.iter().map(|found| {
        let mut entry =
            json!({ "discoveredLabels": labels(&found.discovered), "scrapePool": pool.name });
        if let (Some(rule), Some(entry)) = (pool.rules.get(found.rule), entry.as_object_mut()) {
            let mut shown = why::rule(rule);
            if let Some(shown) = shown.as_object_mut() {
                shown.insert("index".to_owned(), found.rule.into());
            }
            entry.insert("reason".to_owned(), why::dropped(found.rule, rule).into());
            entry.insert("rule".to_owned(), shown);
        }
        entry
    })
}

fn failed_of(pool: &PoolStatus) -> impl Iterator<Item = Value> {
    pool.unscraped.failed.iter().map(|found| {
        json!({
            "discoveredLabels": labels(&found.discovered),
            "scrapePool": pool.name,
            "reason": found.reason,
        })
    })
}

/// Counts what each rule of a pool dropped.
fn drops_by_reason(pool: &PoolStatus) -> Map<String, Value> {
    let drops = pool.rules.iter().zip(&pool.unscraped.drops_by_rule);
    drops
        .enumerate()
        .filter(|(_, (_, count))| **count > 0)
        .map(|(at, (rule, count))| (why::dropped(at, rule), (*count).into()))
        .collect()
}

/// Returns the configuration of the pool that is asked for.
fn pool_of(manager: &Manager, query: &HashMap<String, String>) -> Result<JobConfig, String> {
    let name = query.get("scrapePool").filter(|name| !name.is_empty());
    let name = name.ok_or("no scrapePool parameter provided")?;
    manager
        .pool_config(name)
        .ok_or_else(|| format!("error retrieving scrape config: scrape pool {name:?} not found"))
}

/// Shows what each rule of a pool makes of labels.
fn relabel_steps(manager: &Manager, query: &HashMap<String, String>) -> Result<Value, String> {
    if query.get("scrapePool").is_none_or(String::is_empty) {
        return Err("no scrapePool parameter provided".to_owned());
    }
    let text = query.get("labels").filter(|text| !text.is_empty());
    let text = text.ok_or("no labels parameter provided")?;
    let given: BTreeMap<String, String> =
        serde_json::from_str(text).map_err(|error| format!("error parsing labels: {error}"))?;
    let job = pool_of(manager, query)?;
    let given = LabelSet::new(given.iter().map(|(name, value)| (&**name, &**value)));
    let outputs = relabel::steps(&given, &job.relabel_configs);
    let steps: Vec<Value> = job
        .relabel_configs
        .iter()
        .zip(outputs)
        .map(|(rule, output)| {
            json!({
                "rule": why::rule(rule),
                "output": labels(output.as_ref().unwrap_or(&LabelSet::empty())),
                "keep": output.is_some(),
            })
        })
        .collect();
    Ok(json!({ "steps": steps }))
}

fn shown(active: &ActiveTarget) -> Value {
    let status = active.status();
    let found = active.found();
    json!({
        "discoveredLabels": labels(&found.discovered),
        "labels": labels(&active.target.labels),
        "scrapePool": active.pool,
        "scrapeUrl": active.target.shown_url,
        "globalUrl": active.target.shown_url,
        "lastError": status.last_error,
        "lastScrape": status.last_scrape_ms.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), rfc3339),
        "lastScrapeDuration": status.last_duration.as_secs_f64(),
        "lastScrapeBytes": status.body_bytes,
        "lastScrapeSamples": status.samples,
        "health": status.health.as_str(),
        "scrapeInterval": period(found.interval),
        "scrapeTimeout": period(found.timeout),
    })
}

/// Lists what is known of metrics: of all or one, of all targets or those a selector takes.
fn metadata(manager: &Manager, query: &HashMap<String, String>) -> Result<Value, String> {
    let text = |name: &str| {
        query
            .get(name)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    };
    let limit = match text("limit").map(str::parse::<i64>) {
        None => usize::MAX,
        Some(Ok(limit)) => usize::try_from(limit).unwrap_or(usize::MAX),
        Some(Err(_)) => return Err("limit must be a number".to_owned()),
    };
    let matchers = match text("match_target") {
        None => Vec::new(),
        Some(text) => selector::parse(text)
            .map_err(|error| format!("invalid parameter \"match_target\": {error}"))?,
    };
    let metric = text("metric");
    let mut found = Vec::new();
    for target in manager.pools().iter().flat_map(|pool| &pool.active) {
        if found.len() >= limit {
            break;
        }
        let own = &target.target.labels;
        let taken = |matcher: &Matcher| matcher.matches(own.get(&matcher.name).unwrap_or_default());
        if !matchers.iter().all(taken) {
            continue;
        }
        let Some((schema, synthetic)) = target.schema() else {
            continue;
        };
        // A series that nothing was said of has a family, too; nobody is told.
        let told = |family: &&Family| {
            family.metric_type != MetricType::Unknown
                || !family.help.is_empty()
                || !family.unit.is_empty()
        };
        let families = schema.families().iter().skip(synthetic).filter(told);
        for family in families.filter(|family| metric.is_none_or(|name| name == &*family.name)) {
            let mut entry = json!({
                "target": labels(own),
                "type": family.metric_type.as_str(),
                "help": &*family.help,
                "unit": &*family.unit,
            });
            if let (None, Some(entry)) = (metric, entry.as_object_mut()) {
                entry.insert("metric".to_owned(), Value::from(&*family.name));
            }
            found.push(entry);
        }
    }
    Ok(Value::Array(found))
}

fn labels(set: &LabelSet) -> Value {
    let pairs = set
        .iter()
        .map(|label| (label.name().to_owned(), Value::from(label.value())));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

fn period(duration: Duration) -> String {
    duration::format(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
