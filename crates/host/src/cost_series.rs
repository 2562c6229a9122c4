//! What collectors cost, as series.
//!
//! Invariant: a run is added to the counters once, however many rounds serve its values.

use crate::cost::Cost;
use crate::kind::CollectorKind;
use crate::sink::{Desc, Sink, Slot};

const FAMILIES: [Desc<'static>; 5] = [
    Desc::counter(
        "narthex_host_collector_cpu_seconds_total",
        "CPU time of a collector, in the kernel and outside it.",
    ),
    Desc::counter(
        "narthex_host_collector_system_calls_total",
        "System calls of a collector that read something.",
    ),
    Desc::counter(
        "narthex_host_collector_read_bytes_total",
        "Bytes that a collector read.",
    ),
    Desc::gauge("narthex_host_collector_series", "Series of a collector."),
    Desc::gauge(
        "narthex_host_collector_page_bytes",
        "Bytes of a collector's lines on the page in the text format, when series last came or went.",
    ),
];

/// One collector's series.
pub(crate) struct CostSeries {
    kind: CollectorKind,
    total: Cost,
    slots: Vec<Slot>,
    share: (usize, usize),
}

impl CostSeries {
    pub(crate) fn new(kind: CollectorKind) -> Self {
        Self {
            kind,
            total: Cost::default(),
            slots: Vec::new(),
            share: (0, 0),
        }
    }

    pub(crate) fn kind(&self) -> CollectorKind {
        self.kind
    }

    /// Sets the number of series and bytes.
    pub(crate) fn set_share(&mut self, share: (usize, usize)) {
        self.share = share;
    }

    /// Adds a run, if there was one, and sets the series.
    pub(crate) fn set(&mut self, run: Option<Cost>, out: &mut Sink) {
        self.total += run.unwrap_or_default();
        out.set_owner(u8::MAX);
        if self.slots.is_empty() {
            let labels = [("collector", self.kind.name())];
            self.slots = FAMILIES.map(|desc| out.add(&desc, &labels)).into();
        }
        let (series, bytes) = self.share;
        let values = [
            self.total.cpu.as_secs_f64(),
            self.total.calls as f64,
            self.total.read_bytes as f64,
            series as f64,
            bytes as f64,
        ];
        out.set_all(&self.slots, values);
    }
}
