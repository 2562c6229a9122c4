//! Collectors that read a few files of numbers: the entropy pool, open files, hung tasks.
//!
//! Invariant: each file is one `pread` per round; without one of its files a collector has no data.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::kind::CollectorKind;
use crate::open_file::{End, OpenFile};
use crate::scan::{float, next_field};
use crate::sink::{Desc, Sink, Slot};
use crate::table;

/// Collectors, files below procfs, and indices of numbers in them. The second number of `file-nr`, which the kernel always
/// prints as 0, is not exported.
const NUMBERS: &str = include_str!("numbers.txt");

pub(crate) struct Numbers(Vec<File>);

struct File {
    file: OpenFile,
    numbers: Vec<(usize, Desc<'static>)>,
    slots: Vec<Slot>,
}

impl Numbers {
    pub(crate) fn new(kind: CollectorKind, procfs: &Path) -> Self {
        let rows: Vec<_> = table::rows_of(NUMBERS, kind.name()).collect();
        let files = rows.chunk_by(|([file, _], _), ([next, _], _)| file == next);
        let files = files.filter_map(|rows| {
            let ([file, _], _) = rows.first()?;
            let numbers = rows
                .iter()
                .map(|([_, place], desc)| (table::number(place), *desc));
            Some(File {
                file: OpenFile::new(procfs.join(file)),
                numbers: numbers.collect(),
                slots: Vec::new(),
            })
        });
        Self(files.collect())
    }
}

impl Collector for Numbers {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        for File {
            file,
            numbers,
            slots,
        } in &mut self.0
        {
            let text = file.read(ctx.buf, End::Numbers);
            let text = text.map_err(HostError::or_no_data)?;
            if slots.is_empty() {
                slots.extend(numbers.iter().map(|(_, desc)| out.add(desc, &[])));
            }
            for (slot, (place, _)) in slots.iter().zip(numbers) {
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
