//! Pressure stall information: seconds that tasks lost waiting for CPU, I/O, memory and interrupts.
//!
//! Invariant: a resource the kernel does not account for is omitted; disabled accounting is no data.

use std::path::Path;

use rustix::io::Errno;

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::open_file::{End, OpenFile};
use crate::scan::{next_field, next_line, number};
use crate::sink::{Desc, Sink, Slot};

/// Resources and the families of their `some` and `full` lines.
const RESOURCES: [(&str, Option<Desc<'static>>, Option<Desc<'static>>); 4] = [
    (
        "cpu",
        Some(Desc::counter(
            "node_pressure_cpu_waiting_seconds_total",
            "Total time in seconds that processes have waited for CPU time",
        )),
        None,
    ),
    (
        "io",
        Some(Desc::counter(
            "node_pressure_io_waiting_seconds_total",
            "Total time in seconds that processes have waited due to IO congestion",
        )),
        Some(Desc::counter(
            "node_pressure_io_stalled_seconds_total",
            "Total time in seconds no process could make progress due to IO congestion",
        )),
    ),
    (
        "memory",
        Some(Desc::counter(
            "node_pressure_memory_waiting_seconds_total",
            "Total time in seconds that processes have waited for memory",
        )),
        Some(Desc::counter(
            "node_pressure_memory_stalled_seconds_total",
            "Total time in seconds no process could make progress due to memory congestion",
        )),
    ),
    (
        "irq",
        None,
        Some(Desc::counter(
            "node_pressure_irq_stalled_seconds_total",
            "Total time in seconds no process could make progress due to IRQ congestion",
        )),
    ),
];

pub(crate) struct Pressure {
    resources: [(OpenFile, [Option<Slot>; 2]); RESOURCES.len()],
}

impl Pressure {
    pub(crate) fn new(procfs: &Path) -> Self {
        let directory = procfs.join("pressure");
        Self {
            resources: RESOURCES
                .map(|(name, _, _)| (OpenFile::new(directory.join(name)), [None, None])),
        }
    }
}

impl Collector for Pressure {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut found = false;
        for ((file, slots), (_, some, full)) in self.resources.iter_mut().zip(&RESOURCES) {
            let text = match file.read_if_there(ctx.refresh, ctx.buf, End::Short) {
                // Compiled in, switched off at boot.
                Err(HostError::Read {
                    source: Errno::OPNOTSUPP,
                    ..
                }) => return Err(file.no_data()),
                read => read?,
            };
            let Some(text) = text else { continue };
            let totals = parse(text).ok_or_else(|| file.expected(1, "stall times"))?;
            for ((slot, desc), micros) in slots.iter_mut().zip([some, full]).zip(totals) {
                let Some(desc) = desc else { continue };
                let Some(micros) = micros else {
                    return Err(file.no_data());
                };
                let slot = *slot.get_or_insert_with(|| out.add(desc, &[]));
                out.set(slot, micros as f64 / 1000.0 / 1000.0);
            }
            found = true;
        }
        match found {
            true => Ok(()),
            false => Err(self.resources[0].0.no_data()),
        }
    }
}

/// Returns the totals of the lines `some` and `full`, in microseconds.
pub(crate) fn parse(mut text: &[u8]) -> Option<[Option<u64>; 2]> {
    let mut totals = [None, None];
    while let Some(mut line) = next_line(&mut text) {
        let total = match next_field(&mut line) {
            Some(b"some") => &mut totals[0],
            Some(b"full") => &mut totals[1],
            _ => continue,
        };
        let mut value = None;
        while let Some(field) = next_field(&mut line) {
            value = field.strip_prefix(b"total=").or(value);
        }
        *total = Some(number(value?)?);
    }
    Some(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_both_lines() {
        let text = b"some avg10=0.10 avg60=2.00 avg300=3.85 total=15\nfull avg10=0.20 total=25\n";
        assert_eq!(parse(text), Some([Some(15), Some(25)]));
        assert_eq!(parse(b"full total=1"), Some([None, Some(1)]));
        for bad in [&b"some avg10=0"[..], b"some total=x", b"full total=-1"] {
            assert_eq!(parse(bad), None);
        }
    }
}
