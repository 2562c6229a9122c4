//! The memory ledger: one limit, the shares of it, and what is refused when memory runs short.
//!
//! Everything that grows with input from outside leases from a share of one budget. Memory that no share accounts for
//! is found by comparing the budget with the process' resident size, up to ten times a second.
//!
//! **Invariant:** only this file decides how far each share may fill memory: queries give way to scrapes, new series to
//! known ones. A pressure level that was entered is left once there is room again.

use crate::{heap, worker::Worker};
use http::{HeaderValue, StatusCode, header};
use narthex_client::{CounterVec, Desc, Gauge, Registry};
use narthex_model::{
    labels,
    storage::{Account, Budget, Pressure, PressureLevels, Share},
};
use narthex_net::{
    Router,
    axum::{
        extract::Request,
        middleware::{self, Next},
        response::{IntoResponse, Response},
    },
};
use narthex_remote::ReceiverMemory;
use narthex_scrape::ScrapeMemory;
use narthex_tsdb::Db;
use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

/// Shortest interval between comparisons of the ledger with the resident size, used when memory may run short soon.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Most bytes a process gains within [`LOOK_INTERVAL`].
const LOOK_BYTES: u64 = 256 << 20;
/// Longest pause between two looks, in multiples of [`LOOK_INTERVAL`].
const MOST_INTERVALS: u64 = 10;
/// How often the allocator is asked to return unused pages while the process does not grow.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);
/// Time after a log line about pressure before a fall in pressure is logged.
const CALM_INTERVAL: Duration = Duration::from_secs(10);
/// `Retry-After` of requests refused for lack of memory.
const RETRY_AFTER_SECONDS: &str = "5";

static REFUSED_REQUESTS: CounterVec<1> = CounterVec::new(
    "narthex_memory_refused_requests_total",
    "Requests rejected with 503 under memory pressure, by kind.",
    &["kind"],
);
static PRESSURE: Gauge = Gauge::new(
    "narthex_memory_pressure",
    "Memory pressure level: 0 none, 1 flushing early, 2 also rejecting new series, 3 also writes, 4 also queries.",
);

/// All shares of the process' memory.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// The whole process.
    pub(crate) process: Budget,
    /// Queries and their responses.
    pub(crate) queries: Budget,
    /// Requests for labels, series and metadata, and their responses.
    pub(crate) listings: Budget,
    /// Remote write requests, from their bodies to the sink.
    pub(crate) remote_write: Budget,
    /// Pages of targets, and parsing them.
    pub(crate) scrapes: Budget,
    /// State that scraping keeps about the series of its targets.
    pub(crate) targets: Budget,
    /// State that receiving keeps about the series of its senders.
    pub(crate) senders: Budget,
    /// What is kept of the results of rules between evaluations.
    pub(crate) rules: Budget,
    /// Alerts that wait for Alertmanagers.
    pub(crate) notifications: Budget,
    /// What is remembered of queries that were asked.
    pub(crate) statistics: Budget,
    /// Scrapes that wait for storage to open.
    pub(crate) early_rounds: Budget,
}

