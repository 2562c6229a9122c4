//! Long lists about targets, written while they are sent.
//!
//! **Invariant:** a list holds no target: targets that are gone when their turn comes are left out, so that a slow
//! client keeps no series of such targets alive. Everything else the list holds is told, to be leased until it is sent.

use crate::{
    status::{ActiveTarget, PoolStatus, Unscraped},
    target::format,
    why,
};
use narthex_model::{
    Family, LabelSet, Matcher, MetricType, Schema, date::rfc3339, relabel::Rule, storage::Lease,
};
use narthex_net::{Comma, Listing};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Weak};

fn write_json(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
}

/// `/api/v1/targets`: active targets, then dropped ones, then invalid ones.
pub(super) struct Targets {
    stage: Stage,
    comma: Comma,
    active: std::vec::IntoIter<Weak<ActiveTarget>>,
    /// All pools; empty unless dropped targets are requested.
    pools: Vec<Unlisted>,
    /// Index of the pool whose dropped or invalid targets are being written.
    pool: usize,
    item: usize,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Stage {
    Head,
    Active,
    Dropped,
    Failed,
}

/// Unscraped targets of a pool.
struct Unlisted {
    name: String,
    unscraped: Arc<Unscraped>,
    rules: Vec<Rule>,
    /// Whether the request includes this pool.
    here: bool,
}

impl Targets {
    /// Lists targets of `state` and of `pool`, each optional.
    pub(super) fn new(pools: Vec<PoolStatus>, state: Option<&str>, pool: Option<&str>) -> Self {
        let state = state.map(str::to_ascii_lowercase);
        let wants = |wanted| {
            matches!(state.as_deref(), None | Some("" | "any")) || state.as_deref() == Some(wanted)
        };
        let pool = pool.filter(|pool| !pool.is_empty());
        let here = |name: &str| pool.is_none_or(|wanted| wanted == name);
        let mut active = Vec::new();
        if wants("active") {
            let shown = pools.iter().filter(|pool| here(&pool.name));
            active.extend(shown.flat_map(|pool| &pool.active).map(Arc::downgrade));
        }
        let mut unlisted = Vec::new();
        if wants("dropped") {
            unlisted.extend(pools.into_iter().map(|pool| Unlisted {
                here: here(&pool.name),
                name: pool.name,
                unscraped: pool.unscraped,
                rules: pool.rules,
            }));
        }
        Self {
            stage: Stage::Head,
            comma: Comma::default(),
            active: active.into_iter(),
            pools: unlisted,
            pool: 0,
            item: 0,
        }
    }

    /// Returns the memory the list holds until it has been written.
    pub(super) fn held_bytes(&self) -> usize {
        let unscraped = self.pools.iter().map(|pool| pool.unscraped.heap_bytes());
        self.active.len() * size_of::<Weak<ActiveTarget>>() + unscraped.sum::<usize>()
    }

    /// Writes the next item that `one` returns for a pool; reports whether there was one.
    fn next_of(&mut self, out: &mut Vec<u8>, one: fn(&Unlisted, usize) -> Option<Value>) -> bool {
        while let Some(pool) = self.pools.get(self.pool) {
            if let Some(shown) = one(pool, self.item).filter(|_| pool.here) {
                self.comma.write(out);
                write_json(out, &shown);
                self.item += 1;
                return true;
            }
            (self.pool, self.item) = (self.pool + 1, 0);
        }
        false
    }

    /// Begins the next list.
    fn begin(&mut self, stage: Stage) {
        (self.stage, self.comma) = (stage, Comma::default());
        (self.pool, self.item) = (0, 0);
    }

