//! What is asked of the server: queries that run, the most expensive ones, metrics that anybody asks for, the query log.
//!
//! **Invariant:** what is remembered is leased; when there is no memory for it, something is forgotten or not
//! remembered, which is counted, and no query fails for it.

mod costs;
mod log;
#[cfg(test)]
mod tests;
pub(crate) mod top;
pub(crate) mod usage;

pub use costs::register_cost_metrics;
pub(crate) use log::register_metrics;

use crate::stats::stats_json;
use log::QueryLog;
use narthex_model::{
    storage::{Budget, Lease, OverBudget, Selector},
    sync::Whole as _,
};
use narthex_promql::{CostLimits, Observation, Observer, Query, QueryError, QueryStats};
use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use top::Top;
use usage::Usage;

/// Longest text of a query that is remembered, in bytes.
const TEXT_BYTES: usize = 1 << 10;

/// Who asks.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A request.
    Http {
        /// Address of the client, empty if unknown.
        client: String,
        /// Method.
        method: String,
        /// Path.
        path: String,
        /// Whether a dashboard sent it.
        is_dashboard: bool,
    },
    /// A rule.
    Rule {
        /// File, empty for queries of templates.
        file: Arc<str>,
        /// Group.
        group: Arc<str>,
    },
}

/// What is asked of the server.
pub struct Activity {
    pub(crate) since_ms: i64,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    next: AtomicU64,
    pub(crate) running: Mutex<BTreeMap<u64, Arc<Entry>>>,
    pub(crate) top: Mutex<Top>,
    pub(crate) usage: Mutex<Usage>,
    log: QueryLog,
    /// Limits of all queries, if there are any.
    limits: OnceLock<Arc<CostLimits>>,
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activity")
            .field("since_ms", &self.since_ms)
            .finish_non_exhaustive()
    }
}

/// Start, end and step of a query, in milliseconds.
pub(crate) type Times = [i64; 3];

/// A query that has arrived and not been answered.
pub(crate) struct Entry {
    pub(crate) text: Arc<str>,
    pub(crate) times: Times,
    /// Whether its time is limited for what it costs.
    is_limited: bool,
    pub(crate) origin: Origin,
    pub(crate) arrived_ms: i64,
    arrived: Instant,
    progress: Mutex<Progress>,
}

/// How far a query is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) state: State,
    pub(crate) since: Instant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// It waits for a permit.
    Queued,
    Evaluating,
    /// Its result is being sent.
    Sending,
}

impl Activity {
    /// Returns nothing yet; what is remembered is leased from `memory`.
    ///
    /// # Errors
    /// Fails when not even that can be leased.
    pub fn new(
        memory: &Budget,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) -> Result<Arc<Self>, OverBudget> {
        let lease = |name| -> Result<Lease, OverBudget> {
            memory.child(name, memory.limit_bytes() / 2).lease(0)
        };
        Ok(Arc::new(Self {
            since_ms: now_ms(),
            now_ms,
            next: AtomicU64::new(0),
            running: Mutex::default(),
            top: Mutex::new(Top::new(lease("the most expensive queries")?)),
            usage: Mutex::new(Usage::new(lease("which metrics are asked for")?)),
            log: QueryLog::default(),
            limits: OnceLock::new(),
        }))
    }

    /// Returns the limits of what queries cost; without [`Activity::limit_costs`] there are none.
    #[must_use]
    pub fn cost_limits(&self) -> Option<&Arc<CostLimits>> {
        self.limits.get()
    }

    /// Limits what queries cost, from here on to nothing.
    pub fn limit_costs(&self) {
        self.limits.get_or_init(Arc::default);
    }

    /// Reports whether the time of all queries is limited for what they cost.
    fn limits_time(&self) -> bool {
        let limits = self.cost_limits();
        limits.is_some_and(|limits| limits.duration().is_some())
    }

    /// Logs queries to the file at `path` from here on, or nowhere; a file that is open is opened again.
    ///
    /// # Errors
    /// Fails, changing nothing, if the file cannot be opened.
    pub fn log_to(&self, path: Option<&Path>) -> std::io::Result<()> {
        self.log.open(path)
    }

    /// Returns an observer of the queries that rules make.
    #[must_use]
    pub fn of_rules(self: &Arc<Self>) -> Arc<dyn Observer> {
        RuleObserver::for_group(self, "", "")
    }

    /// Registers a query that has arrived.
    pub(crate) fn arrive(self: &Arc<Self>, query: &Asked<'_>, origin: Origin) -> Arc<Ticket> {
        self.register(query, shortened(query.text).into(), origin)
    }

    fn register(
        self: &Arc<Self>,
        query: &Asked<'_>,
        text: Arc<str>,
        origin: Origin,
    ) -> Arc<Ticket> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let arrived = Instant::now();
        let entry = Arc::new(Entry {
            text,
            times: query.times,
            is_limited: query.is_limited,
            origin,
            arrived_ms: (self.now_ms)(),
            arrived,
            progress: Mutex::new(Progress {
                state: State::Queued,
                since: arrived,
            }),
        });
        self.running.lock().whole().insert(id, Arc::clone(&entry));
        Arc::new(Ticket {
            activity: Arc::clone(self),
            id,
            entry,
        })
    }
}

