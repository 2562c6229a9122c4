//! The lines of `/proc/stat` that are not per CPU.
//!
//! Invariant: every family is exported in every successful round; a line the kernel does not print counts as 0.

use std::sync::{Arc, Mutex};

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::pool::lock;
use crate::procstat::SharedStat;
use crate::sink::{Desc, Sink, Slot};
use crate::table::Series;

const SOFTIRQS: Desc<'static> = Desc::counter("node_softirqs_total", "Number of softirq calls.");
const VECTORS: &str = "hi timer net_tx net_rx block block_iopoll tasklet sched hrtimer rcu";

pub(crate) struct Stat {
    stat: Arc<Mutex<SharedStat>>,
    softirq: bool,
    singles: Series,
    vectors: Vec<Slot>,
}

impl Stat {
    pub(crate) fn new(softirq: bool, stat: Arc<Mutex<SharedStat>>) -> Self {
        Self {
            stat,
            softirq,
            singles: Series::new(include_str!("stat.txt")),
            vectors: Vec::new(),
        }
    }
}

impl Collector for Stat {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut shared = lock(&self.stat);
        let stat = shared.get(ctx.round, ctx.buf)?;
        let values = [
            stat.interrupts,
            stat.context_switches,
            stat.forks,
            stat.boot_time_seconds,
            stat.procs_running,
            stat.procs_blocked,
        ];
        self.singles.set(values.map(|value| value as f64), out);
        if self.softirq && self.vectors.is_empty() {
            let add = |vector| out.add(&SOFTIRQS, &[("vector", vector)]);
            self.vectors = VECTORS.split(' ').map(add).collect();
        }
        out.set_all(&self.vectors, stat.softirqs.map(|count| count as f64));
        Ok(())
    }
}
