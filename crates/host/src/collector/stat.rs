//! The lines of `/proc/stat` that are not per CPU.
//!
//! Invariant: every family is exported in every successful round; a line the kernel does not print counts as 0.

use std::sync::{Arc, Mutex};

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::pool::lock;
use crate::procstat::SharedStat;
use crate::sink::{MetricType, Sink, Slot};

const FAMILIES: [(&str, MetricType, &str); 6] = [
    (
        "node_intr_total",
        MetricType::Counter,
        "Total number of interrupts serviced.",
    ),
    (
        "node_context_switches_total",
        MetricType::Counter,
        "Total number of context switches.",
    ),
    (
        "node_forks_total",
        MetricType::Counter,
        "Total number of forks.",
    ),
    (
        "node_boot_time_seconds",
        MetricType::Gauge,
        "Node boot time, in unixtime.",
    ),
    (
        "node_procs_running",
        MetricType::Gauge,
        "Number of processes in runnable state.",
    ),
    (
        "node_procs_blocked",
        MetricType::Gauge,
        "Number of processes blocked waiting for I/O to complete.",
    ),
];
const VECTORS: [&str; 10] = [
    "hi",
    "timer",
    "net_tx",
    "net_rx",
    "block",
    "block_iopoll",
    "tasklet",
    "sched",
    "hrtimer",
    "rcu",
];

pub(crate) struct Stat {
    stat: Arc<Mutex<SharedStat>>,
    softirq: bool,
    slots: Option<Slots>,
}

struct Slots {
    singles: [Slot; 6],
    vectors: Option<[Slot; 10]>,
}

impl Stat {
    pub(crate) fn new(softirq: bool, stat: Arc<Mutex<SharedStat>>) -> Self {
        Self {
            stat,
            softirq,
            slots: None,
        }
    }
}

impl Collector for Stat {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut shared = lock(&self.stat);
        let stat = shared.get(ctx.round, ctx.buf)?;
        let slots = self.slots.get_or_insert_with(|| Slots {
            singles: FAMILIES.map(|(name, kind, help)| out.single(name, kind, help)),
            vectors: self.softirq.then(|| {
                let family = out.family(
                    "node_softirqs_total",
                    MetricType::Counter,
                    "Number of softirq calls.",
                );
                VECTORS.map(|vector| out.series(&family, &[("vector", vector)]))
            }),
        });
        let values = [
            stat.interrupts,
            stat.context_switches,
            stat.forks,
            stat.boot_time_seconds,
            stat.procs_running,
            stat.procs_blocked,
        ];
        for (slot, value) in slots.singles.iter().zip(values) {
            out.set(*slot, value as f64);
        }
        for (slot, value) in slots.vectors.iter().flatten().zip(stat.softirqs) {
            out.set(*slot, value as f64);
        }
        Ok(())
    }
}