/// A query as it arrives.
pub(crate) struct Asked<'a> {
    pub(crate) text: &'a str,
    pub(crate) times: Times,
    /// Whether its time is limited for what it costs.
    pub(crate) is_limited: bool,
}

/// A query's place among those that run, given up on drop.
pub(crate) struct Ticket {
    activity: Arc<Activity>,
    id: u64,
    entry: Arc<Entry>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.id)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.activity.running.lock().whole().remove(&self.id);
    }
}

impl Ticket {
    /// Returns what observes this query's evaluation.
    pub(crate) fn observer(self: &Arc<Self>) -> Arc<dyn Observer> {
        Arc::new(TicketObserver(Arc::clone(self)))
    }

    fn progress(&self, state: State) -> Progress {
        let since = Instant::now();
        let new = Progress { state, since };
        std::mem::replace(&mut *self.entry.progress.lock().whole(), new)
    }

    fn begin(self: &Arc<Self>, query: &Query<'_>, selectors: &[Selector]) -> Box<dyn Observation> {
        let before = self.progress(State::Evaluating);
        let activity = &self.activity;
        // A query may have been begun elsewhere.
        if before.state == State::Queued {
            let now_ms = (activity.now_ms)();
            let mut usage = activity.usage.lock().whole();
            usage.count(selectors, &self.entry.origin, now_ms);
        }
        Box::new(Running {
            ticket: Arc::clone(self),
            // Only the log needs the whole text.
            text: activity.log.is_open().then(|| query.text.to_owned()),
            begun: Instant::now(),
        })
    }
}

#[derive(Debug)]
struct TicketObserver(Arc<Ticket>);

impl Observer for TicketObserver {
    fn begin(&self, query: &Query<'_>, selectors: &[Selector]) -> Box<dyn Observation> {
        self.0.begin(query, selectors)
    }
}

#[derive(Debug)]
struct RuleObserver {
    activity: Arc<Activity>,
    file: Arc<str>,
    group: Arc<str>,
    /// The text of the first query: a rule has no other.
    text: OnceLock<Arc<str>>,
}

impl RuleObserver {
    fn for_group(activity: &Arc<Activity>, file: &str, group: &str) -> Arc<dyn Observer> {
        Arc::new(Self {
            activity: Arc::clone(activity),
            file: file.into(),
            group: group.into(),
            text: OnceLock::new(),
        })
    }

    fn shortened(&self, text: &str) -> Arc<str> {
        let known = self.text.get_or_init(|| shortened(text).into());
        if **known == *text {
            Arc::clone(known)
        } else {
            shortened(text).into()
        }
    }
}

impl Observer for RuleObserver {
    fn begin(&self, query: &Query<'_>, selectors: &[Selector]) -> Box<dyn Observation> {
        let asked = Asked {
            text: query.text,
            times: [query.start_ms, query.end_ms, query.step_ms],
            is_limited: self.activity.limits_time(),
        };
        let origin = Origin::Rule {
            file: Arc::clone(&self.file),
            group: Arc::clone(&self.group),
        };
        let text = self.shortened(query.text);
        let ticket = self.activity.register(&asked, text, origin);
        ticket.begin(query, selectors)
    }

    fn of_group(&self, file: &str, group: &str) -> Option<Arc<dyn Observer>> {
        Some(Self::for_group(&self.activity, file, group))
    }
}

/// A query that is evaluated.
struct Running {
    ticket: Arc<Ticket>,
    text: Option<String>,
    begun: Instant,
}

impl Observation for Running {
    fn end(self: Box<Self>, outcome: Result<&QueryStats, &QueryError>) {
        if matches!(outcome, Err(QueryError::Moved)) {
            return;
        }
        let evaluated = self.begun.elapsed();
        self.ticket.progress(State::Sending);
        let (activity, entry) = (&self.ticket.activity, &*self.ticket.entry);
        if activity.cost_limits().is_some() {
            costs::count(outcome, entry.is_limited);
        }
        activity
            .top
            .lock()
            .whole()
            .count(entry, evaluated, outcome, (activity.now_ms)());
        let Some(text) = &self.text else { return };
        let queued = self.begun.duration_since(entry.arrived);
        let nothing = QueryStats::default();
        let stats = stats_json(outcome.unwrap_or(&nothing), queued, evaluated, false);
        activity
            .log
            .write((activity.now_ms)(), text, entry, &stats, outcome.err());
    }
}

impl Entry {
    pub(crate) fn age(&self) -> Duration {
        self.arrived.elapsed()
    }

    pub(crate) fn progress(&self) -> Progress {
        *self.progress.lock().whole()
    }
}

/// Returns the beginning of a long text.
fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES {
        return text.to_owned();
    }
    let mut end = TEXT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
