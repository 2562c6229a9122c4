//! Writes one segment: its header, metrics, series and cells.
//!
//! Bytes: docs/format/segment.md
//!
//! **Invariant:** what the watermark covers never changes, and nothing outside what is allocated is touched.

use super::map::{self, Map};
use super::{GaugeMerge, SegmentOptions};
use crate::clock::unix_ms;
use crate::metric::Spec;
use crate::summary::Coarse;
use crate::visit::MetricType;
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::Ordering::{Relaxed, Release};

const HEADER_BYTES: usize = 4096;
const FIXED_BYTES: usize = 256;
const STATE: usize = 256;
const RECORDS_USED: usize = 264;
const CELLS_USED: usize = 272;
const REFUSED: usize = 280;
const LIVE: u64 = 1;
const CLOSED: u64 = 2;
/// Cells and records grow by this much at once.
const STEP_BYTES: usize = 1 << 16;
/// Maximum length of a record.
const LENGTH_MAX: usize = 1 << 20;
/// Types of metrics that say more than the others.
const GAUGE: u8 = 3;
const SUMMARY: u8 = 5;
/// Maximum number of quantiles that readers take.
const QUANTILES_MAX: usize = 64;

/// A metric that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    place: u32,
    switch: usize,
}

/// A segment of this process.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    map: Map,
    path: PathBuf,
    cells: Area,
    records: Area,
}

/// A part of the file: what is used of it, allocated and reserved, in bytes.
#[derive(Debug)]
struct Area {
    offset: usize,
    used: usize,
    allocated: usize,
    reserved: usize,
}

