//! The header of a segment.
//!
//! Bytes: docs/format/segment.md

use crate::SegmentError;

const MAGIC: [u8; 8] = *b"NRTHXSEG";
const VERSION: u32 = 1;
/// Written in the machine's order: another value means another byte order.
const BYTE_ORDER: u32 = 0x0102_0304;

/// Bytes before the first cell.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Bytes at the beginning of the header that never change and have a checksum.
pub(crate) const FIXED_BYTES: usize = 256;
const CHECKSUM_AT: usize = 16;
const APP_AT: usize = 128;
const WORKER_AT: usize = 192;
/// Maximum length of an application's and a worker's name.
pub(crate) const NAME_BYTES: usize = 64;
const MARKS_AT: usize = FIXED_BYTES;

/// Maximum number of cells: 64 MiB.
pub(crate) const CELLS_MAX: u64 = 1 << 23;
/// Maximum bytes of records.
pub(crate) const RECORDS_MAX: u64 = 1 << 28;

/// Value of `state` after the writer ended.
pub(crate) const CLOSED: u64 = 2;
pub(crate) const LIVE: u64 = 1;

/// Who wrote a segment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Role {
    #[default]
    Writer = 0,
    /// The totals of ended writers, merged.
    RetiredMerged = 1,
    /// The same, with a label for each worker.
    RetiredByWorker = 2,
}

/// The part of a header that never changes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) role: Role,
    pub(crate) pid: u32,
    pub(crate) cells_max: u64,
    pub(crate) records_offset: u64,
    pub(crate) records_max: u64,
    /// Random, unlike that of any other segment.
    pub(crate) id: u64,
    pub(crate) created_ms: i64,
    /// Start of the writer in clock ticks since boot.
    pub(crate) pid_start: u64,
    pub(crate) pid_namespace: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) app: String,
    pub(crate) worker: String,
}

/// The part of a header that its writer changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Marks {
    pub(crate) state: u64,
    /// Bytes of complete records.
    pub(crate) records_used: u64,
    pub(crate) cells_used: u64,
    /// Series that the writer had no room for.
    pub(crate) refused: u64,
}

impl Header {
    /// Parses the first bytes of a segment.
    ///
    /// # Errors
    /// Fails unless everything is within bounds.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, SegmentError> {
        let fail = |reason| SegmentError::Header { reason };
        let fixed = bytes.get(..FIXED_BYTES).ok_or(SegmentError::Truncated {
            expected: FIXED_BYTES as u64,
        })?;
        if !fixed.starts_with(&MAGIC) {
            return Err(fail("not a segment"));
        }
        if u32_at(fixed, 12) != BYTE_ORDER {
            return Err(fail("another byte order"));
        }
        if u32_at(fixed, 8) != VERSION {
            return Err(fail("unknown version"));
        }
        if u32_at(fixed, CHECKSUM_AT) != checksum(fixed, CHECKSUM_AT) {
            return Err(fail("checksum"));
        }
        let (cells_max, records_max) = (u64_at(fixed, 32), u64_at(fixed, 48));
        if cells_max > CELLS_MAX || records_max > RECORDS_MAX {
            return Err(fail("too large"));
        }
        let records_offset = u64_at(fixed, 40);
        let cells_end = HEADER_BYTES as u64 + 8 * cells_max;
        let is_within = (cells_end..=1 << 40).contains(&records_offset);
        if u64_at(fixed, 24) != HEADER_BYTES as u64
            || !is_within
            || !records_offset.is_multiple_of(8)
        {
            return Err(fail("overlapping areas"));
        }
        let role = match u32_at(fixed, 104) {
            0 => Role::Writer,
            1 => Role::RetiredMerged,
            2 => Role::RetiredByWorker,
            _ => return Err(fail("unknown role")),
        };
        let app = name(fixed, APP_AT, u16_at(fixed, 108)).ok_or(fail("application"))?;
        let worker = name(fixed, WORKER_AT, u16_at(fixed, 110)).ok_or(fail("worker"))?;
        if app.is_empty() {
            return Err(fail("application"));
        }
        Ok(Self {
            role,
            pid: u32_at(fixed, 20),
            cells_max,
            records_offset,
            records_max,
            id: u64_at(fixed, 56),
            created_ms: u64_at(fixed, 64).cast_signed(),
            pid_start: u64_at(fixed, 72),
            pid_namespace: u64_at(fixed, 80),
            boot_id: array_at(fixed, 88),
            app,
            worker,
        })
    }

    /// Renders a whole header.
    pub(crate) fn encode(&self, marks: &Marks) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let length = |text: &str| u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes();
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &BYTE_ORDER.to_le_bytes());
        put(20, &self.pid.to_le_bytes());
        put(24, &(HEADER_BYTES as u64).to_le_bytes());
        put(32, &self.cells_max.to_le_bytes());
        put(40, &self.records_offset.to_le_bytes());
        put(48, &self.records_max.to_le_bytes());
        put(56, &self.id.to_le_bytes());
        put(64, &self.created_ms.to_le_bytes());
        put(72, &self.pid_start.to_le_bytes());
        put(80, &self.pid_namespace.to_le_bytes());
        put(88, &self.boot_id);
        put(104, &(self.role as u32).to_le_bytes());
        put(108, &length(&self.app));
        put(110, &length(&self.worker));
        put(APP_AT, self.app.as_bytes());
        put(WORKER_AT, self.worker.as_bytes());
        put(MARKS_AT, &marks.state.to_le_bytes());
        put(MARKS_AT + 8, &marks.records_used.to_le_bytes());
        put(MARKS_AT + 16, &marks.cells_used.to_le_bytes());
        put(MARKS_AT + 24, &marks.refused.to_le_bytes());
        let sum = checksum(&out[..FIXED_BYTES], CHECKSUM_AT);
        out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Parses the marks of a header whose fixed part is this one.
    ///
    /// # Errors
    /// Fails when they exceed what the header reserves.
    pub(crate) fn marks(&self, bytes: &[u8]) -> Result<Marks, SegmentError> {
        let marks = Marks {
            state: u64_at(bytes, MARKS_AT),
            records_used: u64_at(bytes, MARKS_AT + 8),
            cells_used: u64_at(bytes, MARKS_AT + 16),
            refused: u64_at(bytes, MARKS_AT + 24),
        };
        if marks.records_used > self.records_max || marks.cells_used > self.cells_max {
            let reason = "uses more than it has";
            return Err(SegmentError::Header { reason });
        }
        Ok(marks)
    }
}