    /// Builds an object of one count per pool, whichever pool is requested.
    fn counts(&self, count: fn(&Unlisted) -> Value) -> Value {
        let pair = |pool: &Unlisted| (pool.name.clone(), count(pool));
        Value::Object(self.pools.iter().map(pair).collect())
    }
}

impl Listing for Targets {
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        match self.stage {
            Stage::Head => {
                out.extend_from_slice(br#"{"status":"success","data":{"activeTargets":["#);
                self.begin(Stage::Active);
            }
            Stage::Active => match self.active.next() {
                Some(target) => {
                    if let Some(target) = target.upgrade() {
                        self.comma.write(out);
                        write_json(out, &shown(&target));
                    }
                }
                None if self.pools.is_empty() => {
                    let end = br#"],"droppedTargets":[],"droppedTargetCounts":null}}"#;
                    out.extend_from_slice(end);
                    return false;
                }
                None => {
                    out.extend_from_slice(br#"],"droppedTargets":["#);
                    self.begin(Stage::Dropped);
                }
            },
            Stage::Dropped => {
                if self.next_of(out, dropped) {
                    return true;
                }
                out.extend_from_slice(br#"],"droppedTargetCounts":"#);
                let counted = self.counts(|pool| pool.unscraped.dropped_count().into());
                write_json(out, &counted);
                out.extend_from_slice(br#","droppedTargetReasons":"#);
                write_json(out, &self.counts(|pool| Value::Object(reasons(pool))));
                out.extend_from_slice(br#","failedTargets":["#);
                self.begin(Stage::Failed);
            }
            Stage::Failed => {
                if self.next_of(out, failed) {
                    return true;
                }
                out.extend_from_slice(br#"],"failedTargetCounts":"#);
                write_json(out, &self.counts(|pool| pool.unscraped.failed_count.into()));
                out.extend_from_slice(b"}}");
                return false;
            }
        }
        true
    }
}

fn dropped(pool: &Unlisted, at: usize) -> Option<Value> {
    let found = pool.unscraped.dropped.get(at)?;
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
    Some(entry)
}

fn failed(pool: &Unlisted, at: usize) -> Option<Value> {
    let found = pool.unscraped.failed.get(at)?;
    Some(json!({
        "discoveredLabels": labels(&found.discovered),
        "scrapePool": pool.name,
        "reason": found.reason,
    }))
}

/// Counts the targets each rule of a pool dropped.
fn reasons(pool: &Unlisted) -> Map<String, Value> {
    let drops = pool.rules.iter().zip(&pool.unscraped.drops_by_rule);
    drops
        .enumerate()
        .filter(|(_, (_, count))| **count > 0)
        .map(|(at, (rule, count))| (why::dropped(at, rule), (*count).into()))
        .collect()
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
        "scrapeInterval": format(found.interval),
        "scrapeTimeout": format(found.timeout),
    })
}

/// `/api/v1/targets/metadata`: metadata of one or all metrics, of all targets or those a selector matches.
pub(super) struct Metadata {
    begun: bool,
    comma: Comma,
    targets: std::vec::IntoIter<Weak<ActiveTarget>>,
    matchers: Vec<Matcher>,
    /// Memory of the matchers.
    _lease: Option<Lease>,
    metric: Option<String>,
    /// Remaining limit of entries.
    left: usize,
    current: Option<Families>,
}

/// The remaining families of one target.
struct Families {
    labels: LabelSet,
    schema: Schema,
    next: usize,
}

impl Metadata {
    /// Lists up to `limit` entries of `metric`, or of all metrics.
    pub(super) fn new(
        pools: &[PoolStatus],
        selector: Option<(Vec<Matcher>, Lease)>,
        metric: Option<String>,
        limit: usize,
    ) -> Self {
        let active = pools.iter().flat_map(|pool| &pool.active);
        let targets: Vec<_> = active.map(Arc::downgrade).collect();
        let (matchers, lease) = selector.unzip();
        Self {
            begun: false,
            comma: Comma::default(),
            targets: targets.into_iter(),
            matchers: matchers.unwrap_or_default(),
            _lease: lease,
            metric,
            left: limit,
            current: None,
        }
    }

    /// Returns the memory the list holds until it has been written.
    pub(super) fn held_bytes(&self) -> usize {
        self.targets.len() * size_of::<Weak<ActiveTarget>>()
    }

    /// Advances to the next target; reports whether there is one.
    fn advance(&mut self) -> bool {
        let Some(target) = self.targets.next() else {
            return false;
        };
        let target = target.upgrade();
        let taken = target.filter(|target| {
            let value = |name| target.target.labels.get(name).unwrap_or_default();
            let mut matchers = self.matchers.iter();
            matchers.all(|matcher| matcher.matches(value(&matcher.name)))
        });
        self.current = taken.and_then(|target| {
            let (schema, synthetic) = target.schema()?;
            Some(Families {
                labels: target.target.labels.clone(),
                schema,
                next: synthetic,
            })
        });
        true
    }
}

impl Listing for Metadata {
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(br#"{"status":"success","data":["#);
        }
        let current = self.current.as_mut().filter(|_| self.left > 0);
        let family = current.and_then(|current| {
            let family = current.schema.families().get(current.next)?;
            current.next += 1;
            let wanted = self.metric.as_deref();
            // A series without metadata has a family, too.
            let listed = is_known(family) && wanted.is_none_or(|name| name == &*family.name);
            Some(listed.then(|| entry(family, &current.labels, wanted.is_none())))
        });
        match family {
            Some(None) => true,
            Some(Some(entry)) => {
                self.comma.write(out);
                write_json(out, &entry);
                self.left -= 1;
                true
            }
            None if self.left > 0 && self.advance() => true,
            None => {
                out.extend_from_slice(b"]}");
                false
            }
        }
    }
}

/// Reports whether a page had any metadata of a family.
fn is_known(family: &Family) -> bool {
    family.metric_type != MetricType::Unknown || !family.help.is_empty() || !family.unit.is_empty()
}

fn entry(family: &Family, target: &LabelSet, named: bool) -> Value {
    let mut entry = json!({
        "target": labels(target),
        "type": family.metric_type.as_str(),
        "help": &*family.help,
        "unit": &*family.unit,
    });
    if let Some(entry) = entry.as_object_mut().filter(|_| named) {
        entry.insert("metric".to_owned(), Value::from(&*family.name));
    }
    entry
}

pub(super) fn labels(set: &LabelSet) -> Value {
    let pairs = set
        .iter()
        .map(|label| (label.name().to_owned(), Value::from(label.value())));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests;
