//! The source of host metrics: runs the collectors and returns the round's frame.
//!
//! Invariant: a round without changes of devices, mounts or CPUs only updates numbers: no allocation, no string.

use std::time::{Duration, Instant};

use narthex_model::{Frame, Schema};

use crate::background::{Background, BackgroundHandle, Limits};
use crate::collector::start::start;
use crate::collector::{Collector, Ctx};
use crate::config::{BuildInfo, HostConfig};
use crate::cost::{CollectorCost, Cost, Meter};
use crate::cost_series::CostSeries;
use crate::error::HostError;
use crate::kind::{CollectorKind, CollectorSet};
use crate::open_file::ReadBuf;
use crate::own_labels::is_own;
use crate::pool::{Pool, SlowFrom, Until};
use crate::sink::{Desc, Sink, Slot};
use crate::statfs::{KernelStatfs, Statfs};

/// The host as an origin of metrics: one schema that follows devices, mounts and CPUs, one frame per round.
pub struct HostSource {
    collectors: Vec<Running>,
    in_background: Vec<InBackground>,
    pool: Pool<Background>,
    sink: Sink,
    buf: ReadBuf,
    build_info: Option<Slot>,
    build: BuildInfo,
    round: u64,
    measure: bool,
    /// Present if costs are reported in every round.
    costs: Option<Vec<CostSeries>>,
    refresh_ms: i64,
    refreshed_ms: Option<i64>,
    first_wait: Duration,
    wait: Duration,
    limits: Limits,
}

/// A collector that runs within the round.
struct Running {
    collector: Box<dyn Collector>,
    own: OwnSeries,
    /// Whether its next round reads slowly changing facts again.
    refresh: bool,
    prepared: Duration,
    cost: Option<Cost>,
    error: Option<HostError>,
}

/// A collector that runs on the pool's thread.
struct InBackground {
    handle: BackgroundHandle,
    own: OwnSeries,
    age: Option<Duration>,
    age_slot: Option<Slot>,
    error: Option<HostError>,
}

/// The source's own series about a collector.
struct OwnSeries {
    kind: CollectorKind,
    slots: Option<(Slot, Slot)>,
}