impl Memory {
    /// Divides `limit_bytes` into shares.
    ///
    /// A share's reach is how full the process may become through its leases. Series stop before the level at which new
    /// series are refused, so that a flood of them leaves memory to everything else. Queries stop earlier still,
    /// because a query must not cost anybody's series. Bodies on their way to storage may go further.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let process = Budget::new("the process", limit_bytes);
        let share = |name: &str, limit: u8, reach: u8| {
            process.share(name, process.percent(limit), process.percent(reach))
        };
        Self {
            // The reserve answers small queries until queries are refused altogether.
            queries: process.share_with_reserve(
                "queries",
                process.percent(50),
                process.percent(70),
                process.percent(8),
            ),
            listings: process.share_with_reserve(
                "listings",
                process.percent(25),
                process.percent(70),
                process.percent(2),
            ),
            remote_write: share("remote write", 25, 80),
            scrapes: share("scrapes", 25, 80),
            targets: share("series of targets", 50, 75),
            senders: share("series of senders", 50, 75),
            rules: share("results of rules", 25, 75),
            notifications: share("notifications", 5, 85),
            statistics: share("statistics of queries", 1, 75),
            early_rounds: share("rounds during replay", 12, 85),
            process,
        }
    }

    /// Returns the shares that scraping leases from.
    pub(crate) fn scraping(&self) -> ScrapeMemory {
        ScrapeMemory {
            pages: self.scrapes.clone(),
            series: self.targets.clone(),
        }
    }

    /// Returns the shares that receiving leases from.
    pub(crate) fn receiving(&self) -> ReceiverMemory {
        ReceiverMemory {
            requests: self.remote_write.clone(),
            series: self.senders.clone(),
        }
    }

    /// Returns the bytes of leases that are freed soon by themselves. They do not raise the pressure, because further
    /// leases are refused anyway.
    fn passing_bytes(&self) -> u64 {
        let passing = [
            &self.queries,
            &self.listings,
            &self.remote_write,
            &self.scrapes,
        ];
        passing.map(Budget::used_bytes).iter().sum()
    }

    /// Answers reads of samples or series with 503 while memory is too short for queries.
    pub(crate) fn guard_reads(&self, router: Router) -> Router {
        let process = self.process.clone();
        refuse_from(router, Pressure::RefuseQueries, "read", process, reads)
    }

    /// Answers writes of samples with 503 while memory is too short for them; senders retry.
    pub(crate) fn guard_writes(&self, router: Router) -> Router {
        let process = self.process.clone();
        refuse_from(router, Pressure::RefuseWrites, "write", process, |_| true)
    }

    /// Registers the ledger's metrics.
    ///
    /// # Errors
    /// Fails when a name is taken.
    pub(crate) fn register_metrics(
        &self,
        registry: &Registry,
    ) -> Result<(), narthex_client::Error> {
        registry.register_all(&[&REFUSED_REQUESTS, &PRESSURE])?;
        let limit = self.process.limit_bytes();
        registry.register_fn(
            Desc::gauge(
                "narthex_memory_limit_bytes",
                "Bytes that this process may use.",
                &[],
            ),
            move |samples| samples.push(&[], number(limit)),
        )?;
        let by_share = |desc, value: fn(&Share) -> u64| {
            let process = self.process.clone();
            registry.register_fn(desc, move |samples| {
                for share in process.shares() {
                    samples.push(&[&share.name], number(value(&share)));
                }
            })
        };
        let in_use = Desc::gauge(
            "narthex_memory_bytes",
            "Bytes of the memory limit in use, by share.",
            &["share"],
        );
        by_share(in_use, |share| share.used_bytes)?;
        let refused = Desc::counter(
            "narthex_memory_refused_leases_total",
            "Rejected requests for memory, by share.",
            &["share"],
        );
        by_share(refused, |share| share.refused_total)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of memory are far below 2^53"
)]
fn number(bytes: u64) -> f64 {
    bytes as f64
}

/// Parses the value of `--memory.limit`: a size, or a percentage of `detected_bytes`; empty means all of it.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub(crate) fn limit(text: &str, detected_bytes: u64) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(detected_bytes);
    }
    let bytes = if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse::<u64>();
        let percent = percent.map_err(|_| format!("{text:?} is no percentage"))?;
        if percent > 100 {
            return Err(format!("{text:?} is more than there is"));
        }
        u64::try_from(u128::from(detected_bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
    } else {
        let size = narthex_cli::Bytes::parse(text);
        let unknown = || format!("{text:?} is neither a size such as 512MB nor a percentage");
        size.ok_or_else(unknown)?.0
    };
    if bytes < LEAST_BYTES {
        return Err(format!(
            "{text:?} is less than the {} MB that a server needs",
            LEAST_BYTES >> 20
        ));
    }
    Ok(bytes)
}

/// Smallest limit: below it the server would refuse everything from the start.
const LEAST_BYTES: u64 = 64 << 20;

/// Starts the thread that compares the ledger with the process' resident size.
///
/// # Errors
/// Fails when the thread cannot be started.
pub(crate) fn watch(memory: &Memory) -> std::io::Result<Worker> {
    let (mut ledger, system) = (Ledger::new(memory), System::new());
    let (what, pause) = ("Watching memory", ledger.pause());
    Worker::start("narthex-memory", what, pause, move |is_last| {
        if !is_last {
            ledger.look(&system, Instant::now());
        }
        ledger.pause()
    })
}

/// Source of the process' actual size.
trait Process {
    /// Returns the resident bytes, if they can be read.
    fn resident_bytes(&self) -> Option<u64>;

    /// Returns the allocator's unused pages to the system.
    fn purge(&self);

    /// Returns the bytes of all labels, unused ones included.
    fn label_bytes(&self) -> u64;

    /// Drops labels that are no longer in use.
    fn drop_labels(&self);
}

struct System {
    /// Kept open: opening it costs more than reading it.
    statm: Option<File>,
}

