//! Readings of a fleet and of the server that scrapes it, and what the fleet cost between two of them.
//!
//! **Invariant:** plain readings; what a fleet cost decides whether a run counts.

use super::{
    clock::now_ms,
    server::{Answer, FleetServer},
};
use crate::{
    harness::{BenchError, MachineLoad, RunningServer, Usage, own_thread_time, quantile},
    record::OwnCost,
};
use narthex_testkit::proc::ThreadTime;
use std::time::{Duration, Instant};

/// CPU budget of the fleet in ns per sample: above it there is a warning, unless the fleet is nearly idle.
const FLEET_BUDGET_NS: f64 = 60.0;
/// Cores below which the fleet disturbs nothing, however few samples it serves: small pages cost what a wake-up costs.
const IDLE_FLEET: f64 = 0.05;
/// Share of the interval: the fleet answers later than this only if it is the bottleneck.
const LATEST_ANSWER: f64 = 0.1;
/// Share of one core above which the fleet might be the bottleneck.
const BUSIEST_FLEET: f64 = 0.5;

/// The readings at one end of a window.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) at: Instant,
    pub(crate) at_ms: i64,
    pub(crate) usage: Usage,
    /// CPU time of generating the fleet's texts.
    making: Duration,
    pub(crate) machine: MachineLoad,
    thread: ThreadTime,
    answered: u64,
    pub(crate) samples: u64,
}

impl Edge {
    /// Reads a server and its fleet.
    pub(crate) fn read(server: &RunningServer, fleet: &FleetServer) -> Result<Self, BenchError> {
        let usage = server.usage()?;
        let (answered, samples) = fleet.counts();
        Ok(Self {
            at: Instant::now(),
            at_ms: now_ms(),
            usage,
            making: fleet.making(),
            machine: MachineLoad::read(usage.cpu)?,
            thread: own_thread_time(fleet.thread_id())?,
            answered,
            samples,
        })
    }

    /// Returns the server's CPU time until a later reading.
    pub(crate) fn cpu_until(&self, to: &Self) -> Duration {
        to.usage.cpu.saturating_sub(self.usage.cpu)
    }

    /// Returns the costs of the fleet until a later reading.
    pub(crate) fn costs_until(
        &self,
        to: &Self,
        fleet: &FleetServer,
        interval: Duration,
    ) -> Vec<OwnCost> {
        let window = to.at - self.at;
        let answered = to.answered - self.answered;
        let ran = to.thread.run.saturating_sub(self.thread.run);
        let waited = to.thread.waited.saturating_sub(self.thread.waited);
        let inside: Vec<Answer> = fleet.with_answers(|answers| {
            let inside = answers
                .iter()
                .filter(|answer| (self.at_ms..to.at_ms).contains(&answer.at_ms));
            inside.copied().collect()
        });
        let samples = (to.samples - self.samples).max(1) as f64;
        let bytes: f64 = inside.iter().map(|answer| f64::from(answer.bytes)).sum();
        let mut lags: Vec<f64> = inside
            .iter()
            .map(|answer| f64::from(answer.lag_us) / 1e3)
            .collect();
        lags.sort_by(f64::total_cmp);
        let making = (to.making - self.making).as_nanos() as f64 / samples;
        let waited_ms = waited.as_secs_f64() * 1e3 / answered.max(1) as f64;
        let late_ms = quantile(&lags, 0.99) + waited_ms;
        let latest_ms = interval.as_secs_f64() * 1e3 * LATEST_ANSWER;
        let idle_ns = IDLE_FLEET * window.as_nanos() as f64 / samples;
        vec![
            // Sending includes the server's half of loopback TCP.
            OwnCost::new("the fleet", "ns a sample", ran.as_nanos() as f64 / samples)
                .warn_above(FLEET_BUDGET_NS.max(idle_ns)),
            OwnCost::new("without sending", "ns a sample", making),
            OwnCost::new("of", "B a sample", bytes / samples),
            OwnCost::new("its cores", "", ran.as_secs_f64() / window.as_secs_f64())
                .refuse_above(BUSIEST_FLEET),
            OwnCost::new("first byte after (p99)", "ms", late_ms).refuse_above(latest_ms),
        ]
    }
}