impl HostSource {
    /// Returns a source that has not read anything yet.
    ///
    /// # Errors
    ///
    /// `Pattern` and `Exclusive` for unusable filters, `CommonLabel` for a common label that some of the series use
    /// themselves.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        Self::with_statfs(config, Box::new(KernelStatfs))
    }

    /// As [`new`](Self::new), with another implementation of `statfs`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[doc(hidden)]
    pub fn with_statfs(config: HostConfig, statfs: Box<dyn Statfs>) -> Result<Self, HostError> {
        if let Some(label) = config.common.iter().find(|label| is_own(label.name())) {
            return Err(HostError::CommonLabel {
                name: label.name().into(),
            });
        }
        let mut collectors = Vec::new();
        let mut in_background = Vec::new();
        for (kind, collector) in start(&config, statfs)? {
            let own = OwnSeries { kind, slots: None };
            if kind.may_hang() && collector.may_hang() {
                in_background.push(InBackground {
                    handle: BackgroundHandle::new(collector),
                    own,
                    age: None,
                    age_slot: None,
                    error: None,
                });
            } else {
                collectors.push(Running {
                    collector,
                    own,
                    refresh: true,
                    prepared: Duration::ZERO,
                    cost: None,
                    error: None,
                });
            }
        }
        let wait = milliseconds(config.wait_ms);
        Ok(Self {
            collectors,
            in_background,
            // One thread runs them all; if it hangs, another is started.
            pool: Pool::new("host-devices", 1, SlowFrom(wait)),
            sink: Sink::new(config.common),
            buf: ReadBuf::new(),
            build_info: None,
            build: config.build,
            round: 0,
            measure: config.cost_metrics,
            costs: config.cost_metrics.then(Vec::new),
            refresh_ms: config.refresh_ms,
            refreshed_ms: None,
            first_wait: milliseconds(config.first_wait_ms.max(config.wait_ms)),
            wait,
            limits: Limits {
                deadline: milliseconds(config.deadline_ms),
                max_age: milliseconds(config.max_age_ms),
            },
        })
    }

    /// Collects one round and returns its frame with the timestamp `now_ms`.
    ///
    /// Never fails as a whole: a collector that fails omits its series, reports `node_scrape_collector_success` 0 and
    /// returns the cause from [`error`](Self::error). File systems and devices that don't answer cost at most the
    /// configured wait, once; they are served from their last good round, with its age, until they answer quickly.
    pub fn collect(&mut self, now_ms: i64) -> &Frame {
        self.collect_only(now_ms, CollectorSet::all())
    }

    /// As [`collect`](Self::collect), before the first scrape: waits longer for what may hang.
    pub fn warm_up(&mut self, now_ms: i64) -> &Frame {
        self.collect_within(now_ms, CollectorSet::all(), self.first_wait)
    }

    /// As [`collect`](Self::collect), with only those of the collectors that are in `only`. Series of the others are
    /// absent from this frame.
    pub fn collect_only(&mut self, now_ms: i64, only: CollectorSet) -> &Frame {
        self.collect_within(now_ms, only, self.wait)
    }

    fn collect_within(&mut self, now_ms: i64, only: CollectorSet, wait: Duration) -> &Frame {
        self.round += 1;
        if self.refresh_due(now_ms) {
            self.collectors.iter_mut().for_each(|r| r.refresh = true);
            let handles = self.in_background.iter_mut().map(|r| &mut r.handle);
            handles.for_each(BackgroundHandle::request_refresh);
        }
        self.sink.begin();
        // Each collector's end is the next one's start: one clock read instead of two.
        let mut clock = Instant::now();
        let until = clock + wait;
        let pool_error = self.ask_background(only).err();
        let mut ctx = Ctx {
            buf: &mut self.buf,
            round: self.round,
            refresh: false,
            udp_sockets: [None; 2],
        };
        let wanted = |running: &&mut Running| only.contains(running.own.kind);
        let measure = self.measure;
        for running in self.collectors.iter_mut().filter(wanted) {
            let meter = measure.then(Meter::start);
            clock = running.prepare(clock, &mut ctx, &mut self.sink);
            running.cost = meter.map(Meter::stop).or(running.cost);
        }
        for running in self.collectors.iter_mut().filter(wanted) {
            let meter = measure.then(Meter::start);
            clock = running.collect(clock, &mut ctx, &mut self.sink);
            if let (Some(meter), Some(cost)) = (meter, &mut running.cost) {
                *cost += meter.stop();
            }
        }
        self.end_background(only, until, pool_error);
        self.set_costs(only);
        let build_info = *self
            .build_info
            .get_or_insert_with(|| build_info(&self.build, &mut self.sink));
        self.sink.set(build_info, 1.0);
        self.sink.finish(now_ms)
    }

    /// As [`collect`](Self::collect), and returns what each collector cost, by kind. The clocks for it take a system
    /// call or two for each collector.
    pub fn collect_measured(&mut self, now_ms: i64) -> Vec<CollectorCost> {
        self.measure = true;
        self.collect(now_ms);
        self.measure = self.costs.is_some();
        let here = self.collectors.iter().map(|running| {
            let error = running.error.as_ref();
            (running.own.kind, running.cost, None, error)
        });
        let beside = self.in_background.iter().map(|running| {
            let (cost, error) = (running.handle.cost(), running.error.as_ref());
            (running.own.kind, cost, running.age, error)
        });
        let mut costs: Vec<CollectorCost> = here
            .chain(beside)
            .map(|(kind, cost, age, error)| {
                let (series, page_bytes) = self.sink.page_share(kind as u8);
                CollectorCost {
                    kind,
                    cost,
                    series,
                    page_bytes,
                    age,
                    error: error.map(ToString::to_string),
                }
            })
            .collect();
        costs.sort_unstable_by_key(|cost| cost.kind);
        costs
    }

    /// Returns its collectors.
    pub fn collectors(&self) -> CollectorSet {
        let here = self.collectors.iter().map(|r| r.own.kind);
        let beside = self.in_background.iter().map(|r| r.own.kind);
        here.chain(beside)
            .fold(CollectorSet::none(), CollectorSet::with)
    }

    /// Returns the last round's frame; before the first round, an empty one.
    pub fn frame(&self) -> &Frame {
        self.sink.frame()
    }

    /// Returns the schema of the last round.
    pub fn schema(&self) -> &Schema {
        self.sink.schema()
    }

    /// Returns why `kind` failed in its last round, or `None` if it did not.
    pub fn error(&self, kind: CollectorKind) -> Option<&HostError> {
        let mut errors = self.errors();
        errors
            .find(|(other, _)| *other == kind)
            .map(|(_, error)| error)
    }

    /// Lists the collectors that failed in their last round, in no particular order.
    pub fn errors(&self) -> impl Iterator<Item = (CollectorKind, &HostError)> {
        let here = self.collectors.iter().map(|r| (r.own.kind, &r.error));
        let beside = self.in_background.iter().map(|r| (r.own.kind, &r.error));
        here.chain(beside)
            .filter_map(|(kind, error)| Some((kind, error.as_ref()?)))
    }

    /// Starts the collectors on the pool's thread.
    fn ask_background(&mut self, only: CollectorSet) -> Result<(), HostError> {
        let Self {
            in_background,
            pool,
            sink,
            round,
            measure,
            ..
        } = self;
        let wanted = in_background
            .iter_mut()
            .filter(|running| only.contains(running.own.kind));
        let asked = wanted.filter_map(|running| {
            sink.set_owner(running.own.kind as u8);
            running.handle.begin(*round, *measure, sink)
        });
        pool.ask(asked)
    }

    /// Waits for the collectors on the pool's thread, and copies their values.
    fn end_background(
        &mut self,
        only: CollectorSet,
        until: Instant,
        mut pool_error: Option<HostError>,
    ) {
        let wanted = |running: &InBackground| only.contains(running.own.kind);
        let tasks = self.in_background.iter().filter(|running| wanted(running));
        let tasks = tasks.map(|running| running.handle.task());
        let waited = self.pool.wait(tasks, Until(until));
        pool_error = pool_error.or(waited.err());
        for running in self
            .in_background
            .iter_mut()
            .filter(|running| wanted(running))
        {
            let kind = running.own.kind;
            self.sink.set_owner(kind as u8);
            let mut took = Duration::ZERO;
            if let Some(outcome) = running.handle.end(self.limits, &mut self.sink) {
                took = outcome.took;
                running.set_age(outcome.age, &mut self.sink);
                // Without a thread nothing runs: the first collector reports the cause.
                running.error = match outcome.error {
                    Some(HostError::Late { .. }) => pool_error.take().or(outcome.error),
                    error => error,
                };
            }
            let success = running.error.is_none();
            running.own.set(took, success, &mut self.sink);
        }
    }

    /// Sets the series of costs, if they are wanted, for the collectors of this round.
    fn set_costs(&mut self, only: CollectorSet) {
        let Some(costs) = &mut self.costs else { return };
        if costs.is_empty() {
            let here = self.collectors.iter().map(|running| running.own.kind);
            let beside = self.in_background.iter().map(|running| running.own.kind);
            costs.extend(here.chain(beside).map(CostSeries::new));
        }
        let is_changed = self.sink.is_changing() || self.round <= 2;
        let runs = self.collectors.iter().map(|running| running.cost);
        let beside = self.in_background.iter_mut();
        let runs = runs.chain(beside.map(|running| running.handle.take_new_cost()));
        for (series, run) in costs.iter_mut().zip(runs) {
            if only.contains(series.kind()) {
                if is_changed {
                    series.set_share(self.sink.page_share(series.kind() as u8));
                }
                series.set(run, &mut self.sink);
            }
        }
    }

    fn refresh_due(&mut self, now_ms: i64) -> bool {
        // A clock that was set back must not keep old facts.
        let due = self
            .refreshed_ms
            .is_none_or(|at| now_ms < at || now_ms - at >= self.refresh_ms);
        if due {
            self.refreshed_ms = Some(now_ms);
        }
        due
    }
}

