//! `/proc/meminfo`: the fields node_exporter knows, in bytes.
//!
//! Invariant: exactly the fields in `SIZES` and `PAGES` are exported; other fields of newer kernels are skipped.

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line, label_text, next_field, number};
use crate::sink::{Desc, Sink, Slot};

/// The kernel's names of what is exported in bytes, with the suffix `_bytes`.
const SIZES: &str = "\
    MemTotal MemFree MemAvailable Buffers Cached SwapCached Active Inactive Active(anon) Inactive(anon) Active(file) \
    Inactive(file) Unevictable Mlocked SwapTotal SwapFree Zswap Zswapped Dirty Writeback AnonPages Mapped Shmem Slab \
    SReclaimable SUnreclaim KernelStack PageTables NFS_Unstable Bounce WritebackTmp CommitLimit Committed_AS \
    VmallocTotal VmallocUsed VmallocChunk Percpu HardwareCorrupted AnonHugePages ShmemHugePages ShmemPmdMapped \
    CmaTotal CmaFree Hugepagesize DirectMap4k DirectMap2M DirectMap1G";
/// Those of numbers of pages.
const PAGES: &str = "HugePages_Total HugePages_Free HugePages_Rsvd HugePages_Surp";

pub(crate) struct Meminfo {
    file: OpenFile,
    lines: OrderedCache<Box<[u8]>, Option<Slot>>,
}

impl Meminfo {
    pub(crate) fn new(file: OpenFile) -> Self {
        Self {
            file,
            lines: OrderedCache::new(),
        }
    }
}

impl Collector for Meminfo {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.file.read(ctx.buf, End::Short)?;
        self.lines.begin();
        let lines = &mut self.lines;
        let parsed = parse(text, |key, value| {
            if let Some(slot) = *lines.entry(key, || new_slot(key, out)) {
                out.set(slot, value as f64);
            }
        });
        parsed.map_err(|source| self.file.malformed(source))
    }
}

/// Calls `each` with every field's name, without its colon, and its value in bytes (a plain count has no unit).
pub(crate) fn parse(text: &[u8], mut each: impl FnMut(&[u8], u64)) -> Result<(), ParseError> {
    each_line(text, |mut line| {
        let Some(key) = next_field(&mut line) else {
            return Ok(());
        };
        let value = next_field(&mut line)
            .and_then(number)
            .ok_or("a number after the field's name")?;
        let bytes = match next_field(&mut line) {
            None => value,
            Some(b"kB") => value.wrapping_mul(1024),
            Some(_) => return Err("no unit but kB"),
        };
        each(key.strip_suffix(b":").unwrap_or(key), bytes);
        Ok(())
    })
}

fn new_slot(key: &[u8], out: &mut Sink) -> Option<Slot> {
    let key = label_text(key);
    let is_in = |fields: &str| fields.split(' ').any(|field| field == key);
    let suffix = match is_in(SIZES) {
        true => "_bytes",
        false if is_in(PAGES) => "",
        false => return None,
    };
    let name = key.replace('(', "_").replace(')', "") + suffix;
    let help = format!("Memory information field {name}.");
    Some(out.add(&Desc::gauge(&format!("node_memory_{name}"), &help), &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_counts() {
        let mut seen = Vec::new();
        let text = b"MemTotal:        3742148 kB\nHugePages_Total:       7\n\nActive(anon): 2 kB";
        parse(text, |key, value| {
            seen.push((String::from_utf8_lossy(key).into_owned(), value));
        })
        .expect("well formed");
        let expected = [
            ("MemTotal", 3_742_148 * 1024),
            ("HugePages_Total", 7),
            ("Active(anon)", 2048),
        ];
        assert_eq!(seen, expected.map(|(key, value)| (key.to_string(), value)));
    }

    #[test]
    fn malformed_lines_are_errors() {
        for bad in [
            &b"MemTotal:"[..],
            b"MemTotal: x kB",
            b"MemTotal: 1 MB",
            b"MemTotal: -1 kB",
        ] {
            assert!(parse(bad, |_, _| {}).is_err(), "{bad:?}");
        }
    }
}
