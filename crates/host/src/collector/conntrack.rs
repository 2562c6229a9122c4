//! Connections tracked by netfilter: their number, their limit, and results of lookups.
//!
//! Invariant: counters of all CPUs are summed; columns are those of `net/stat/nf_conntrack` since Linux 2.6.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::scan::{each_line_below, hex, next_field, number, trim};
use crate::sink::{Sink, Slot};
use crate::table::{self, Series};

/// Columns of `net/stat/nf_conntrack`.
const STATS: &str = include_str!("conntrack.txt");
const COLUMNS: usize = 17;

pub(crate) struct Conntrack {
    sizes: [OpenFile; 2],
    stats: OpenFile,
    size_series: Series,
    /// Columns and their series.
    stat_slots: Vec<(usize, Slot)>,
}

impl Conntrack {
    pub(crate) fn new(procfs: &Path) -> Self {
        let file = |name: &str| OpenFile::new(procfs.join(name));
        Self {
            sizes: [
                file("sys/net/netfilter/nf_conntrack_count"),
                file("sys/net/netfilter/nf_conntrack_max"),
            ],
            stats: file("net/stat/nf_conntrack"),
            size_series: Series::new(include_str!("conntrack_sizes.txt")),
            stat_slots: Vec::new(),
        }
    }
}

impl Collector for Conntrack {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut sizes = [0; 2];
        for (file, size) in self.sizes.iter_mut().zip(&mut sizes) {
            let text = file.read(ctx.buf, End::Numbers);
            let text = trim(text.map_err(HostError::or_no_data)?);
            *size = number(text).ok_or_else(|| file.expected(1, "a number"))?;
        }
        let text = self.stats.read(ctx.buf, End::Below(2048));
        let sums = parse(text.map_err(HostError::or_no_data)?)
            .map_err(|source| self.stats.malformed(source))?;
        if self.stat_slots.is_empty() {
            let rows = table::rows(STATS);
            let slots = rows.map(|([column], desc)| (table::number(column), out.add(&desc, &[])));
            self.stat_slots = slots.collect();
        }
        self.size_series.set(sizes.map(|size| size as f64), out);
        for (column, slot) in &self.stat_slots {
            out.set(*slot, sums[*column] as f64);
        }
        Ok(())
    }
}

/// Sums the lines below the header.
pub(crate) fn parse(text: &[u8]) -> Result<[u64; COLUMNS], ParseError> {
    let error = "16 or 17 hexadecimal numbers";
    let mut sums = [0_u64; COLUMNS];
    each_line_below(1, text, |mut line| {
        let mut count = 0;
        while let Some(field) = next_field(&mut line) {
            let sum = sums.get_mut(count).ok_or(error)?;
            *sum = sum.wrapping_add(hex(field).ok_or(error)?);
            count += 1;
        }
        // Linux before 2.6.35 does not count restarts.
        if count < COLUMNS - 1 {
            return Err(error);
        }
        Ok(())
    })?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed() {
        let line = "1 2 3 4 5 6 7 8 9 a b c d e f 10";
        let text = format!("entries searched\n{line} 11\n{line}\n");
        let sums = parse(text.as_bytes()).expect("well formed");
        assert_eq!((sums[2], sums[10], sums[16]), (6, 22, 17));
        let malformed = |text: &str| parse(text.as_bytes()).map_err(|error| error.line);
        assert_eq!(malformed("h\n1 2 3\n"), Err(2));
        assert_eq!(malformed(&format!("h\n{line} 1 2\n")), Err(2));
        assert_eq!(malformed(&format!("h\n{line}\nx{line}\n")), Err(3));
    }
}