impl Running {
    fn prepare(&mut self, start: Instant, ctx: &mut Ctx<'_>, out: &mut Sink) -> Instant {
        self.prepared = Duration::ZERO;
        ctx.refresh = self.refresh;
        // Missing data is looked for at a refresh: modules are rarely loaded.
        if !ctx.refresh && self.error.as_ref().is_some_and(HostError::is_no_data) {
            return start;
        }
        self.error = None;
        if !self.collector.has_preparation() {
            return start;
        }
        out.set_owner(self.own.kind as u8);
        self.error = self.collector.prepare(ctx, out).err();
        let end = Instant::now();
        self.prepared = end - start;
        end
    }

    fn collect(&mut self, start: Instant, ctx: &mut Ctx<'_>, out: &mut Sink) -> Instant {
        let kind = self.own.kind;
        ctx.refresh = std::mem::take(&mut self.refresh);
        out.set_owner(kind as u8);
        if self.error.is_none() {
            self.error = self.collector.collect(ctx, out).err();
        }
        if self.error.is_some() {
            out.discard(kind as u8);
        }
        let end = Instant::now();
        let took = self.prepared + (end - start);
        self.own.set(took, self.error.is_none(), out);
        end
    }
}

impl InBackground {
    /// Reports the age of values of an earlier round; a fresh round has none.
    fn set_age(&mut self, age: Option<Duration>, out: &mut Sink) {
        self.age = age;
        let Some(age) = age else { return };
        out.set_owner(u8::MAX);
        let labels = [("collector", self.own.kind.name())];
        let slot = *self.age_slot.get_or_insert_with(|| out.add(&AGE, &labels));
        out.set(slot, age.as_secs_f64());
    }
}