impl System {
    fn new() -> Self {
        Self {
            statm: File::open("/proc/self/statm").ok(),
        }
    }
}

impl Process for System {
    fn resident_bytes(&self) -> Option<u64> {
        let mut statm = [0; 128];
        let len = self.statm.as_ref()?.read_at(&mut statm, 0).ok()?;
        let statm = std::str::from_utf8(statm.get(..len)?).ok()?;
        let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }

    fn purge(&self) {
        heap::purge();
    }

    fn label_bytes(&self) -> u64 {
        labels::interned_bytes() as u64
    }

    fn drop_labels(&self) {
        labels::sweep();
    }
}

/// Compares accounted with resident memory, and remembers the last purge and log line.
struct Ledger {
    memory: Memory,
    process: Budget,
    /// Resident memory that no share accounts for, labels excluded.
    rest: Account,
    /// Label names and values that no share accounts for.
    labels: Account,
    levels: PressureLevels,
    /// Time of the last purge, and the resident bytes after it.
    purged: Option<(Instant, u64)>,
    /// Bytes of labels after unused ones were last dropped.
    swept_bytes: u64,
    /// Time and pressure of the last log line.
    told: Option<(Instant, Pressure)>,
}

impl Ledger {
    fn new(memory: &Memory) -> Self {
        let process = memory.process.clone();
        let account = |name: &str| process.share(name, u64::MAX, u64::MAX).account();
        Self {
            labels: account("labels"),
            rest: account("everything else"),
            process,
            memory: memory.clone(),
            levels: PressureLevels::default(),
            purged: None,
            swept_bytes: 0,
            told: None,
        }
    }

    /// Returns the pause before the next look: the less room is left, the shorter.
    fn pause(&self) -> Duration {
        let first = self.process.percent(self.levels.enter_percent[0]);
        let room = first.saturating_sub(self.process.used_bytes());
        let intervals = (room / LOOK_BYTES).clamp(1, MOST_INTERVALS);
        LOOK_INTERVAL * u32::try_from(intervals).unwrap_or(1)
    }

    /// Updates the accounts from the process' size and sets the pressure.
    fn look(&mut self, system: &dyn Process, now: Instant) {
        let Some(mut resident) = system.resident_bytes() else {
            return;
        };
        let first = self.process.percent(self.levels.enter_percent[0]);
        let grown = self.process.percent(1);
        let due = |(at, before): (Instant, u64)| {
            now.saturating_duration_since(at) >= PURGE_INTERVAL || resident > before + grown
        };
        if resident >= first {
            self.drop_labels(system, grown);
        }
        if resident >= first && self.purged.is_none_or(due) {
            // Pages the allocator keeps for reuse are no reason to refuse anything.
            system.purge();
            resident = system.resident_bytes().unwrap_or(resident);
            self.purged = Some((now, resident));
        }
        let ours = self.rest.bytes() + self.labels.bytes();
        let known = self.process.used_bytes().saturating_sub(ours);
        let unknown = resident.saturating_sub(known);
        // A query that makes a label leases its memory until the label is dropped, so leased bytes are not counted
        // again.
        let of_labels = system.label_bytes().min(unknown);
        self.labels.set(of_labels);
        self.rest.set(unknown - of_labels);
        let passing_bytes = self.memory.passing_bytes();
        let (_, level) = self.process.observe(&self.levels, passing_bytes);
        PRESSURE.set(f64::from(level as u8));
        let due = match self.told {
            None => level > Pressure::None,
            Some((at, told)) => {
                level > told || (level < told && now.saturating_duration_since(at) >= CALM_INTERVAL)
            }
        };
        if due {
            self.told = Some((now, level));
            self.tell(level);
        }
    }

    /// Drops unused labels if labels have grown by more than `grown` bytes since the last time.
    fn drop_labels(&mut self, system: &dyn Process, grown: u64) {
        if system.label_bytes() > self.swept_bytes + grown {
            system.drop_labels();
            self.swept_bytes = system.label_bytes();
        }
    }

    fn tell(&self, level: Pressure) {
        let (used_bytes, limit_bytes) = (self.process.used_bytes(), self.process.limit_bytes());
        if level == Pressure::None {
            tracing::info!(used_bytes, limit_bytes, "Memory is no longer short.");
            return;
        }
        let mut shares = self.process.shares();
        shares.sort_by_key(|share| std::cmp::Reverse(share.used_bytes));
        let most: Vec<String> = shares
            .iter()
            .take(3)
            .map(|share| format!("{}: {} MB", share.name, share.used_bytes >> 20))
            .collect();
        tracing::warn!(
            level = level.as_str(),
            used_bytes,
            limit_bytes,
            most = most.join(", "),
            "Memory is short."
        );
    }
}