/// Returns a name that is usable as a part of a file's name.
fn name(fixed: &[u8], at: usize, len: u16) -> Option<String> {
    let len = usize::from(len);
    let bytes = fixed.get(at..at + len.min(NAME_BYTES))?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let is_name = len <= NAME_BYTES && bytes.iter().all(is_plain) && !bytes.starts_with(b".");
    is_name.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the CRC-32C of `bytes` without the four bytes at `at`.
pub(crate) fn checksum(bytes: &[u8], at: usize) -> u32 {
    let before = crc32c::crc32c(bytes.get(..at).unwrap_or_default());
    crc32c::crc32c_append(before, bytes.get(at + 4..).unwrap_or_default())
}

/// Returns `N` bytes, or zeros beyond the end.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk().copied())
        .unwrap_or([0; N])
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            role: Role::Writer,
            pid: 7,
            cells_max: 16,
            records_offset: 8192,
            records_max: 4096,
            id: 9,
            created_ms: 1_700_000_000_000,
            pid_start: 3,
            pid_namespace: 4,
            boot_id: [5; 16],
            app: "shop".to_owned(),
            worker: "1".to_owned(),
        }
    }

    #[test]
    fn a_header_comes_back() {
        let marks = Marks {
            state: LIVE,
            records_used: 40,
            cells_used: 16,
            refused: 2,
        };
        let bytes = header().encode(&marks);
        let parsed = Header::parse(&bytes).unwrap();
        assert_eq!((parsed.marks(&bytes).unwrap(), parsed), (marks, header()));
    }

    #[test]
    fn bad_headers_are_refused() {
        let good = header().encode(&Marks::default());
        let fault = |change: &dyn Fn(&mut Header)| {
            let mut changed = header();
            change(&mut changed);
            let error = Header::parse(&changed.encode(&Marks::default()));
            error.unwrap_err().to_string()
        };
        assert_eq!(fault(&|h| h.app = "a/b".into()), "header: application");
        assert_eq!(fault(&|h| h.app = "..".into()), "header: application");
        assert_eq!(fault(&|h| h.app.clear()), "header: application");
        assert_eq!(fault(&|h| h.cells_max = CELLS_MAX + 1), "header: too large");
        let overlap = "header: overlapping areas";
        assert_eq!(fault(&|h| h.records_offset = 4096), overlap);
        assert_eq!(fault(&|h| h.records_offset = 8193), overlap);
        for (at, reason) in [
            (0, "not a segment"),
            (8, "unknown version"),
            (12, "another byte order"),
            (130, "checksum"),
        ] {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            let error = Header::parse(&bytes).unwrap_err().to_string();
            assert_eq!(error, format!("header: {reason}"));
        }
        assert!(Header::parse(&good[..255]).is_err());
        let beyond = header().encode(&Marks {
            cells_used: 17,
            ..Marks::default()
        });
        assert!(header().marks(&beyond).is_err());
    }
}
