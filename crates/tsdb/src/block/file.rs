//! A block's file: positioned reads, errors with path and offset.
//!
//! **Invariant:** bytes are returned only after their checksum was compared.

use super::format::{
    END_MAGIC, Footer, HEADER_LEN, MAGIC, OLDEST_VERSION, SectionPlace, TAIL_LEN, VERSION, checksum,
};
use super::page::{Page, PageError};
use super::pool::{FilePool, Pooled};
use super::strips::PagePlace;
use crate::bytes::Malformed;
use crate::error::{TsdbError, io_error};
use crate::io::{Io, ReadFile, is_exhausted};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A block's file.
#[derive(Debug)]
pub(crate) struct BlockFile {
    path: PathBuf,
    source: Source,
    len: u64,
}

/// Access to the file.
#[derive(Debug)]
enum Source {
    /// Stays open.
    Held(Arc<dyn ReadFile>),
    /// Stays open while it is read often.
    Pooled(Pooled),
}

impl BlockFile {
    /// Opens a file permanently and reads its footer; returns damage of the header alone, as the footer repeats it.
    pub(crate) fn open(
        io: &dyn Io,
        path: &Path,
    ) -> Result<(Self, Footer, Option<TsdbError>), TsdbError> {
        let file = io.open(path).map_err(io_error(path, "open"))?;
        let len = file.len_bytes().map_err(io_error(path, "stat"))?;
        Self::read_ends(path, Source::Held(file), len)
    }

    /// Opens a file of a pool and reads its footer, like `open`.
    pub(crate) fn open_in(
        pool: &Arc<FilePool>,
        path: &Path,
    ) -> Result<(Self, Footer, Option<TsdbError>), TsdbError> {
        let file = pool.open(path).map_err(io_error(path, "open"))?;
        let len = file.get().and_then(|file| file.len_bytes());
        let len = len.map_err(io_error(path, "stat"))?;
        Self::read_ends(path, Source::Pooled(file), len)
    }

    fn read_ends(
        path: &Path,
        source: Source,
        len: u64,
    ) -> Result<(Self, Footer, Option<TsdbError>), TsdbError> {
        let this = Self {
            path: path.to_owned(),
            source,
            len,
        };
        let header = match this.check_header() {
            Err(error @ TsdbError::Corrupt { .. }) => Some(error),
            other => other.map(|()| None)?,
        };
        match (this.footer(), header) {
            (Ok(mut footer), header) => {
                footer.meta.bytes = len;
                Ok((this, footer, header))
            }
            // With both bad, this may not be a block.
            (Err(_), Some(error)) | (Err(error), None) => Err(error),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the error for damage at `offset`.
    pub(crate) fn corrupt(&self, offset: u64, detail: impl Into<String>) -> TsdbError {
        TsdbError::Corrupt {
            path: self.path.clone(),
            offset,
            detail: detail.into(),
        }
    }

    /// Returns the error for malformed bytes with a good checksum; `start` is their offset in the file.
    pub(crate) fn malformed(&self, start: u64, bad: &Malformed) -> TsdbError {
        self.corrupt(
            start + bad.offset as u64,
            format!("unreadable {}", bad.what),
        )
    }

    fn read(&self, offset: u64, len: u64, what: &str) -> Result<Vec<u8>, TsdbError> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !inside {
            return Err(self.corrupt(
                offset,
                format!("{what} of {len} bytes ends beyond the file's {}", self.len),
            ));
        }
        let mut bytes = vec![0; usize::try_from(len).expect("a file's part fits memory")];
        let file = match &self.source {
            Source::Held(file) => Ok(Arc::clone(file)),
            Source::Pooled(file) => file.get(),
        };
        match file.and_then(|file| file.read_exact_at(offset, &mut bytes)) {
            Ok(()) => Ok(bytes),
            Err(error) if is_exhausted(&error) => Err(io_error(&self.path, "read")(error)),
            // The file was replaced or truncated.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Err(self.corrupt(offset, format!("{what} cannot be read: {error}")))
            }
            // A read that fails may succeed later, so the bytes are not known to be bad.
            Err(error) => {
                let text = format!("{what} at byte {offset}: {error}");
                let error = io::Error::new(error.kind(), text);
                Err(io_error(&self.path, "read")(error))
            }
        }
    }

    pub(crate) fn check_header(&self) -> Result<(), TsdbError> {
        let header = self.read(0, HEADER_LEN as u64, "header")?;
        if header[..8] != MAGIC {
            return Err(self.corrupt(0, "this is no block: wrong magic"));
        }
        self.compare(&header[..12], word(&header[12..]), 0, "header")?;
        self.check_version(word(&header[8..12]))
    }

    fn check_version(&self, got: u32) -> Result<(), TsdbError> {
        if (OLDEST_VERSION..=VERSION).contains(&got) {
            return Ok(());
        }
        Err(TsdbError::Version {
            path: self.path.clone(),
            got,
            expected: VERSION,
        })
    }

    fn footer(&self) -> Result<Footer, TsdbError> {
        let tail_at = self
            .len
            .saturating_sub(TAIL_LEN as u64)
            .max(HEADER_LEN as u64);
        let tail = self.read(tail_at, TAIL_LEN as u64, "tail")?;
        if tail[12..] != END_MAGIC {
            return Err(self.corrupt(tail_at, "the file was cut off: wrong magic at its end"));
        }
        let len = u64::from(word(&tail));
        let start = tail_at
            .checked_sub(len)
            .filter(|start| *start >= HEADER_LEN as u64);
        let start = start.ok_or_else(|| self.corrupt(tail_at, "unreadable footer length"))?;
        // The checksum covers the footer and the tail's first two words.
        let bytes = self.read(start, len + 8, "footer")?;
        self.compare(&bytes, word(&tail[8..]), start, "footer")?;
        let version = word(&tail[4..]);
        self.check_version(version)?;
        Footer::decode(&bytes[..len as usize], version).map_err(|bad| self.malformed(start, &bad))
    }

    /// Reads a section.
    pub(crate) fn section(&self, place: SectionPlace, name: &str) -> Result<Arc<[u8]>, TsdbError> {
        let bytes = self.read(place.offset, place.len, name)?;
        self.compare(&bytes, place.crc, place.offset, name)?;
        Ok(bytes.into())
    }

    /// Reads a page.
    pub(crate) fn page(&self, place: PagePlace) -> Result<Page, TsdbError> {
        let bytes = self.read(place.offset, u64::from(place.len), "page")?;
        let page = Page::open(bytes).map_err(|bad| match bad {
            PageError::Checksum { expected, got } => {
                self.mismatch(place.offset, "page", expected, got)
            }
            PageError::Malformed(bad) => self.malformed(place.offset, &bad),
        })?;
        if page.chunks() as u64 == place.chunks() {
            return Ok(page);
        }
        let detail = format!(
            "page has {} chunks, expected {}",
            page.chunks(),
            place.chunks()
        );
        Err(self.corrupt(place.offset, detail))
    }

    fn compare(
        &self,
        bytes: &[u8],
        expected: u32,
        offset: u64,
        what: &str,
    ) -> Result<(), TsdbError> {
        let got = checksum(bytes);
        if got == expected {
            Ok(())
        } else {
            Err(self.mismatch(offset, what, expected, got))
        }
    }

    fn mismatch(&self, offset: u64, what: &str, expected: u32, got: u32) -> TsdbError {
        self.corrupt(
            offset,
            format!("checksum of {what} is {got:08x}, expected {expected:08x}"),
        )
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("four bytes were sliced"))
}