/// Logs, once in a while, which jobs have series that the storage refused.
#[derive(Default)]
pub(crate) struct Refusals {
    looks: u32,
}

/// Rounds of maintenance between two log lines.
const LOOKS_PER_LINE: u32 = 10;

impl Refusals {
    /// Counts a round of maintenance and logs when one is due; call it in every round.
    pub(crate) fn tell(&mut self, db: &Db) {
        self.looks += 1;
        if self.looks < LOOKS_PER_LINE {
            return;
        }
        self.looks = 0;
        for (job, series) in db.take_refused_series() {
            tracing::warn!(
                job,
                series,
                "New series are rejected because memory is short."
            );
        }
    }
}

/// Answers requests with 503 while the pressure is at `from` or above; requests to paths outside `concerns` pass.
fn refuse_from(
    router: Router,
    from: Pressure,
    kind: &'static str,
    process: Budget,
    concerns: fn(&str) -> bool,
) -> Router {
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let refused = process.pressure() >= from && concerns(request.uri().path());
        async move {
            if refused {
                REFUSED_REQUESTS.with(&[kind]).inc();
                return unavailable();
            }
            next.run(request).await
        }
    }))
}

/// Reports whether an API path reads samples or series, whose memory depends on the request.
fn reads(path: &str) -> bool {
    path == "/federate"
        || path
            .strip_prefix("/api/v1/")
            .is_some_and(|call| !call.starts_with("status/") || call == "status/tsdb")
}

