//! One collector's series, without a source.

use narthex_model::{ColumnId, LabelSet};
use narthex_testkit::exposition::series;

use super::*;

/// The rounds of a collector.
pub(crate) struct Rounds<C> {
    pub(crate) collector: C,
    sink: Sink,
    buf: ReadBuf,
    round: u64,
}

impl<C: Collector> Rounds<C> {
    pub(crate) fn new(collector: C) -> Self {
        Self {
            collector,
            sink: Sink::new(LabelSet::empty()),
            buf: ReadBuf::new(),
            round: 0,
        }
    }

    /// Returns a round's series with their values, sorted, or why there is none. The first round is a refresh.
    pub(crate) fn next(&mut self) -> Result<Vec<String>, String> {
        self.round += 1;
        self.sink.begin();
        let mut ctx = Ctx {
            buf: &mut self.buf,
            round: self.round,
            refresh: self.round == 1,
            udp_sockets: [None; 2],
        };
        let collected = self.collector.collect(&mut ctx, &mut self.sink);
        let frame = self.sink.finish(0);
        collected.map_err(|error| error.to_string())?;
        let schema = frame.schema();
        let lines = frame.present().iter().map(|at| {
            let labels = schema.labels(ColumnId(u32::try_from(at).expect("small")));
            let pairs = labels.iter().map(|label| (label.name(), label.value()));
            let pairs: Vec<_> = pairs.filter(|(name, _)| *name != "__name__").collect();
            let name = labels.metric_name();
            format!("{} {}", series(name, &pairs), frame.values()[at])
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        Ok(lines)
    }
}
