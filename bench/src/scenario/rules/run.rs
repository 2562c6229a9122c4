//! One server's run through the scenario: start, warm-up, window, checks.

use super::{plan::Plan, self_metrics::SelfMetrics};
use crate::{
    harness::{BenchError, Progress, Resident, RunningServer, ServerSpec, Ticks, WorkDir, poll},
    load::fleet::{Edge, FleetServer, Schedule, static_configs},
    record::OwnCost,
};
use narthex_testkit::http;
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Timeout of a start.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Timeout until every rule is healthy: the first evaluations of a group may be a whole interval away.
const HEALTH_LIMIT: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(1);
/// Groups of a rule file.
const FILE_GROUPS: usize = 25;

/// All measurements of one server.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The window.
    pub(super) from: Edge,
    pub(super) to: Edge,
    /// What the server said at both ends; nothing of rules if it had none.
    pub(super) said: (SelfMetrics, SelfMetrics),
    pub(super) resident: Resident,
    pub(super) schedule: Schedule,
    /// Rules by their states: inactive, pending, firing.
    pub(super) alerts: [u64; 3],
    pub(super) own_costs: Vec<OwnCost>,
    pub(super) ticks: Ticks,
}

/// A server at work.
struct Measured<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    // Dropped in this order: the server before its targets and rules.
    server: RunningServer,
    fleet: FleetServer,
    _rules: WorkDir,
    ticks: Ticks,
}

/// Runs all phases.
pub(super) fn measure(
    plan: &Plan,
    spec: &ServerSpec,
    has_rules: bool,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    progress.begin(&spec.label, "making the fleet");
    let mut measured = Measured::start(plan, spec, has_rules, progress)?;
    measured.watch("warm-up", plan.flags.warmup)?;
    if has_rules {
        // A server that is late with its first round is measured from the second on.
        measured.wait_healthy()?;
    }
    let from = Edge::read(&measured.server, &measured.fleet)?;
    let said_from = measured.said()?;
    measured.watch("measuring", plan.flags.duration)?;
    let to = Edge::read(&measured.server, &measured.fleet)?;
    let said_to = measured.said()?;
    let resident = Resident::read(measured.server.pid())?;
    let mut alerts = [0; 3];
    if has_rules {
        alerts = measured.wait_healthy()?;
        measured.check_failures(&said_to)?;
    }
    let (targets, interval) = (plan.fleet.targets, plan.flags.interval);
    let schedule = measured
        .fleet
        .with_answers(|answers| Schedule::read(answers, targets, interval, from.at_ms, to.at_ms));
    let mut own_costs = from.costs_until(&to, &measured.fleet, interval);
    own_costs.push(to.machine.others_since(&from.machine));
    Ok(Outcome {
        from,
        to,
        said: (said_from, said_to),
        resident,
        schedule,
        alerts,
        own_costs,
        ticks: measured.ticks,
    })
}

impl<'a> Measured<'a> {
    /// Starts the fleet and the server, and waits for the first scrape.
    fn start(
        plan: &'a Plan,
        spec: &ServerSpec,
        has_rules: bool,
        progress: &'a Progress,
    ) -> Result<Self, BenchError> {
        let fleet = FleetServer::start(plan.fleet)?;
        let rules = WorkDir::new(&plan.base, &format!("{}-rules", spec.label))?;
        let interval_ms = plan.flags.interval.as_millis();
        let mut config = format!(
            "global:\n  scrape_interval: {interval_ms}ms\n  scrape_timeout: {interval_ms}ms\n  \
             evaluation_interval: {interval_ms}ms\n"
        );
        if has_rules {
            let pattern = write_rules(plan, &rules)?;
            config.push_str(&format!("rule_files: [\"{pattern}\"]\n"));
        }
        config.push_str("scrape_configs:\n  - job_name: fleet\n");
        let addresses = fleet.addresses().iter().enumerate();
        let targets = addresses.map(|(at, address)| (*address, plan.fleet.labels_of(at, 0)));
        config.push_str(&static_configs(targets));
        let ticks = Ticks::start();
        let mut server = RunningServer::start(spec, &plan.base, &[("scrape", &config)])?;
        server.wait_ready(START_LIMIT)?;
        server.wait("scrape", START_LIMIT, |_| {
            fleet.with_answers(|answers| answers.first().map(drop))
        })?;
        Ok(Self {
            plan,
            progress,
            server,
            fleet,
            _rules: rules,
            ticks,
        })
    }