impl Area {
    /// Makes room for `len` more bytes.
    fn grow(&mut self, file: &File, len: usize) -> io::Result<()> {
        let needed = self.used + len;
        if needed > self.reserved {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if needed > self.allocated {
            let target = needed.next_multiple_of(STEP_BYTES).min(self.reserved);
            map::allocate(file, self.offset + self.allocated, target - self.allocated)?;
            self.allocated = target;
        }
        Ok(())
    }
}

impl Writer {
    /// Creates a segment in the directory that `options` name.
    ///
    /// # Errors
    /// Fails when the directory cannot be written, the file system is full, or a name cannot be part of a file's.
    pub(super) fn create(options: &SegmentOptions) -> io::Result<Self> {
        for name in [&options.app, &options.worker] {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            if name.len() > 64 || !name.bytes().all(is_plain) || name.starts_with('.') {
                let text = format!("{name:?} is no name of an application or a worker");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        if options.app.is_empty() {
            let text = "an application needs a name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        make_dir(&options.dir)?;
        let id = RandomState::new().hash_one(process::id());
        let name = format!("{}-{}-{id:016x}.segment", options.app, process::id());
        let (path, new) = (options.dir.join(&name), options.dir.join(name + ".new"));
        let mut open = OpenOptions::new();
        let open = open.read(true).write(true).create_new(true);
        let file = open.mode(options.mode).open(&new)?;
        let writer = Self::fill(file, options, id, path).and_then(|writer| {
            fs::rename(&new, &writer.path)?;
            Ok(writer)
        });
        if writer.is_err() {
            // The reason for the failure matters more; a reader removes what is left.
            let _ = fs::remove_file(&new);
        }
        writer
    }

    fn fill(file: File, options: &SegmentOptions, id: u64, path: PathBuf) -> io::Result<Self> {
        file.try_lock()?;
        let cells = (8 * options.max_cells).min(8 << 23);
        let records = options.max_record_bytes.next_multiple_of(8).min(1 << 28);
        let records_offset = (HEADER_BYTES + cells).next_multiple_of(4096);
        let area = |offset, reserved| Area {
            offset,
            used: 0,
            allocated: 0,
            reserved,
        };
        file.set_len((records_offset + records) as u64)?;
        map::allocate(&file, 0, HEADER_BYTES)?;
        let mut writer = Self {
            map: Map::new(&file, records_offset + records)?,
            file,
            path,
            cells: area(HEADER_BYTES, cells),
            records: area(records_offset, records),
        };
        writer.cells.grow(&writer.file, cells.min(STEP_BYTES))?;
        writer.records.grow(&writer.file, records.min(STEP_BYTES))?;
        let header = writer.header(options, id)?;
        writer.map.write(0, &header);
        writer.map.cell(STATE).store(LIVE, Release);
        Ok(writer)
    }

    fn header(&self, options: &SegmentOptions, id: u64) -> io::Result<Vec<u8>> {
        let (cells, records) = (&self.cells, &self.records);
        let mut out = vec![0; FIXED_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"NRTHXSEG");
        put(8, &1_u32.to_le_bytes());
        // In this machine's order, unlike all others.
        put(12, &0x0102_0304_u32.to_ne_bytes());
        put(20, &process::id().to_le_bytes());
        put(24, &(cells.offset as u64).to_le_bytes());
        put(32, &(cells.reserved as u64 / 8).to_le_bytes());
        put(40, &(records.offset as u64).to_le_bytes());
        put(48, &(records.reserved as u64).to_le_bytes());
        put(56, &id.to_le_bytes());
        put(64, &unix_ms().to_le_bytes());
        put(72, &start_of_process()?.to_le_bytes());
        put(80, &fs::metadata("/proc/self/ns/pid")?.ino().to_le_bytes());
        put(88, &boot_id()?.to_be_bytes());
        put(108, &(options.app.len() as u16).to_le_bytes());
        put(110, &(options.worker.len() as u16).to_le_bytes());
        put(128, options.app.as_bytes());
        put(192, options.worker.as_bytes());
        let sum = checksum(&[&out[..16], &out[20..]]);
        out[16..20].copy_from_slice(&sum.to_le_bytes());
        Ok(out)
    }

    /// Adds a metric; `None` if there is no room for it, or readers would not take it.
    pub(super) fn metric(&mut self, spec: &Spec, merge: Option<GaugeMerge>) -> Option<Metric> {
        let Spec { name, help, .. } = spec;
        let (kind, numbers): (u8, &[f64]) = match spec.kind {
            MetricType::Counter => (1, &[]),
            MetricType::Gauge | MetricType::Untyped => (GAUGE, &[]),
            MetricType::Histogram => (4, spec.bounds),
            MetricType::Summary => (SUMMARY, spec.quantiles),
        };
        if kind == SUMMARY && numbers.len() > QUANTILES_MAX {
            return None;
        }
        // A help text that is too long is cut, at a character's end.
        let help = &help[..help.floor_char_boundary(1 << 12)];
        let mut record = vec![0; 40];
        (record[8], record[9]) = (1, kind);
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &u16::try_from(name.len()).ok()?.to_le_bytes());
        put(20, &u16::try_from(help.len()).ok()?.to_le_bytes());
        put(22, &u16::try_from(numbers.len()).ok()?.to_le_bytes());
        match kind {
            GAUGE => put(10, &[merge.unwrap_or(GaugeMerge::Each) as u8]),
            SUMMARY => {
                put(11, &[Coarse::BITS]);
                put(24, &Coarse::FIRST.to_le_bytes());
                put(26, &Coarse::OCTAVES.to_le_bytes());
                let steps = u16::try_from(spec.age_buckets).unwrap_or(u16::MAX);
                put(28, &steps.to_le_bytes());
                let max_age_ms = u64::try_from(spec.max_age.as_millis()).unwrap_or(u64::MAX);
                put(32, &max_age_ms.to_le_bytes());
            }
            _ => {}
        }
        record.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        record.extend_from_slice(name.as_bytes());
        record.extend_from_slice(help.as_bytes());
        let place = u32::try_from(self.records.used / 8).ok()?;
        let switch = self.push(record, 12, 1)?;
        Some(Metric { place, switch })
    }

    /// Adds a series with `cells` cells, its labels rendered without braces; returns its first cell. `None` if there is
    /// no room for it, which is counted.
    pub(super) fn series(&mut self, metric: Metric, labels: &[u8], cells: usize) -> Option<usize> {
        let mut record = vec![0; 24];
        record[8] = 2;
        record[12..16].copy_from_slice(&metric.place.to_le_bytes());
        let len = u32::try_from(labels.len()).unwrap_or(u32::MAX);
        record[20..24].copy_from_slice(&len.to_le_bytes());
        record.extend_from_slice(labels);
        self.push(record, 16, cells)
    }

    /// Counts a series that there was no room for.
    pub(super) fn refuse(&self) {
        let refused = self.map.cell(REFUSED);
        refused.store(refused.load(Relaxed) + 1, Relaxed);
    }

    /// Returns how many series were refused.
    pub(super) fn refused(&self) -> u64 {
        self.map.cell(REFUSED).load(Relaxed)
    }

    /// Reports whether a metric is switched on.
    pub(super) fn is_on(&self, metric: Metric) -> bool {
        self.cell(metric.switch) == 0
    }

    /// Returns a cell.
    pub(super) fn cell(&self, at: usize) -> u64 {
        self.map.cell(self.cells.offset + 8 * at).load(Relaxed)
    }

    /// Sets a cell.
    pub(super) fn set(&self, at: usize, value: u64) {
        self.map
            .cell(self.cells.offset + 8 * at)
            .store(value, Relaxed);
    }

    /// Publishes a record with new cells, whose first is written at `cell_at` in it.
    fn push(&mut self, mut record: Vec<u8>, cell_at: usize, cells: usize) -> Option<usize> {
        record.resize(record.len().next_multiple_of(8), 0);
        let len = record.len();
        let is_long = len > LENGTH_MAX;
        let has_room = !is_long
            && self.cells.grow(&self.file, 8 * cells).is_ok()
            && self.records.grow(&self.file, len).is_ok();
        if !has_room {
            return None;
        }
        let first = self.cells.used / 8;
        self.cells.used += 8 * cells;
        record[..4].copy_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
        record[cell_at..cell_at + 4].copy_from_slice(&u32::try_from(first).ok()?.to_le_bytes());
        let sum = checksum(&[&record[..4], &record[8..]]);
        record[4..8].copy_from_slice(&sum.to_le_bytes());
        self.map
            .write(self.records.offset + self.records.used, &record);
        self.records.used += len;
        self.map
            .cell(CELLS_USED)
            .store(self.cells.used as u64 / 8, Release);
        self.map
            .cell(RECORDS_USED)
            .store(self.records.used as u64, Release);
        Some(first)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.map.cell(STATE).store(CLOSED, Release);
    }
}

/// Creates a directory with mode 2770, so that a server of its group can remove segments, unless it exists.
fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, Permissions::from_mode(0o2770))
}

/// Returns when this process started, in clock ticks since boot.
fn start_of_process() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let start = fields.split_ascii_whitespace().nth(19);
    start
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn boot_id() -> io::Result<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16)
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns the CRC-32C of some bytes.
fn checksum(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    !bytes.fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            sum >> 1 ^ (sum & 1).wrapping_neg() & 0x82f6_3b78
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_castagnoli_one() {
        assert_eq!(checksum(&[b"1234", b"56789"]), 0xe306_9283);
    }
}
