//! Files that stay open: one `pread` per round instead of open, read and close.
//!
//! Invariant: at most one reopen per read, and only for errors that show that the descriptor outlived its file.

use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread};

use crate::cost;
use crate::error::{HostError, ParseError};

/// A reused buffer for whole files. It starts at 64 KiB and grows to the largest file seen.
#[derive(Debug)]
pub(crate) struct ReadBuf {
    bytes: Vec<u8>,
}

const START_BYTES: usize = 64 << 10;
/// More than six numbers of 64 bits.
const NUMBERS_BYTES: usize = 128;
const HALF_PAGE: usize = 2 << 10;
/// Far above what the kernel prints on the largest machines; keeps a hostile fixture from exhausting memory.
const LIMIT_BYTES: usize = 16 << 20;

impl ReadBuf {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; START_BYTES],
        }
    }

    /// Returns a buffer for files of up to a page.
    pub(crate) fn small() -> Self {
        Self {
            bytes: vec![0; 4 << 10],
        }
    }
}

/// How to recognise the end of a file without another read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The kernel prints the file as one record: a read that does not fill the buffer returned all of it.
    Short,
    /// The kernel prints line by line into one page at a time: a read below this many bytes was the last one. A page
    /// only stays that empty if no further line was there to fill it.
    Below(usize),
    /// A few numbers below `sys`: as `Short`, but little is asked for at a time, because for these files the kernel
    /// allocates and clears as much as it is asked for.
    Numbers,
    /// As `Below` with half a page, but only the file's first bytes are wanted, so that the kernel need not print the
    /// rest: as many are asked for at a time.
    Prefix(usize),
    /// Lines may be longer than a page: only an empty read ends the file.
    Empty,
}

/// A file that is opened at first use and stays open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    fd: Option<OwnedFd>,
    is_missing: bool,
}

impl OpenFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            fd: None,
            is_missing: false,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open descriptor, opening the file if needed.
    pub(crate) fn fd(&mut self) -> Result<&OwnedFd, Errno> {
        if self.fd.is_none() {
            cost::count(0);
            self.fd = Some(openat(
                CWD,
                &self.path,
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?);
        }
        Ok(self.fd.as_ref().expect("opened above"))
    }

    pub(crate) fn close(&mut self) {
        self.fd = None;
    }

    /// Reads the whole file as it is at this moment.
    ///
    /// # Errors
    ///
    /// `Read` when the file can't be opened or read, `TooLarge` when it does not end.
    pub(crate) fn read<'b>(
        &mut self,
        buf: &'b mut ReadBuf,
        end: End,
    ) -> Result<&'b [u8], HostError> {
        let len = self.read_until(buf, end, |_| false)?;
        Ok(&buf.bytes[..len])
    }

    /// Reads the whole file if it exists. A missing file is looked for again at a refresh.
    ///
    /// # Errors
    ///
    /// As `read`, except for a missing file.
    pub(crate) fn read_if_there<'b>(
        &mut self,
        refresh: bool,
        buf: &'b mut ReadBuf,
        end: End,
    ) -> Result<Option<&'b [u8]>, HostError> {
        if self.is_missing && !refresh {
            return Ok(None);
        }
        self.is_missing = false;
        match self.read_until(buf, end, |_| false) {
            Ok(len) => Ok(Some(&buf.bytes[..len])),
            Err(HostError::Read {
                source: Errno::NOENT | Errno::NOTDIR,
                ..
            }) => {
                self.is_missing = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the error of a malformed file.
    pub(crate) fn malformed(&self, source: ParseError) -> HostError {
        HostError::Parse {
            path: self.path.clone(),
            source,
        }
    }

    /// As `malformed`, for the expected syntax of a line.
    pub(crate) fn expected(&self, line: u32, expected: &'static str) -> HostError {
        self.malformed(ParseError { line, expected })
    }

    /// Returns the error of having nothing to report without this file.
    pub(crate) fn no_data(&self) -> HostError {
        HostError::NoData {
            path: self.path.clone(),
        }
    }

    /// Reads from the start until `enough` returns that the bytes so far suffice, or to the end.
    pub(crate) fn read_enough<'b>(
        &mut self,
        buf: &'b mut ReadBuf,
        end: End,
        enough: impl Fn(&[u8]) -> bool,
    ) -> Result<&'b [u8], HostError> {
        let len = self.read_until(buf, end, enough)?;
        Ok(&buf.bytes[..len])
    }

    fn read_until(
        &mut self,
        buf: &mut ReadBuf,
        end: End,
        enough: impl Fn(&[u8]) -> bool,
    ) -> Result<usize, HostError> {
        let mut reopened = self.fd.is_none();
        loop {
            let result = match self.fd() {
                Ok(fd) => read_from(fd, &mut buf.bytes, end, &enough),
                Err(errno) => Err(errno),
            };
            match result {
                Ok(Some(len)) => return Ok(len),
                Ok(None) => {
                    return Err(HostError::TooLarge {
                        path: self.path.clone(),
                        limit_bytes: LIMIT_BYTES,
                    });
                }
                Err(Errno::NODEV | Errno::NOENT | Errno::STALE | Errno::SRCH) if !reopened => {
                    reopened = true;
                    self.close();
                }
                Err(source) => {
                    self.close();
                    return Err(HostError::Read {
                        path: self.path.clone(),
                        source,
                    });
                }
            }
        }
    }
}

/// Reads a small file once, without keeping it open; `None` when it does not exist or can't be read.
pub(crate) fn read_once<'b>(path: &Path, buf: &'b mut ReadBuf) -> Option<&'b [u8]> {
    OpenFile::new(path.to_path_buf()).read(buf, End::Empty).ok()
}

/// Returns the length read, or `None` if the file exceeds the limit.
fn read_from(
    fd: &OwnedFd,
    bytes: &mut Vec<u8>,
    end: End,
    enough: &impl Fn(&[u8]) -> bool,
) -> Result<Option<usize>, Errno> {
    let mut len = 0;
    loop {
        if len == bytes.len() {
            if len >= LIMIT_BYTES {
                return Ok(None);
            }
            bytes.resize((len * 2).max(START_BYTES), 0);
        }
        let room = match end {
            End::Numbers => NUMBERS_BYTES.min(bytes.len() - len),
            End::Prefix(wanted) => wanted.min(bytes.len() - len),
            _ => bytes.len() - len,
        };
        let read = match pread(fd, &mut bytes[len..len + room], len as u64) {
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        cost::count(read);
        len += read;
        let ended = match end {
            End::Short | End::Numbers => read < room,
            End::Below(limit) => read < limit.min(room),
            End::Prefix(_) => read < HALF_PAGE.min(room),
            End::Empty => false,
        };
        if read == 0 || ended || enough(&bytes[..len]) {
            return Ok(Some(len));
        }
    }
}

#[cfg(test)]
mod tests;