/// Returns a response that Prometheus' clients treat as a temporary error.
fn unavailable() -> Response {
    let text = r#"{"status":"error","errorType":"unavailable","error":"memory is short: try again later"}"#;
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::RETRY_AFTER,
        HeaderValue::from_static(RETRY_AFTER_SECONDS),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A process with `resident_mb` in use, and `idle_mb` and `dead_labels_mb` on top.
    #[derive(Default)]
    struct Fake {
        resident_mb: Cell<u64>,
        idle_mb: Cell<u64>,
        /// Part of the resident size taken by labels in use.
        labels_mb: Cell<u64>,
        dead_labels_mb: Cell<u64>,
    }

    impl Process for Fake {
        fn resident_bytes(&self) -> Option<u64> {
            let mb = self.resident_mb.get() + self.idle_mb.get() + self.dead_labels_mb.get();
            Some(mb << 20)
        }

        fn purge(&self) {
            self.idle_mb.set(0);
        }

        fn label_bytes(&self) -> u64 {
            (self.labels_mb.get() + self.dead_labels_mb.get()) << 20
        }

        fn drop_labels(&self) {
            self.idle_mb
                .set(self.idle_mb.get() + self.dead_labels_mb.take());
        }
    }

    #[test]
    fn limits_are_sizes_or_percentages() {
        let gigabyte = 1 << 30;
        assert_eq!(limit("", gigabyte), Ok(gigabyte));
        assert_eq!(limit("512MB", gigabyte), Ok(512 << 20));
        assert_eq!(limit("50%", gigabyte), Ok(gigabyte / 2));
        assert_eq!(limit("2GiB", gigabyte), Ok(2 * gigabyte));
        for bad in ["x", "%", "101%", "-5%", "1MB", "0"] {
            assert!(limit(bad, gigabyte).is_err(), "{bad}");
        }
    }

    /// Memory outside the shares must count too, or the ledger would lend memory that is not there.
    #[test]
    fn what_is_not_accounted_for_leaves_less_to_lease() {
        let memory = Memory::new(1000 << 20);
        let mut ledger = Ledger::new(&memory);
        let process = Fake::default();
        let lease = memory.scrapes.lease(100 << 20).unwrap();
        process.resident_mb.set(650);
        ledger.look(&process, Instant::now());
        assert_eq!(memory.process.used_bytes(), 650 << 20);
        // The lease of a page being read is freed soon by itself.
        assert_eq!(memory.process.pressure(), Pressure::None);
        process.resident_mb.set(750);
        ledger.look(&process, Instant::now());
        assert_eq!(memory.process.pressure(), Pressure::Flush);
        assert!(memory.queries.lease(300 << 20).is_err());
        drop(lease);
        process.resident_mb.set(100);
        ledger.look(&process, Instant::now());
        assert_eq!(memory.process.pressure(), Pressure::None);
        assert!(memory.queries.lease(100 << 20).is_ok());
        let shares = memory.process.shares();
        let rest = shares
            .iter()
            .find(|share| &*share.name == "everything else");
        assert_eq!(rest.unwrap().used_bytes, 100 << 20);
    }

    fn used_mb(memory: &Memory, name: &str) -> u64 {
        let shares = memory.process.shares();
        let share = shares.iter().find(|share| &*share.name == name);
        share.unwrap().used_bytes >> 20
    }

    /// Labels have a share of their own, but bytes a query has leased for them are not counted again.
    #[test]
    fn labels_are_a_share_of_what_nobody_else_counts() {
        let memory = Memory::new(1000 << 20);
        let mut ledger = Ledger::new(&memory);
        let process = Fake::default();
        process.resident_mb.set(300);
        process.labels_mb.set(100);
        ledger.look(&process, Instant::now());
        assert_eq!(used_mb(&memory, "labels"), 100);
        assert_eq!(used_mb(&memory, "everything else"), 200);
        let lease = memory.queries.lease(250 << 20).unwrap();
        ledger.look(&process, Instant::now());
        assert_eq!(used_mb(&memory, "labels"), 50);
        assert_eq!(used_mb(&memory, "everything else"), 0);
        assert_eq!(memory.process.used_bytes(), 300 << 20);
        drop(lease);
    }

    #[test]
    fn labels_that_nobody_holds_go_when_memory_is_short() {
        let memory = Memory::new(1000 << 20);
        let mut ledger = Ledger::new(&memory);
        let process = Fake::default();
        process.resident_mb.set(300);
        process.dead_labels_mb.set(100);
        ledger.look(&process, Instant::now());
        assert_eq!(process.dead_labels_mb.get(), 100);
        process.dead_labels_mb.set(400);
        ledger.look(&process, Instant::now());
        assert_eq!(memory.process.pressure(), Pressure::None);
        assert_eq!(used_mb(&memory, "labels"), 0);
        // Walking all labels costs time, so it waits until they have grown.
        process.resident_mb.set(700);
        process.dead_labels_mb.set(5);
        ledger.look(&process, Instant::now());
        assert_eq!(process.dead_labels_mb.get(), 5);
        process.dead_labels_mb.set(20);
        ledger.look(&process, Instant::now());
        assert_eq!(process.dead_labels_mb.get(), 0);
    }

    #[test]
    fn pages_that_the_allocator_keeps_are_no_pressure() {
        let memory = Memory::new(1000 << 20);
        let mut ledger = Ledger::new(&memory);
        let process = Fake::default();
        process.resident_mb.set(300);
        process.idle_mb.set(650);
        let start = Instant::now();
        ledger.look(&process, start);
        assert_eq!(memory.process.pressure(), Pressure::None);
        // Purging costs time, so it runs only once the interval is over or the process has grown.
        process.resident_mb.set(700);
        ledger.look(&process, start + PURGE_INTERVAL);
        process.idle_mb.set(5);
        ledger.look(&process, start + PURGE_INTERVAL + LOOK_INTERVAL);
        assert_eq!(process.idle_mb.get(), 5);
        process.idle_mb.set(290);
        ledger.look(&process, start + PURGE_INTERVAL + 2 * LOOK_INTERVAL);
        assert_eq!(process.idle_mb.get(), 0);
        assert_eq!(memory.process.pressure(), Pressure::Flush);
    }

    #[test]
    fn looks_come_closer_when_memory_gets_short() {
        let memory = Memory::new(10_000 << 20);
        let mut ledger = Ledger::new(&memory);
        let process = Fake::default();
        let mut pause = |resident_mb| {
            process.resident_mb.set(resident_mb);
            ledger.look(&process, Instant::now());
            ledger.pause().as_millis()
        };
        let pauses = [0, 3000, 5000, 5900, 9000].map(&mut pause);
        assert_eq!(pauses, [1000, 1000, 300, 100, 100]);
        let small = Ledger::new(&Memory::new(500 << 20));
        assert_eq!(small.pause(), LOOK_INTERVAL);
    }

    #[test]
    fn status_and_pages_are_no_reads() {
        for (path, read) in [
            ("/api/v1/query", true),
            ("/api/v1/label/job/values", true),
            ("/api/v1/status/tsdb", true),
            ("/federate", true),
            ("/api/v1/status/flags", false),
            ("/debug/pprof/heap", false),
            ("/metrics", false),
        ] {
            assert_eq!(reads(path), read, "{path}");
        }
    }
}
