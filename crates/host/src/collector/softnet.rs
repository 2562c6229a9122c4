//! Packets handed to the network stack, per CPU.
//!
//! Invariant: values that an older kernel does not print are 0; the line number is the CPU if the kernel prints none.

use crate::error::ParseError;
use crate::open_file::End;
use crate::proc_table::Table;
use crate::rows::Rows;
use crate::scan::{each_line, hex, next_field};
use crate::sink::Sink;

pub(crate) struct Softnet;

impl Table for Softnet {
    const FILE: &'static str = "net/softnet_stat";
    const END: End = End::Below(2048);

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        parse(text, &mut |cpu, values| {
            rows.set_cpu(cpu, &values, include_str!("softnet.txt"), out);
        })
    }
}

pub(crate) fn parse(text: &[u8], each: &mut dyn FnMut(u64, [f64; 7])) -> Result<(), ParseError> {
    /// Newer kernels print more columns.
    const MIN_COLUMNS: usize = 9;
    const WITH_CPU: usize = 13;
    let error = "a CPU's counters";
    let mut row = 0;
    each_line(text, |mut line| {
        let mut columns = [0_u64; 13];
        let mut count = 0;
        while let Some(field) = next_field(&mut line) {
            if let Some(column) = columns.get_mut(count) {
                *column = hex(field)
                    .filter(|value| u32::try_from(*value).is_ok())
                    .ok_or(error)?;
            }
            count += 1;
        }
        if count < MIN_COLUMNS {
            return Err(error);
        }
        let [
            processed,
            dropped,
            squeezed,
            ..,
            collision,
            rps,
            flow_limit,
            backlog,
            cpu,
        ] = columns;
        let (backlog, cpu) = match count >= WITH_CPU {
            true => (backlog, cpu),
            false => (0, row),
        };
        let values = [
            processed, dropped, squeezed, collision, rps, flow_limit, backlog,
        ];
        each(cpu, values.map(|value| value as f64));
        row += 1;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softnet_of_old_and_new_kernels() {
        let nine = "10 2 3 0 0 0 0 0 4";
        let thirteen = format!("{nine} 5 6 7 9");
        let mut seen = Vec::new();
        let text = format!("{nine}\n{thirteen} 1 2\n");
        parse(text.as_bytes(), &mut |cpu, values| seen.push((cpu, values))).expect("well formed");
        assert_eq!(seen[0], (0, [16.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0]));
        assert_eq!(seen[1], (9, [16.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]));
        for bad in ["1 2 3", "1 2 3 4 5 6 7 8 g", "100000000 2 3 4 5 6 7 8 9"] {
            let parsed = parse(bad.as_bytes(), &mut |_, _| {});
            assert_eq!(parsed.map_err(|error| error.line), Err(1), "{bad}");
        }
    }
}
