//! Running and waiting time per CPU.
//!
//! Invariant: a line of unknown form is not a CPU's, as in node_exporter.

use crate::error::ParseError;
use crate::proc_table::Table;
use crate::rows::Rows;
use crate::scan::{next_field, next_line, next_u64, number};
use crate::sink::Sink;

pub(crate) struct Schedstat;

impl Table for Schedstat {
    const FILE: &'static str = "schedstat";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        parse(text, &mut |cpu, values| {
            rows.set_cpu(cpu, &values, include_str!("schedstat.txt"), out);
        })
    }
}

pub(crate) fn parse(
    mut text: &[u8],
    each: &mut dyn FnMut(u64, [f64; 3]),
) -> Result<(), ParseError> {
    /// Numbers between the CPU's name and the exported ones.
    const SKIPPED: usize = 6;
    const NANOSECONDS: f64 = 1e9;
    while let Some(mut line) = next_line(&mut text) {
        let cpu = next_field(&mut line)
            .and_then(|key| key.strip_prefix(b"cpu"))
            .and_then(number);
        let Some(cpu) = cpu else { continue };
        let mut numbers = [0; SKIPPED + 3];
        let whole = numbers.iter_mut().all(|place| {
            let value = next_u64(&mut line).ok().flatten();
            *place = value.unwrap_or(0);
            value.is_some()
        });
        // As in node_exporter, a line of another form is not a CPU's.
        if !whole {
            continue;
        }
        let [.., running, waiting, timeslices] = numbers;
        let values = [
            running as f64 / NANOSECONDS,
            waiting as f64 / NANOSECONDS,
            timeslices as f64,
        ];
        each(cpu, values);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_skips_domains_and_damage() {
        let text = b"version 15\ncpu0 0 0 0 0 0 0 1500000000 2 3\ndomain0 1\ncpu1 1 2\ncpux 1\n";
        let mut seen = Vec::new();
        parse(text, &mut |cpu, values| seen.push((cpu, values))).expect("well formed");
        assert_eq!(seen, [(0, [1.5, 2e-9, 3.0])]);
    }
}