impl OwnSeries {
    fn set(&mut self, took: Duration, success: bool, out: &mut Sink) {
        // A failing collector must not discard these.
        out.set_owner(u8::MAX);
        let (duration, succeeded) = *self.slots.get_or_insert_with(|| {
            let labels = [("collector", self.kind.name())];
            [DURATION, SUCCESS]
                .map(|desc| out.add(&desc, &labels))
                .into()
        });
        out.set(duration, took.as_secs_f64());
        out.set(succeeded, f64::from(u8::from(success)));
    }
}

const DURATION: Desc<'static> = Desc::gauge(
    "node_scrape_collector_duration_seconds",
    "node_exporter: Duration of a collector scrape.",
);
const SUCCESS: Desc<'static> = Desc::gauge(
    "node_scrape_collector_success",
    "node_exporter: Whether a collector succeeded.",
);

const AGE: Desc<'static> = Desc::gauge(
    "narthex_host_collector_age_seconds",
    "Age of the values of a collector that did not finish in time for this round, and is served from an earlier one.",
);

fn milliseconds(count: u32) -> Duration {
    Duration::from_millis(u64::from(count))
}

fn build_info(build: &BuildInfo, out: &mut Sink) -> Slot {
    out.set_owner(u8::MAX);
    let help = "A metric with a constant '1' value labeled by version, revision, branch, goversion from which \
                node_exporter was built, and the goos and goarch for the build.";
    let desc = Desc::gauge("node_exporter_build_info", help);
    // Go's names: dashboards select by them.
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let labels = [
        ("branch", build.branch.as_str()),
        ("goarch", arch),
        ("goos", std::env::consts::OS),
        ("goversion", build.goversion.as_str()),
        ("revision", build.revision.as_str()),
        ("tags", build.tags.as_str()),
        ("version", build.version.as_str()),
    ];
    out.add(&desc, &labels)
}