    /// Waits, reading the figures.
    fn watch(&mut self, phase: &str, time: Duration) -> Result<(), BenchError> {
        let label = self.server.label().to_owned();
        self.progress.begin(&label, phase);
        let (end, mut next) = (Instant::now() + time, Instant::now() + TICK);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(next.saturating_duration_since(Instant::now())));
            next = (next + TICK).max(Instant::now());
            self.server.check()?;
            self.fleet.check()?;
            let usage = self.server.usage()?;
            let cores = self.ticks.push(usage, 0, self.fleet.counts().1).cores;
            let mb = usage.rss_bytes / 1_000_000;
            self.progress
                .show(&format!("{label}: {phase}, {cores:.2} cores, {mb} MB"));
        }
    }

    /// Reads what the server says of itself.
    fn said(&self) -> Result<SelfMetrics, BenchError> {
        Ok(SelfMetrics::read(&self.get("/metrics")?))
    }

    fn get(&self, path: &str) -> Result<String, BenchError> {
        let answer = http::get(&self.server.url(path)).map_err(BenchError::io("ask the server"))?;
        if answer.status == 200 {
            Ok(answer.text())
        } else {
            let what = format!("with status {}", answer.status);
            Err(BenchError::answer(self.server.label(), path, what))
        }
    }

    /// Waits until every rule was evaluated and is healthy; returns the number of alerting rules in each state.
    fn wait_healthy(&mut self) -> Result<[u64; 3], BenchError> {
        const PATH: &str = "/api/v1/rules";
        let mut found = States::default();
        let limit = HEALTH_LIMIT + self.plan.flags.interval;
        let healthy = poll(TICK, limit, || {
            found = States::read(&self.get(PATH)?);
            self.server.check()?;
            Ok((found.healthy == self.plan.flags.rules as u64).then_some(found.alerts))
        })?;
        healthy.ok_or_else(|| {
            let what = format!("with {} healthy rules{}", found.healthy, found.error);
            BenchError::answer(self.server.label(), PATH, what)
        })
    }

    fn check_failures(&self, said: &SelfMetrics) -> Result<(), BenchError> {
        match said.get("evaluation_failures_total") {
            Some(0.0) => Ok(()),
            failures => {
                let what = format!("with {failures:?} failed evaluations");
                Err(BenchError::answer(self.server.label(), "/metrics", what))
            }
        }
    }
}

/// Writes the rule files; returns the pattern that names them.
fn write_rules(plan: &Plan, dir: &WorkDir) -> Result<String, BenchError> {
    let groups: Vec<String> = (0..plan.groups()).map(|at| plan.group(at)).collect();
    for (at, groups) in groups.chunks(FILE_GROUPS).enumerate() {
        let path = dir.path().join(format!("rules-{at:04}.yml"));
        let text = format!("groups:\n{}", groups.concat());
        fs::write(path, text).map_err(BenchError::io("write rule files"))?;
    }
    Ok(dir.path().join("rules-*.yml").display().to_string())
}

/// What `/api/v1/rules` says of all rules.
#[derive(Debug, Default)]
struct States {
    healthy: u64,
    /// Inactive, pending, firing.
    alerts: [u64; 3],
    /// The last error, as the end of a sentence.
    error: String,
}

impl States {
    fn read(body: &str) -> Self {
        let mut states = Self::default();
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let groups = body["data"]["groups"].as_array().into_iter().flatten();
        for rule in groups.flat_map(|group| group["rules"].as_array().into_iter().flatten()) {
            if rule["health"] == "ok" {
                states.healthy += 1;
            } else if let Some(error) = rule["lastError"].as_str() {
                states.error = format!(", and {}: {error}", rule["name"]);
            }
            let known = ["inactive", "pending", "firing"];
            let at = known.iter().position(|state| rule["state"] == *state);
            if let Some(count) = at.and_then(|at| states.alerts.get_mut(at)) {
                *count += 1;
            }
        }
        states
    }
}
