//! Shared code of collectors that read a few files of numbers.
//!
//! Invariant: each file is one `pread` per round; a series' index is the number's index in its file.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::open_file::{End, OpenFile};
use crate::scan::{float, next_field};
use crate::sink::{Desc, Sink, Slot};

/// A file below procfs, and the series of its numbers.
pub(crate) type Table = (&'static str, &'static [(usize, Desc<'static>)]);

pub(crate) struct Numbers {
    files: Vec<(OpenFile, Vec<Slot>, &'static Table)>,
}

impl Numbers {
    pub(crate) fn new(tables: &'static [Table], procfs: &Path) -> Self {
        let files = tables.iter().map(|table| {
            let file = OpenFile::new(procfs.join(table.0));
            (file, Vec::new(), table)
        });
        Self {
            files: files.collect(),
        }
    }
}

impl Collector for Numbers {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        for (file, slots, (_, series)) in &mut self.files {
            let text = file.read(ctx.buf, End::Numbers);
            let text = text.map_err(HostError::or_no_data)?;
            if slots.is_empty() {
                slots.extend(series.iter().map(|(_, desc)| out.add(desc, &[])));
            }
            for (slot, (place, _)) in slots.iter().zip(*series) {
                let value = nth(text, *place).ok_or_else(|| file.expected(1, "numbers"))?;
                out.set(*slot, value);
            }
        }
        Ok(())
    }
}

/// Returns the number at an index of a line.
pub(crate) fn nth(text: &[u8], place: usize) -> Option<f64> {
    let mut rest = text.trim_ascii();
    for _ in 0..place {
        next_field(&mut rest)?;
    }
    next_field(&mut rest).and_then(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_line() {
        assert_eq!(nth(b"1024\t0\t1631329\n", 2), Some(1_631_329.0));
        assert_eq!(nth(b"1024\t0", 2), None);
        assert_eq!(nth(b"", 0), None);
        // A maximum beyond a signed 64-bit integer is still a number.
        assert_eq!(
            nth(b"0 0 9223372036854775807", 2),
            Some(9_223_372_036_854_775_807_u64 as f64)
        );
    }
}
