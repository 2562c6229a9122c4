//! Soft interrupts by CPU and kind.
//!
//! Invariant: only the ten kinds that node_exporter knows; a CPU is the number of its column.

use crate::error::ParseError;
use crate::proc_table::Table;
use crate::rows::Rows;
use crate::scan::{each_line, next_field, number};
use crate::sink::{Desc, Sink};

const SOFTIRQS: Desc<'static> = Desc::counter(
    "node_softirqs_functions_total",
    "Soft interrupts handled, by CPU and kind.",
);
const KINDS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

#[derive(Default)]
pub(crate) struct Softirqs {
    values: Vec<f64>,
}

impl Table for Softirqs {
    const FILE: &'static str = "softirqs";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        each_line(text, |mut line| {
            let name = next_field(&mut line).and_then(|name| name.strip_suffix(b":"));
            let known = KINDS.iter().find(|kind| Some(kind.as_bytes()) == name);
            let Some(kind) = known else { return Ok(()) };
            self.values.clear();
            while let Some(field) = next_field(&mut line) {
                let value = number(field).ok_or("a number for each CPU")?;
                self.values.push(value as f64);
            }
            let cpus = self.values.len();
            rows.set(
                &[kind.as_bytes(), &cpus.to_ne_bytes()],
                &self.values,
                out,
                |out| {
                    let add = |cpu: usize| {
                        let cpu = cpu.to_string();
                        out.add(&SOFTIRQS, &[("cpu", &cpu), ("type", kind)])
                    };
                    (0..cpus).map(add).collect()
                },
            );
            Ok(())
        })
    }
}
